package service_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

// Room and reservation are one step: of many at once for the last slot one gets it.
func TestLastSlotGoesToOne(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.MaxMachines = 2 })
	s.acquire("first")
	var all sync.WaitGroup
	results := make([]error, 6)
	for i := range results {
		all.Go(func() {
			_, results[i] = s.client().Acquire(t.Context(), machine.AcquireRequest{
				Purpose: "second-" + string(rune('a'+i)), Image: "host", TTL: time.Hour})
		})
	}
	all.Wait()
	won := 0
	for _, err := range results {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, machine.ErrCapacity) || !machine.Refused(err) || !strings.Contains(err.Error(), "limit reached"):
			t.Errorf("a loser got %v, want a capacity refusal", err)
		}
	}
	if won != 1 {
		t.Errorf("%d got the last slot, want 1", won)
	}
}

func TestMemoryIsPromisedOnlyOnce(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.TotalMemoryMB, c.MemoryMB = 5000, 2048 })
	s.acquire("first")
	s.acquire("second")
	_, err := s.client().Acquire(t.Context(), machine.AcquireRequest{Purpose: "third", Image: "host", TTL: time.Hour})
	if !errors.Is(err, machine.ErrCapacity) {
		t.Errorf("a third of 2048 MiB in 5000 = %v, want ErrCapacity", err)
	}
}

// A duplicate purpose is told before the limit.
func TestDuplicatePurposeIsToldBeforeTheLimit(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.MaxMachines = 1 })
	s.acquire("same")
	_, err := s.client().Acquire(t.Context(), machine.AcquireRequest{Purpose: "same", Image: "host", TTL: time.Hour})
	var e *machine.Error
	if !errors.As(err, &e) || e.Code != machine.CodeDuplicatePurpose {
		t.Errorf("got %v, want duplicate_purpose", err)
	}
}

func TestExpiredLeaseHasItsGraceThenIsTakenBack(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.Grace = 50 * time.Millisecond })
	name := s.acquire("grace").Name
	if _, err := s.client().Heartbeat(t.Context(), name, 2*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease is warned", func() bool {
		s.gc()
		lease, err := s.client().Get(t.Context(), name)
		return err == nil && lease.Warned && lease.GraceUntil != nil && lease.State == machine.StateRunning
	})
	if _, err := s.client().Exec(t.Context(), name, machine.ExecRequest{Argv: []string{"true"}, Timeout: time.Second}); err != nil && !errors.Is(err, machine.ErrUnknownMachine) {
		t.Errorf("a lease in grace refuses commands: %v", err)
	}
	eventually(t, "the lease is taken back", func() bool {
		s.gc()
		_, err := s.client().Get(t.Context(), name)
		return errors.Is(err, machine.ErrUnknownMachine)
	})
	s.wantNothingLeft()
}

func TestHeartbeatEndsTheGrace(t *testing.T) {
	s := serve(t, nil) // grace 6 h
	name := s.acquire("renewed").Name
	if _, err := s.client().Heartbeat(t.Context(), name, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease is warned", func() bool {
		s.gc()
		lease, err := s.client().Get(t.Context(), name)
		return err == nil && lease.Warned
	})
	lease, err := s.client().Heartbeat(t.Context(), name, time.Hour)
	if err != nil || lease.Warned || lease.GraceUntil != nil {
		t.Fatalf("renewed in grace = %+v, %v", lease, err)
	}
	eventually(t, "the guest is told the new end", func() bool {
		told := s.driver.Renewed(name)
		return len(told) > 0 && time.Until(told[len(told)-1]) > 50*time.Minute
	})
}

func TestMachineThatVanishedIsTakenBackAfterTwoPasses(t *testing.T) {
	s := serve(t, nil)
	name := s.acquire("vanished").Name
	if _, err := s.driver.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_, err := s.client().Heartbeat(t.Context(), name, time.Hour)
	var e *machine.Error
	if !errors.As(err, &e) || e.Code != machine.CodeMachineGone || !strings.Contains(e.Message, "is not running on the host") {
		t.Errorf("Heartbeat = %v, want machine_gone", err)
	}
	// The first pass of the service itself may have come before or after the machine vanished.
	s.gc()
	if lease, err := s.client().Get(t.Context(), name); err == nil && (lease.Running == nil || *lease.Running) {
		t.Errorf("a vanished machine is shown as running")
	}
	s.gc()
	s.wantNothingLeft()
}

func TestFailedTeardownIsRetainedAndRetried(t *testing.T) {
	s := serve(t, nil)
	name := s.acquire("stuck").Name
	s.driver.Fail(drivertest.OpDestroy, errors.New("a mount is busy"))
	err := s.client().Release(t.Context(), name, "test")
	var e *machine.Error
	if !errors.As(err, &e) || e.Code != machine.CodeTeardownIncomplete || !strings.Contains(e.Message, "retained for retry") {
		t.Fatalf("Release = %v, want teardown_incomplete", err)
	}
	if lease, err := s.client().Get(t.Context(), name); err != nil || lease.State != machine.StateReleasing {
		t.Fatalf("Get = %+v, %v, want releasing", lease, err)
	}
	if _, err := s.client().Heartbeat(t.Context(), name, time.Hour); !machine.Refused(err) {
		t.Errorf("a releasing lease was renewed: %v", err)
	}
	s.gc()
	s.wantNothingLeft()
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want string
	}{
		{"a refusal keeps its code", driver.Refuse(machine.CodeIsolation, nil, "user namespaces are off; sysctl ..."), machine.CodeIsolation},
		{"a failure", errors.New("no space"), machine.CodeBootFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, nil)
			s.driver.Fail(drivertest.OpCreate, c.err)
			_, err := s.client().Acquire(t.Context(), machine.AcquireRequest{Purpose: "fails", Image: "host", TTL: time.Hour})
			var e *machine.Error
			if !errors.As(err, &e) || e.Status != 409 || e.Code != c.want || !strings.Contains(e.Message, c.err.Error()) {
				t.Errorf("Acquire = %v, want a 409 with code %s", err, c.want)
			}
			s.wantNothingLeft()
		})
	}
}

// Release while the machine is being made fails the acquire and leaves nothing.
func TestReleaseDuringAcquire(t *testing.T) {
	s := serve(t, nil)
	release, err := s.driver.HoldCreate()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	acquired := make(chan error, 1)
	go func() {
		_, err := s.client().Acquire(t.Context(), machine.AcquireRequest{Purpose: "cancelled", Image: "host", TTL: time.Hour})
		acquired <- err
	}()
	eventually(t, "create waits", func() bool { _, err := os.Stat(s.driver.Held()); return err == nil })
	list, err := s.client().List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for name, lease := range list {
		if lease.State != machine.StateProvisioning {
			t.Errorf("state = %s, want provisioning", lease.State)
		}
		if err := s.client().Release(t.Context(), name, "test"); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	if err := <-acquired; !machine.Refused(err) || !strings.Contains(err.Error(), "cancelled by release") {
		t.Errorf("Acquire = %v, want a refusal that says it was cancelled by release", err)
	}
	s.wantNothingLeft()
}

// An acquire whose client has gone is finished, then released: nobody knows of it.
func TestUndeliveredAcquireIsReleased(t *testing.T) {
	s := serve(t, nil)
	release, err := s.driver.HoldCreate()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.svc.Addr())
	if err != nil {
		t.Fatal(err)
	}
	body := `{"purpose":"lost","image":"host"}`
	if _, err := io.WriteString(conn, "POST /acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	eventually(t, "create waits", func() bool { _, err := os.Stat(s.driver.Held()); return err == nil })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	release()
	eventually(t, "the lease is released", func() bool {
		list, err := s.client().List(t.Context())
		return err == nil && len(list) == 0
	})
	s.wantNothingLeft()
}

// Commands of one machine run one at a time, in the order in which they came; a heartbeat and a transfer do not wait.
func TestCommandsKeepTheirOrder(t *testing.T) {
	s := serve(t, nil)
	name, folder := s.acquire("order").Name, t.TempDir()
	var all sync.WaitGroup
	run := func(script string) {
		all.Go(func() {
			_, err := s.client().Exec(t.Context(), name, machine.ExecRequest{Argv: []string{"sh", "-c", script}, Timeout: time.Minute})
			if err != nil {
				t.Error(err)
			}
		})
	}
	log := filepath.Join(folder, "log")
	run("echo begin >> " + log + "; while ! [ -e " + folder + "/go ]; do sleep 0.01; done; echo end >> " + log)
	eventually(t, "the first runs", func() bool { _, err := os.Stat(log); return err == nil })
	run("echo second >> " + log)
	if _, err := s.client().Heartbeat(t.Context(), name, time.Hour); err != nil {
		t.Errorf("a heartbeat beside a command: %v", err)
	}
	source := filepath.Join(folder, "source")
	if err := os.WriteFile(source, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.client().Push(t.Context(), name, source, folder+"/go"); err != nil {
		t.Errorf("a transfer beside a command: %v", err)
	}
	all.Wait()
	if got, err := os.ReadFile(log); err != nil || string(got) != "begin\nend\nsecond\n" {
		t.Errorf("order = %q, %v", got, err)
	}
}

func TestTransfersStayOutOfTheServicesState(t *testing.T) {
	s := serve(t, nil)
	name, folder := s.acquire("paths").Name, t.TempDir()
	link := filepath.Join(folder, "link")
	dangling := filepath.Join(folder, "dangling")
	file := filepath.Join(folder, "file")
	err := errors.Join(os.Symlink(s.dir, link), os.Symlink(filepath.Join(s.dir, "none"), dangling), os.WriteFile(file, []byte("x"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, local string }{
		{"the folder", s.dir},
		{"in it", filepath.Join(s.dir, "state.json")},
		{"not there yet", filepath.Join(s.dir, "machines", "new")},
		{"what holds it", filepath.Dir(s.dir)},
		{"the root", "/"},
		{"through dots", filepath.Join(folder, "file") + "/../../" + strings.TrimPrefix(s.dir, filepath.Dir(folder)+"/")},
		{"through a symlink", filepath.Join(link, "state.json")},
		{"through a dangling symlink", dangling},
		{"relative", "state.json"},
	}
	before, err := os.ReadFile(filepath.Join(s.dir, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		for _, op := range []string{"push", "pull"} {
			t.Run(op+" "+c.name, func(t *testing.T) {
				body := `{"local_path":"` + c.local + `","remote_path":"` + file + `"}`
				if status, answer := s.send("POST", "/machines/"+name+"/"+op, body); status != 409 || answer["code"] != machine.CodePathRefused {
					t.Errorf("%d %v, want 409 path_refused", status, answer)
				}
			})
		}
	}
	if after, err := os.ReadFile(filepath.Join(s.dir, "state.json")); err != nil || !slices.Equal(before, after) {
		t.Errorf("the state changed: %v", err)
	}
}

func TestUnreachableGuestIsUncertainAndMayBeAskedAgain(t *testing.T) {
	s := serve(t, nil)
	name, file := s.acquire("unreachable").Name, filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.driver.Fail(drivertest.OpPush, driver.ErrUnreachable)
	if err := s.client().Push(t.Context(), name, file, file+"2"); !machine.Transient(err) || machine.Refused(err) {
		t.Errorf("Push = %v, want a transient failure", err)
	}
	s.driver.Fail(drivertest.OpExec, driver.ErrUnreachable)
	_, err := s.client().Exec(t.Context(), name, machine.ExecRequest{Argv: []string{"true"}, Timeout: time.Second})
	var e *machine.Error
	if !errors.As(err, &e) || e.Code != machine.CodeExecTransport || machine.Refused(err) {
		t.Errorf("Exec = %v, want exec_transport, not a refusal", err)
	}
}

func TestServiceLeavesWhenNobodyNeedsIt(t *testing.T) {
	d := drivertest.New(t.TempDir())
	cfg := config(filepath.Join(t.TempDir(), "state"), d)
	cfg.IdleExit = 20 * time.Millisecond
	svc, err := service.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Serve(t.Context()); err != nil {
		t.Errorf("Serve = %v, want nil after the idle time", err)
	}
}

func TestServiceStaysWhileALeaseIsHeld(t *testing.T) {
	s := serve(t, func(c *service.Config) { c.IdleExit = 300 * time.Millisecond })
	name := s.acquire("held").Name
	ended := time.NewTimer(time.Second)
	defer ended.Stop()
	<-ended.C // longer than the idle time, on purpose: this is what must not end it
	if _, err := s.client().Get(t.Context(), name); err != nil {
		t.Errorf("the service left its lease: %v", err)
	}
}

func TestEndOfTheOwnerReleasesEverything(t *testing.T) {
	read, write := io.Pipe()
	s := serve(t, func(c *service.Config) { c.Owner = read })
	s.acquire("owned-a")
	s.acquire("owned-b")
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service has ended", func() bool {
		_, err := s.client().Health(t.Context())
		return err != nil
	})
	if err := s.stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	if pids, err := s.driver.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("processes left: %v, %v", pids, err)
	}
}

func TestOneServiceOwnsAStateFolder(t *testing.T) {
	s := serve(t, nil)
	_, err := service.Open(t.Context(), config(s.dir, s.driver))
	if err == nil || !strings.Contains(err.Error(), "another machine-service") {
		t.Errorf("a second Open = %v", err)
	}
}

func TestUnreadableStateIsNamedAndKept(t *testing.T) {
	cases := []struct{ name, content string }{
		{"no JSON", "{"},
		{"empty", ""},
		{"another version", `{"version": 99, "machines": {}}`},
		{"a record that lacks its identity", `{"version": 1, "machines": {"a-1": {"state": "running"}}}`},
		{"a name that is a path", `{"version": 1, "machines": {"../x": {"state": "running"}}}`},
		{"two values", `{"version": 1} {}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "state.json")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := service.Open(t.Context(), config(dir, drivertest.New(t.TempDir())))
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Open = %v, want an error that names %s", err, path)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != c.content {
				t.Errorf("the state was changed to %q, %v", got, err)
			}
		})
	}
}
