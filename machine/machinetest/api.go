package machinetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// ttl is the window the suite asks for; every service grants it.
const ttl = 15 * time.Minute

// API checks what callers rely on. open gives a service that holds no lease and has an image that can be acquired; it ends
// what it starts with t.Cleanup, and skips the test where machines cannot be made.
func API(t *testing.T, open func(t *testing.T) machine.API) {
	t.Run("health says machine-service", func(t *testing.T) {
		health, err := open(t).Health(t.Context())
		if err != nil || !health.OK || health.Service != machine.ServiceName {
			t.Fatalf("Health = %+v, %v", health, err)
		}
	})
	t.Run("the catalogue is valid and lists every image", func(t *testing.T) { checkCatalogue(t, open(t)) })
	t.Run("a lease is listed, read and renewed under one identity", func(t *testing.T) { checkLease(t, open(t)) })
	t.Run("refused acquires leave no lease", func(t *testing.T) { checkRefusedAcquires(t, open(t)) })
	t.Run("a cancelled acquire is not sent", func(t *testing.T) {
		api := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := api.Acquire(ctx, request(t, api)); !errors.Is(err, machine.ErrNotSent) || machine.Indeterminate(err) {
			t.Fatalf("Acquire = %v, want ErrNotSent", err)
		}
		wantLeases(t, api, 0)
	})
	t.Run("exec answers exit status and merged output", func(t *testing.T) { checkExec(t, open(t)) })
	t.Run("exec past its timeout keeps what was printed", func(t *testing.T) { checkExecTimeout(t, open(t)) })
	t.Run("push then pull gives the same bytes", func(t *testing.T) { checkTransfers(t, open(t)) })
	t.Run("release preempts a command and forgets the machine", func(t *testing.T) { checkRelease(t, open(t)) })
	t.Run("operations on an unknown machine are refused", func(t *testing.T) { checkUnknown(t, open(t)) })
}

// request asks for the first image that can be acquired, under a purpose of its own.
func request(t *testing.T, api machine.API) machine.AcquireRequest {
	t.Helper()
	images, err := api.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, image := range images.Images {
		if image.BaseAvailable {
			return machine.AcquireRequest{Purpose: "suite-" + randomHex(4), Image: name, TTL: ttl}
		}
	}
	t.Fatalf("no image can be acquired: %+v", images)
	return machine.AcquireRequest{}
}

func acquire(t *testing.T, api machine.API) machine.Lease {
	t.Helper()
	lease, err := api.Acquire(t.Context(), request(t, api))
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	t.Cleanup(func() {
		err := api.Release(context.Background(), lease.Name, "suite")
		if err != nil && !errors.Is(err, machine.ErrUnknownMachine) {
			t.Errorf("Release at the end: %v", err)
		}
	})
	return lease
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func wantLeases(t *testing.T, api machine.API, want int) {
	t.Helper()
	list, err := api.List(t.Context())
	if err != nil || len(list) != want {
		t.Fatalf("List = %d leases, %v, want %d", len(list), err, want)
	}
}

func checkCatalogue(t *testing.T, api machine.API) {
	catalogue, err := api.Applications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := catalogue.Validate(); err != nil {
		t.Fatal(err)
	}
	images, err := api.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, inventory := range catalogue.Images {
		if _, ok := images.Images[inventory.Image]; !ok {
			t.Errorf("the catalogue lists image %q, which Images does not", inventory.Image)
		}
	}
}

func checkLease(t *testing.T, api machine.API) {
	req := request(t, api)
	lease, err := api.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Release(context.Background(), lease.Name, "suite") })
	if lease.Purpose != req.Purpose || lease.Image != req.Image || lease.State != machine.StateRunning || lease.LeaseID == "" {
		t.Fatalf("lease = %+v", lease)
	}
	if left := lease.TTLExpiresAt - lease.CreatedAt; left < ttl.Seconds() {
		t.Errorf("the lease lasts %v s, want at least %v", left, ttl.Seconds())
	}
	list, err := api.List(t.Context())
	if err != nil || list[lease.Name].LeaseID != lease.LeaseID {
		t.Fatalf("List = %+v, %v", list, err)
	}
	renewed, err := api.Heartbeat(t.Context(), lease.Name, 2*ttl)
	if err != nil || renewed.LeaseID != lease.LeaseID || renewed.TTLExpiresAt < lease.TTLExpiresAt+ttl.Seconds()/2 {
		t.Fatalf("Heartbeat = %+v, %v", renewed, err)
	}
	shortened, err := api.Heartbeat(t.Context(), lease.Name, ttl)
	if err != nil || shortened.TTLExpiresAt >= renewed.TTLExpiresAt {
		t.Fatalf("a shorter Heartbeat = %+v, %v", shortened, err)
	}
	got, err := api.Get(t.Context(), lease.Name)
	if err != nil || got.TTLExpiresAt != shortened.TTLExpiresAt || got.LeaseID != lease.LeaseID {
		t.Fatalf("Get = %+v, %v, want the renewed lease", got, err)
	}
	if _, err := api.Heartbeat(t.Context(), lease.Name, 721*time.Hour); err == nil {
		t.Error("Heartbeat of 721 h succeeded")
	}
}

func checkRefusedAcquires(t *testing.T, api machine.API) {
	vnc := true
	held := acquire(t, api)
	good := request(t, api)
	cases := []struct {
		name   string
		change func(*machine.AcquireRequest)
		want   string
	}{
		{"purpose outside its grammar", func(r *machine.AcquireRequest) { r.Purpose = "Not A Slug" }, machine.CodeInvalidRequest},
		{"purpose too long", func(r *machine.AcquireRequest) { r.Purpose = strings.Repeat("a", 65) }, machine.CodeInvalidRequest},
		{"image nobody has", func(r *machine.AcquireRequest) { r.Image = "no-such-image" }, machine.CodeUnknownImage},
		{"purpose already leased", func(r *machine.AcquireRequest) { r.Purpose = held.Purpose }, machine.CodeDuplicatePurpose},
		{"meant for another process", func(r *machine.AcquireRequest) { r.Instance = "another" }, machine.CodeOtherInstance},
		{"a console nobody offers", func(r *machine.AcquireRequest) { r.VNC = &vnc }, machine.CodeConsoleUnavailable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := good
			c.change(&req)
			_, err := api.Acquire(t.Context(), req)
			var refusal *machine.Error
			if !errors.As(err, &refusal) || !machine.Refused(err) || refusal.Code != c.want {
				t.Fatalf("Acquire = %v, want a refusal with code %s", err, c.want)
			}
			wantLeases(t, api, 1)
		})
	}
}

func run(t *testing.T, api machine.API, name string, argv ...string) machine.ExecResult {
	t.Helper()
	result, err := api.Exec(t.Context(), name, machine.ExecRequest{Argv: argv, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatalf("Exec %q: %v", argv, err)
	}
	return result
}

func checkExec(t *testing.T, api machine.API) {
	name := acquire(t, api).Name
	cases := []struct {
		name string
		argv []string
		want machine.ExecResult
	}{
		{"argument words stay whole", []string{"/bin/echo", "a  b", "$HOME"}, machine.ExecResult{Output: "a  b $HOME\n"}},
		{"exit status", []string{"/bin/sh", "-c", "exit 7"}, machine.ExecResult{Code: 7}},
		{"both streams", []string{"/bin/sh", "-c", "echo out; echo err >&2"}, machine.ExecResult{Output: "out\nerr\n"}},
		{"empty stdin", []string{"/bin/sh", "-c", "cat; echo end"}, machine.ExecResult{Output: "end\n"}},
		{"found through PATH", []string{"true"}, machine.ExecResult{}},
		{"bytes that are no text", []string{"/bin/sh", "-c", `printf 'a\377b'`}, machine.ExecResult{Output: "a\uFFFDb"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := run(t, api, name, c.argv...); got != c.want {
				t.Errorf("Exec = %+v, want %+v", got, c.want)
			}
		})
	}
	t.Run("the last 64,000 code points", func(t *testing.T) {
		got := run(t, api, name, "/bin/sh", "-c", `head -c 100000 /dev/zero | tr '\0' x; printf 'é'`)
		if want := strings.Repeat("x", 63_999) + "é"; got.Output != want {
			t.Errorf("got %d bytes ending in %q", len(got.Output), got.Output[max(0, len(got.Output)-4):])
		}
	})
}

func checkExecTimeout(t *testing.T, api machine.API) {
	name := acquire(t, api).Name
	_, err := api.Exec(t.Context(), name, machine.ExecRequest{
		Argv: []string{"/bin/sh", "-c", "echo before; sleep 60; echo after"}, Timeout: time.Second})
	var e *machine.Error
	if !errors.As(err, &e) || e.Code != machine.CodeExecTimeout || !strings.Contains(e.Message, "ssh failed") {
		t.Fatalf("Exec = %v, want code exec_timeout", err)
	}
	if e.Output != "before\n" {
		t.Errorf("output so far = %q, want %q", e.Output, "before\n")
	}
}

// guestFolder is a new folder in the machine.
func guestFolder(t *testing.T, api machine.API, name string) string {
	t.Helper()
	folder := strings.TrimSpace(run(t, api, name, "mktemp", "-d", "/var/tmp/suite.XXXXXX").Output)
	t.Cleanup(func() {
		_, _ = api.Exec(context.Background(), name, machine.ExecRequest{Argv: []string{"rm", "-rf", folder}, Timeout: 10 * time.Second})
	})
	return folder
}

func checkTransfers(t *testing.T, api machine.API) {
	name := acquire(t, api).Name
	guest, host := guestFolder(t, api, name), t.TempDir()
	content := make([]byte, 3<<20)
	rand.Read(content)
	local := filepath.Join(host, "in")
	if err := os.WriteFile(local, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := api.Push(t.Context(), name, local, guest+"/file"); err != nil {
		t.Fatalf("Push: %v", err)
	}
	out := filepath.Join(host, "new", "folder", "out")
	if err := api.Pull(t.Context(), name, guest+"/file", out); err != nil {
		t.Fatalf("Pull: %v", err)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != string(content) {
		t.Fatalf("pulled %d bytes, %v, want the %d pushed", len(got), err, len(content))
	}
	missing := filepath.Join(host, "none")
	if err := api.Push(t.Context(), name, missing, guest+"/none"); !machine.Refused(err) {
		t.Errorf("Push of a missing file = %v, want a refusal", err)
	}
	if err := api.Pull(t.Context(), name, guest+"/none", missing); !machine.Refused(err) {
		t.Errorf("Pull of a missing file = %v, want a refusal", err)
	}
	if _, err := os.Lstat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed pull left %s: %v", missing, err)
	}
	link := filepath.Join(host, "tree", "link")
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o700), os.Symlink("/etc/passwd", link)); err != nil {
		t.Fatal(err)
	}
	err := api.Push(t.Context(), name, filepath.Dir(link), guest+"/tree")
	var e *machine.Error
	if !errors.As(err, &e) || e.Code != machine.CodePathRefused {
		t.Errorf("Push of a tree with a symlink = %v, want code path_refused", err)
	}
}

func checkRelease(t *testing.T, api machine.API) {
	lease := acquire(t, api)
	folder := guestFolder(t, api, lease.Name)
	ended := make(chan error, 1)
	go func() {
		_, err := api.Exec(context.Background(), lease.Name, machine.ExecRequest{
			Argv: []string{"/bin/sh", "-c", "touch " + folder + "/started; sleep 60"}, Timeout: time.Minute})
		ended <- err
	}()
	awaitPulled(t, api, lease.Name, folder+"/started")
	if err := api.Release(t.Context(), lease.Name, "suite"); err != nil {
		t.Fatalf("Release: %v", err)
	}
	var e *machine.Error
	if err := <-ended; !errors.As(err, &e) || e.Code != machine.CodePreempted {
		t.Errorf("the running Exec = %v, want code preempted", err)
	}
	if _, err := api.Get(t.Context(), lease.Name); !errors.Is(err, machine.ErrUnknownMachine) {
		t.Errorf("Get after release = %v, want ErrUnknownMachine", err)
	}
	if err := api.Release(t.Context(), lease.Name, "suite"); !errors.Is(err, machine.ErrUnknownMachine) {
		t.Errorf("a second Release = %v, want ErrUnknownMachine", err)
	}
	wantLeases(t, api, 0)
}

// awaitPulled waits until the guest has the file. A pull goes beside a running exec.
func awaitPulled(t *testing.T, api machine.API, name, path string) {
	t.Helper()
	local := filepath.Join(t.TempDir(), "pulled")
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = api.Pull(t.Context(), name, path, local); err == nil {
			return
		}
	}
	t.Fatalf("%s never appeared: %v", path, err)
}

func checkUnknown(t *testing.T, api machine.API) {
	const ghost = "ghost-1a2b3c"
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		call func() error
	}{
		{"get", func() error { _, err := api.Get(ctx, ghost); return err }},
		{"heartbeat", func() error { _, err := api.Heartbeat(ctx, ghost, ttl); return err }},
		{"exec", func() error {
			_, err := api.Exec(ctx, ghost, machine.ExecRequest{Argv: []string{"true"}, Timeout: time.Second})
			return err
		}},
		{"push", func() error { return api.Push(ctx, ghost, file, "/var/tmp/f") }},
		{"pull", func() error { return api.Pull(ctx, ghost, "/etc/hostname", file) }},
		{"release", func() error { return api.Release(ctx, ghost, "suite") }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := c.call(); !errors.Is(err, machine.ErrUnknownMachine) || !machine.Refused(err) {
				t.Errorf("%s = %v, want a refusal, ErrUnknownMachine", c.name, err)
			}
		})
	}
}
