package machinetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// outputLimit is what the suite lets an exec keep.
const outputLimit = 1 << 16

// Driver checks a way of making machines. open gives a driver as a fresh process would make it: two of one test share
// whatever lies outside the process. It skips the test where machines cannot be made.
func Driver(t *testing.T, open func(t *testing.T) driver.Driver) {
	t.Run("an image can be used", func(t *testing.T) { usableImage(t, open(t)) })
	t.Run("check proves that guests can be made", func(t *testing.T) {
		if _, err := open(t).Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("exec", func(t *testing.T) { checkGuestExec(t, create(t, open(t)).guest) })
	t.Run("exec past its timeout", func(t *testing.T) { checkGuestTimeout(t, create(t, open(t)).guest) })
	t.Run("cancelling an exec kills its group", func(t *testing.T) { checkGuestCancel(t, create(t, open(t)).guest) })
	t.Run("transfers", func(t *testing.T) { checkGuestTransfers(t, create(t, open(t)).guest) })
	t.Run("transfers go beside an exec", func(t *testing.T) { checkBeside(t, create(t, open(t)).guest) })
	t.Run("another process adopts a running machine", func(t *testing.T) { checkAdopt(t, open) })
	t.Run("destroy leaves nothing and may be repeated", func(t *testing.T) { checkDestroy(t, open) })
	t.Run("destroy ends a running exec", func(t *testing.T) { checkDestroyDuringExec(t, create(t, open(t)).guest) })
	t.Run("sweep spares the living and takes the forgotten", func(t *testing.T) { checkSweep(t, open) })
}

// made is one machine of a test.
type made struct {
	spec  driver.Spec
	guest driver.Guest
}

func usableImage(t *testing.T, d driver.Driver) string {
	t.Helper()
	images, err := d.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(images, func(i driver.Image) bool { return i.Unavailable == "" })
	if i < 0 {
		t.Fatalf("no image can be used: %+v", images)
	}
	return images[i].Name
}

// create makes a machine that is destroyed at the end of the test.
func create(t *testing.T, d driver.Driver) made {
	t.Helper()
	name := "suite-" + randomHex(3)
	// Not t.TempDir: its path carries the test's name, and the socket paths of guests are bounded at about 100 bytes.
	parent, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	folder := filepath.Join(parent, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	m := made{spec: driver.Spec{
		Name: name, Image: usableImage(t, d), Folder: folder, Nonce: randomHex(16), Network: "nat",
		Until: time.Now().Add(ttl), Grace: time.Hour,
	}}
	m.guest, _, err = d.Create(t.Context(), m.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := m.guest.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy at the end: %v", err)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Errorf("the folder cannot be removed after Destroy: %v", err)
		}
	})
	if !m.guest.Alive() {
		t.Fatal("a guest just made is not alive")
	}
	return m
}

func inGuest(t *testing.T, g driver.Guest, argv ...string) (int, string) {
	t.Helper()
	code, output, err := g.Exec(t.Context(), argv, 30*time.Second, outputLimit)
	if err != nil {
		t.Fatalf("Exec %q: %v", argv, err)
	}
	return code, string(output)
}

func folderIn(t *testing.T, g driver.Guest) string {
	t.Helper()
	_, output := inGuest(t, g, "mktemp", "-d", "/var/tmp/suite.XXXXXX")
	folder := strings.TrimSpace(output)
	t.Cleanup(func() {
		_, _, _ = g.Exec(context.Background(), []string{"rm", "-rf", folder}, 10*time.Second, outputLimit)
	})
	return folder
}

func checkGuestExec(t *testing.T, g driver.Guest) {
	cases := []struct {
		name string
		argv []string
		code int
		want string
	}{
		{"words stay whole", []string{"/bin/echo", "a  b", "$HOME"}, 0, "a  b $HOME\n"},
		{"exit status", []string{"/bin/sh", "-c", "exit 42"}, 42, ""},
		{"both streams", []string{"/bin/sh", "-c", "echo out; echo err >&2"}, 0, "out\nerr\n"},
		{"empty stdin", []string{"/bin/sh", "-c", "cat; echo end"}, 0, "end\n"},
		{"through PATH", []string{"true"}, 0, ""},
		{"the end of long output", []string{"/bin/sh", "-c", `head -c 1000000 /dev/zero | tr '\0' x; printf END`}, 0,
			strings.Repeat("x", outputLimit-3) + "END"},
		{"home is the working directory", []string{"/bin/sh", "-c", `[ "$(pwd -P)" = "$(cd && pwd -P)" ] && echo same`}, 0, "same\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, output := inGuest(t, g, c.argv...)
			if code != c.code || output != c.want {
				t.Errorf("Exec = %d, %d bytes ending %q, want %d, %d bytes", code, len(output), output[max(0, len(output)-40):], c.code, len(c.want))
			}
		})
	}
	t.Run("a large argument", func(t *testing.T) {
		word := strings.Repeat("y", 100_000)
		if _, output := inGuest(t, g, "/bin/sh", "-c", `printf %s "$1" | wc -c`, "sh", word); strings.TrimSpace(output) != "100000" {
			t.Errorf("the argument arrived with %s bytes", strings.TrimSpace(output))
		}
	})
}

func checkGuestTimeout(t *testing.T, g driver.Guest) {
	folder := folderIn(t, g)
	_, output, err := g.Exec(t.Context(), []string{"/bin/sh", "-c", "echo before; sleep 47 & echo $! > " + folder + "/child; wait"}, time.Second, outputLimit)
	if !errors.Is(err, driver.ErrTimeout) || string(output) != "before\n" {
		t.Fatalf("Exec = %q, %v, want the output so far and ErrTimeout", output, err)
	}
	wantChildGone(t, g, folder+"/child")
}

func checkGuestCancel(t *testing.T, g driver.Guest) {
	folder := folderIn(t, g)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := g.Exec(ctx, []string{"/bin/sh", "-c", "sleep 47 & echo $! > " + folder + "/tmp; mv " + folder + "/tmp " + folder + "/child; wait"}, time.Minute, outputLimit)
		ended <- err
	}()
	awaitInGuest(t, g, folder+"/child")
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a cancelled Exec succeeded")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a cancelled Exec does not return")
	}
	wantChildGone(t, g, folder+"/child")
}

// awaitInGuest waits until the guest has the file, asking beside whatever runs there.
func awaitInGuest(t *testing.T, g driver.Guest, path string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if code, _ := inGuest(t, g, "test", "-e", path); code == 0 {
			return
		}
	}
	t.Fatalf("%s never appeared in the guest", path)
}

// wantChildGone waits until the process whose id the file holds has ended, zombies not counted.
func wantChildGone(t *testing.T, g driver.Guest, file string) {
	t.Helper()
	script := `read pid < "$1"; ! [ -e /proc/$pid ] || grep -q '^State:.*Z' /proc/$pid/status`
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if code, _ := inGuest(t, g, "/bin/sh", "-c", script, "sh", file); code == 0 {
			return
		}
	}
	t.Fatal("a child of the ended command still runs")
}

func checkGuestTransfers(t *testing.T, g driver.Guest) {
	host, guest := t.TempDir(), folderIn(t, g)
	content := make([]byte, 2<<20)
	rand.Read(content)
	tree := filepath.Join(host, "tree")
	file := filepath.Join(tree, "sub", "file")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o755)); err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, local, remote, probe string }{
		{"a file", file, guest + "/file", "/file"},
		{"a tree", tree, guest + "/tree", "/tree/sub/file"},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := g.Push(t.Context(), c.local, c.remote); err != nil {
				t.Fatalf("Push: %v", err)
			}
			if code, _ := inGuest(t, g, "test", "-x", guest+c.probe); code != 0 {
				t.Error("the pushed file lost its execute bit")
			}
			out := filepath.Join(host, "out"+string(rune('0'+i)))
			if err := g.Pull(t.Context(), guest+c.probe, out); err != nil {
				t.Fatalf("Pull: %v", err)
			}
			if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, content) {
				t.Errorf("pulled %d bytes, %v, want the %d pushed", len(got), err, len(content))
			}
		})
	}
	checkRefusedTransfers(t, g, host, guest, file)
}

func checkRefusedTransfers(t *testing.T, g driver.Guest, host, guest, file string) {
	links := filepath.Join(host, "links")
	if err := errors.Join(os.Mkdir(links, 0o755), os.Symlink("/etc/passwd", filepath.Join(links, "link"))); err != nil {
		t.Fatal(err)
	}
	inGuest(t, g, "ln", "-s", "/etc/passwd", guest+"/link")
	out := filepath.Join(host, "refused")
	cases := []struct {
		name string
		call func() error
		want error
	}{
		{"push of a missing file", func() error { return g.Push(t.Context(), filepath.Join(host, "none"), guest+"/none") }, driver.ErrMissing},
		{"pull of a missing file", func() error { return g.Pull(t.Context(), guest+"/none", out) }, driver.ErrMissing},
		{"push of a symlink in a tree", func() error { return g.Push(t.Context(), links, guest+"/links") }, driver.ErrUnsafePath},
		{"pull of a symlink", func() error { return g.Pull(t.Context(), guest+"/link", out) }, driver.ErrUnsafePath},
		{"pull of a device", func() error { return g.Pull(t.Context(), "/dev/zero", out) }, driver.ErrUnsafePath},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := c.call(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if _, err := os.Lstat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a refused pull left %s", out)
			}
		})
	}
	if err := g.Push(t.Context(), file, guest+"/no/such/folder/file"); err == nil {
		t.Error("Push made the missing parents of its target")
	}
}

func checkBeside(t *testing.T, g driver.Guest) {
	guest := folderIn(t, g)
	ended := make(chan error, 1)
	go func() {
		script := "touch " + guest + "/started; while ! [ -e " + guest + "/go ]; do sleep 0.05; done"
		code, output, err := g.Exec(context.Background(), []string{"/bin/sh", "-c", script}, 30*time.Second, outputLimit)
		if err == nil && code != 0 {
			err = errors.New(string(output))
		}
		ended <- err
	}()
	awaitInGuest(t, g, guest+"/started")
	file := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Push(t.Context(), file, guest+"/go"); err != nil {
		t.Fatalf("Push beside an exec: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("the exec that waited for the push: %v", err)
	}
}

func checkAdopt(t *testing.T, open func(*testing.T) driver.Driver) {
	m := create(t, open(t))
	adopted, err := open(t).Adopt(t.Context(), m.spec)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	if !adopted.Alive() {
		t.Error("an adopted machine is not alive")
	}
	if _, output := inGuest(t, adopted, "/bin/echo", "adopted"); output != "adopted\n" {
		t.Errorf("Exec in an adopted machine = %q", output)
	}
	if err := adopted.Renew(t.Context(), time.Now().Add(2*ttl)); err != nil {
		t.Errorf("Renew: %v", err)
	}
	other := m.spec
	other.Nonce = randomHex(16)
	if _, err := open(t).Adopt(t.Context(), other); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Adopt with another nonce = %v, want ErrGone", err)
	}
	if !adopted.Alive() {
		t.Error("a refused adoption ended the machine")
	}
}

func checkDestroy(t *testing.T, open func(*testing.T) driver.Driver) {
	m := create(t, open(t))
	inGuest(t, m.guest, "/bin/sh", "-c", "sleep 300 >/dev/null 2>&1 & setsid sleep 300 >/dev/null 2>&1 &")
	if err := m.guest.Destroy(t.Context()); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	if m.guest.Alive() {
		t.Error("a destroyed machine is alive")
	}
	if _, err := open(t).Adopt(t.Context(), m.spec); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Adopt of a destroyed machine = %v, want ErrGone", err)
	}
	if err := m.guest.Destroy(t.Context()); err != nil {
		t.Errorf("a second Destroy: %v", err)
	}
	if _, _, err := m.guest.Exec(t.Context(), []string{"true"}, time.Second, outputLimit); err == nil {
		t.Error("Exec in a destroyed machine succeeded")
	}
}

func checkDestroyDuringExec(t *testing.T, g driver.Guest) {
	folder := folderIn(t, g)
	ended := make(chan error, 1)
	go func() {
		_, _, err := g.Exec(context.Background(), []string{"/bin/sh", "-c", "touch " + folder + "/started; sleep 60"}, time.Minute, outputLimit)
		ended <- err
	}()
	awaitInGuest(t, g, folder+"/started")
	if err := g.Destroy(t.Context()); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	select {
	case <-ended: // with an error, or with the status of a killed command
	case <-time.After(10 * time.Second):
		t.Fatal("Exec does not return after its machine was destroyed")
	}
}

func checkSweep(t *testing.T, open func(*testing.T) driver.Driver) {
	kept, forgotten := create(t, open(t)), create(t, open(t))
	if err := os.RemoveAll(forgotten.spec.Folder); err != nil {
		t.Fatal(err)
	}
	live := map[string]bool{kept.spec.Name: true}
	removed, err := open(t).Sweep(t.Context(), live)
	if err != nil {
		t.Fatalf("Sweep: %v", err)
	}
	if !kept.guest.Alive() {
		t.Error("Sweep took a machine that is live")
	}
	if forgotten.guest.Alive() {
		t.Errorf("Sweep spared a machine that nobody owns; it removed %q", removed)
	}
}
