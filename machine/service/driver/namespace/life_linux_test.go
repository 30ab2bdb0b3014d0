package namespace

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// serviceArg starts the test binary as a service that makes one guest and waits to be killed.
const serviceArg = "service-to-be-killed"

func runService(stateDir, specText string) int {
	var spec driver.Spec
	if err := json.Unmarshal([]byte(specText), &spec); err != nil {
		return 2
	}
	d := New(Options{StateDir: stateDir, Log: zerolog.New(os.Stderr)})
	g, _, err := d.Create(context.Background(), spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, _, err := g.Exec(context.Background(), []string{"sh", "-c", "echo here > /root/file"}, patience, 100); err != nil {
		return 1
	}
	go g.Exec(context.Background(), []string{"sh", "-c", "echo began > /root/long; sleep 1; echo done > /root/long"}, patience, 100)
	for code := 1; code != 0; {
		if code, _, err = g.Exec(context.Background(), []string{"test", "-e", "/root/long"}, patience, 100); err != nil {
			return 1
		}
	}
	fmt.Println("ready")
	select {}
}

// serveAndDie makes a guest in another process and kills that process with SIGKILL.
func serveAndDie(t *testing.T, stateDir string, spec driver.Spec) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, serviceArg, stateDir, string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("service said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func TestGuestSurvivesItsServiceAndAnswersTheNext(t *testing.T) {
	dir := t.TempDir()
	spec := newSpec(t, dir, uniqueName())
	serveAndDie(t, dir, spec)

	d := newDriver(t, dir)
	g, err := d.Adopt(t.Context(), spec)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	defer g.Destroy(t.Context())
	if out := sh(t, g, "cat /root/file"); out != "here\n" {
		t.Errorf("the guest's file holds %q", out)
	}
	eventually(t, "the command begun by the dead service runs to its end", func() bool {
		_, out := run(t, g, "cat", "/root/long")
		return out == "done\n"
	})
	if err := g.Renew(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Errorf("Renew: %v", err)
	}
	removed, err := d.Sweep(t.Context(), map[string]bool{spec.Name: true})
	if err != nil || len(removed) > 0 {
		t.Errorf("Sweep of a live guest removed %v, %v", removed, err)
	}
	if err := g.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	wantNothingLeft(t, d)
}

func TestAdoptRefusesAnotherNonce(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	spec := newSpec(t, dir, uniqueName())
	g, _ := create(t, d, spec)
	spec.Nonce = rand.Text()
	if _, err := d.Adopt(t.Context(), spec); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Adopt with a wrong nonce: %v, want ErrGone", err)
	}
	wrong := newGuest(spec, g.record, g.handle)
	if _, _, err := wrong.Exec(t.Context(), []string{"true"}, patience, 100); err == nil {
		t.Error("the guest runs a command for who does not know its nonce")
	}
}

func TestSweepEndsOnlyGuestsOfItsOwnStateFolder(t *testing.T) {
	dir, otherDir := t.TempDir(), t.TempDir()
	spec, other := newSpec(t, dir, uniqueName()), newSpec(t, otherDir, uniqueName())
	serveAndDie(t, dir, spec)
	otherDriver := newDriver(t, otherDir)
	g, _ := create(t, otherDriver, other)

	d := newDriver(t, dir)
	removed, err := d.Sweep(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(removed) == 0 || !strings.Contains(strings.Join(removed, " "), spec.Name) {
		t.Errorf("Sweep removed %v, want guest %s", removed, spec.Name)
	}
	wantNothingLeft(t, d)
	if !g.Alive() {
		t.Error("Sweep ended the guest of another service")
	}
	if _, err := d.Adopt(t.Context(), spec); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Adopt of a swept guest: %v, want ErrGone", err)
	}
}

func TestGuestEndsItselfWhenNobodyRenews(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	spec := newSpec(t, dir, uniqueName())
	spec.Until, spec.Grace = time.Now().Add(2*time.Second), 0
	serveAndDie(t, dir, spec)
	r, err := readRecord(spec.Folder)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the guest has ended", func() bool {
		_, running := initAt(r.Init.PID)
		return !running
	})
	if time.Now().Before(spec.Until) {
		t.Error("the guest ended before its lease")
	}
	if _, err := d.Adopt(t.Context(), spec); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Adopt: %v, want ErrGone", err)
	}
	wantNothingLeft(t, d)
}

func TestRenewalKeepsTheGuest(t *testing.T) {
	dir := t.TempDir()
	spec := newSpec(t, dir, uniqueName())
	spec.Until, spec.Grace = time.Now().Add(2*time.Second), 0
	g, _ := create(t, newDriver(t, dir), spec)
	if err := g.Renew(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if g.handle.Wait(time.Until(spec.Until) + time.Second) {
		t.Error("the guest ended at the end of its first lease, though it was renewed")
	}
	if err := g.Renew(t.Context(), time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if !g.handle.Wait(patience) {
		t.Error("the guest outlives the end of its renewed lease")
	}
	if _, _, err := g.Exec(t.Context(), []string{"true"}, patience, 10); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Exec in a guest that has ended: %v, want ErrGone", err)
	}
}

func TestDestroyEndsDaemonsAndIsIdempotent(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	spec := newSpec(t, dir, uniqueName())
	g, _ := create(t, d, spec)
	sh(t, g, "setsid sh -c 'exec sleep 7777' >/dev/null 2>&1 & echo started")
	namespaces := namespacesOf(t, g.record.Init.PID)
	eventually(t, "the daemon runs", func() bool { return len(membersOf(g.record.PIDNamespace)) >= 2 })
	for range 2 {
		if err := g.Destroy(t.Context()); err != nil {
			t.Fatalf("Destroy: %v", err)
		}
	}
	if g.Alive() {
		t.Error("alive after Destroy")
	}
	wantNothingLeft(t, d)
	if entries, err := os.ReadDir(spec.Folder); err != nil || len(entries) > 0 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	pids, err := proc.Pids()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		for kind, inode := range namespacesOf(t, pid) {
			if inode != "" && inode == namespaces[kind] && kind != "user-of-host" && inode != namespacesOf(t, os.Getpid())[kind] {
				t.Errorf("process %d is in the guest's %s namespace", pid, kind)
			}
		}
	}
	if _, _, err := g.Exec(t.Context(), []string{"true"}, patience, 10); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Exec after Destroy: %v, want ErrGone", err)
	}
}

func namespacesOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		found[kind], _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	}
	return found
}

func TestGuestHasNamespacesOfItsOwn(t *testing.T) {
	g := newTestGuest(t)
	own := namespacesOf(t, os.Getpid())
	for kind, inode := range namespacesOf(t, g.record.Init.PID) {
		if inode == "" || inode == own[kind] {
			t.Errorf("%s namespace %q, the host's is %q", kind, inode, own[kind])
		}
	}
	if host, err := os.Hostname(); err == nil && strings.TrimSpace(sh(t, g, "hostname")) == host {
		t.Error("the guest has the host's name")
	}
}

func TestFiftyGuestsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	if _, err := d.Check(t.Context()); err != nil { // the sealed program stays open from here on
		t.Fatal(err)
	}
	fds, mounts := countFDs(t), countMounts(t)
	n := 50
	if testing.Short() {
		n = 5
	}
	for range n {
		spec := newSpec(t, dir, uniqueName())
		g, _, err := d.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := run(t, g, "true"); code != 0 {
			t.Fatalf("true: status %d", code)
		}
		if err := g.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(spec.Folder); err != nil {
			t.Errorf("the folder is not empty: %v", err)
		}
	}
	wantNothingLeft(t, d)
	eventually(t, fmt.Sprintf("file descriptors are %d again", fds), func() bool { return countFDs(t) <= fds })
	if now := countMounts(t); now != mounts {
		t.Errorf("mounts: %d, before %d", now, mounts)
	}
}

func TestThreeGuestsAtOnceAreApart(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	var all sync.WaitGroup
	guests := make([]*guest, 3)
	facts := make([]driver.Facts, 3)
	for i := range guests {
		spec := newSpec(t, dir, uniqueName())
		all.Go(func() {
			g, f, err := d.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			guests[i], facts[i] = g.(*guest), f
		})
	}
	all.Wait()
	for _, g := range guests {
		if g == nil {
			t.Fatal("a guest is missing")
		}
		defer g.Destroy(t.Context())
	}
	sh(t, guests[0], "echo mine > /var/tmp/file")
	for _, g := range guests[1:] {
		if code, _ := run(t, g, "test", "-e", "/var/tmp/file"); code == 0 {
			t.Error("a guest sees another's file")
		}
	}
	if os.Geteuid() == 0 && (facts[0]["root"] == facts[1]["root"] || facts[1]["root"] == facts[2]["root"]) {
		t.Errorf("guests share user ids: %v", facts)
	}
	listed, err := List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guests {
		if !strings.Contains(fmt.Sprint(listed), "{"+g.name+" running}") {
			t.Errorf("List does not show %s: %v", g.name, listed)
		}
	}
}

func TestListForgetsADestroyedGuest(t *testing.T) {
	dir := t.TempDir()
	g, _ := create(t, newDriver(t, dir), newSpec(t, dir, uniqueName()))
	if err := g.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed, err := List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(fmt.Sprint(listed), g.name) {
		t.Errorf("List shows a destroyed guest: %v", listed)
	}
}

// A record whose pid has become another process's must never lead to that process.
func TestProcessWithAnotherStartTimeIsNeverTouched(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	spec := newSpec(t, dir, uniqueName())
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	id, err := proc.Identify(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	id.Start--
	r := &record{Version: recordVersion, Name: spec.Name, Mark: d.mark, State: stateReady, NonceSHA256: hashNonce(spec.Nonce), Init: &id}
	if err := r.write(spec.Folder); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Adopt(t.Context(), spec); !errors.Is(err, driver.ErrGone) {
		t.Errorf("Adopt: %v, want ErrGone", err)
	}
	if err := bystander.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the bystander is gone: %v", err)
	}
}

func TestCreateLeavesNothingWhenItFails(t *testing.T) {
	dir := t.TempDir()
	d := New(Options{StateDir: dir, Executable: "/bin/false", Log: zerolog.Nop()}).(*hostDriver)
	spec := newSpec(t, dir, uniqueName())
	fds := countFDs(t)
	if _, _, err := d.Create(t.Context(), spec); err == nil {
		t.Fatal("a guest whose init is /bin/false was made")
	}
	wantNothingLeft(t, d)
	if entries, _ := os.ReadDir(spec.Folder); len(entries) > 0 {
		t.Errorf("the folder holds %v", entries)
	}
	d.binary.file.Close()
	eventually(t, "file descriptors are as before", func() bool { return countFDs(t) <= fds })
}

func TestCreateWorksWithAVeryLongFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-", 40))
	g, _ := create(t, newDriver(t, dir), newSpec(t, dir, uniqueName()))
	if out := sh(t, g, "echo fine"); out != "fine\n" {
		t.Errorf("%q", out)
	}
}

func TestSpecsThatCannotBeMadeAreRefused(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name   string
		change func(*driver.Spec)
		want   string
	}{
		{"internet", func(s *driver.Spec) { s.Network = "internet" }, "network_unavailable"},
		{"unknown network", func(s *driver.Spec) { s.Network = "moon" }, "invalid_request"},
		{"unknown image", func(s *driver.Spec) { s.Image = "other" }, "unknown_image"},
		{"name with a slash", func(s *driver.Spec) { s.Name = "a/b" }, "invalid_request"},
		{"name with dots", func(s *driver.Spec) { s.Name = ".." }, "invalid_request"},
		{"no nonce", func(s *driver.Spec) { s.Nonce = "" }, "invalid_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := newSpec(t, dir, uniqueName())
			tt.change(&spec)
			_, _, err := newDriver(t, dir).Create(t.Context(), spec)
			var refusal *driver.Refusal
			if !errors.As(err, &refusal) || refusal.Code != tt.want {
				t.Errorf("got %v, want code %s", err, tt.want)
			}
		})
	}
}

func TestCheckTellsWhatGuestsGet(t *testing.T) {
	d := newDriver(t, t.TempDir())
	facts, err := d.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := isolationUser
	if os.Geteuid() == 0 {
		want = isolationIDMap
	}
	if facts["isolation"] != want || facts["network"] != "loopback only" || facts["limits"] == "" {
		t.Errorf("facts %v, want isolation %s", facts, want)
	}
	wantNothingLeft(t, d)
}
