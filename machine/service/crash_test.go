package service_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

// This test binary plays other processes: the value of roleKey says which.
const (
	roleKey    = "SERVICE_TEST_ROLE"
	roleServe  = "serve" // a service of its own; prints its URL
	roleGet    = "get"   // asks for each URL of its arguments; prints status and code of each
	childState = "SERVICE_TEST_STATE"
	childRoot  = "SERVICE_TEST_ROOT"
)

func child(role string) int {
	err := fmt.Errorf("unknown role %q", role)
	switch role {
	case roleServe:
		err = childServe()
	case roleGet:
		err = childGet(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childServe() error {
	svc, err := service.Open(context.Background(), config(os.Getenv(childState), drivertest.New(os.Getenv(childRoot))))
	if err != nil {
		return err
	}
	fmt.Println("http://" + svc.Addr())
	return svc.Serve(context.Background())
}

func childGet(urls []string) error {
	client := &http.Client{Timeout: 10 * time.Second}
	for _, url := range urls {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		var answer struct{ Code string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		fmt.Println(resp.StatusCode, answer.Code)
	}
	return nil
}

// serveInChild starts a service in a process of its own. kill ends that process as a crash does.
func serveInChild(t *testing.T, s *served) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleKey+"="+roleServe, childState+"="+s.dir, childRoot+"="+s.root)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.url = strings.TrimSpace(url)
	return kill
}

func crashed(t *testing.T) *served {
	s := &served{t: t, dir: filepath.Join(t.TempDir(), "state"), root: t.TempDir()}
	s.driver = drivertest.New(s.root)
	t.Cleanup(func() { _, _ = s.driver.Sweep(context.Background(), nil) })
	return s
}

// A service killed while it makes a machine: the next one tears it down, and the client could not tell.
func TestKilledMidAcquire(t *testing.T) {
	s := crashed(t)
	release, err := s.driver.HoldCreate()
	if err != nil {
		t.Fatal(err)
	}
	kill := serveInChild(t, s)
	acquired := make(chan error, 1)
	go func() {
		_, err := s.client().Acquire(t.Context(), machine.AcquireRequest{Purpose: "interrupted", Image: "host", TTL: time.Hour})
		acquired <- err
	}()
	eventually(t, "create waits", func() bool { _, err := os.Stat(s.driver.Held()); return err == nil })
	if pids, err := s.driver.Processes(); err != nil || len(pids) == 0 {
		t.Fatalf("the machine has no process yet: %v, %v", pids, err)
	}
	kill()
	if err := <-acquired; !machine.Indeterminate(err) {
		t.Errorf("Acquire = %v, want indeterminate", err)
	}
	release()
	s.start(nil)
	s.wantNothingLeft()
}

// Whatever an acquire had written and made when its service was killed, the next service has either nothing of it or, once it was
// running, its lease under the purpose that was asked for.
func TestKilledAtEachStepOfAnAcquire(t *testing.T) {
	for _, c := range []struct {
		name, state string
		made        bool // the driver had made the machine
		left        int
	}{
		{"it was written down", machine.StatePending, false, 0},
		{"its making began", machine.StateProvisioning, false, 0},
		{"it was made", machine.StateProvisioning, true, 0},
		{"it runs, and the answer is not sent", machine.StateRunning, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := crashed(t)
			kill := serveInChild(t, s)
			lease := s.acquire("killed")
			kill()
			if !c.made {
				if _, err := s.driver.Sweep(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(filepath.Join(s.dir, "machines", lease.Name)); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(s.dir, "state.json")
			state, err := os.ReadFile(path)
			was := []byte(`"state": "running"`)
			if err != nil || bytes.Count(state, was) != 1 {
				t.Fatalf("the lease is not recorded as running: %v\n%s", err, state)
			}
			if err := os.WriteFile(path, bytes.Replace(state, was, []byte(`"state": "`+c.state+`"`), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			s.start(nil)
			if c.left == 0 {
				s.wantNothingLeft()
				return
			}
			list, err := s.client().List(t.Context())
			if got := list[lease.Name]; err != nil || len(list) != c.left || got.Purpose != "killed" || got.LeaseID != lease.LeaseID {
				t.Errorf("leases %v, %v; want the one of before", list, err)
			}
		})
	}
}

// A service killed while a command runs: the machine lives, its lease is the same, and the client could not tell.
func TestKilledMidExec(t *testing.T) {
	s := crashed(t)
	kill := serveInChild(t, s)
	lease := s.acquire("survivor")
	folder := t.TempDir()
	ended := make(chan error, 1)
	go func() {
		_, err := s.client().Exec(t.Context(), lease.Name, machine.ExecRequest{
			Argv: []string{"sh", "-c", "touch " + folder + "/started; sleep 60"}, Timeout: time.Minute})
		ended <- err
	}()
	eventually(t, "the command runs", func() bool { _, err := os.Stat(folder + "/started"); return err == nil })
	renewed, err := s.client().Heartbeat(t.Context(), lease.Name, 2*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	kill()
	if err := <-ended; !machine.Indeterminate(err) {
		t.Errorf("Exec = %v, want indeterminate", err)
	}
	s.start(nil)
	got, err := s.client().Get(t.Context(), lease.Name)
	if err != nil || got.LeaseID != lease.LeaseID || got.TTLExpiresAt != renewed.TTLExpiresAt {
		t.Fatalf("after the restart: %+v, %v, want the lease as renewed", got, err)
	}
	if got.Running == nil || !*got.Running {
		t.Error("the adopted machine is shown as not running")
	}
	if told := s.driver.Renewed(lease.Name); len(told) == 0 || time.Until(told[len(told)-1]) < 110*time.Minute {
		t.Errorf("the guest was told %v at adoption, want the renewed end", told)
	}
	result, err := s.client().Exec(t.Context(), lease.Name, machine.ExecRequest{Argv: []string{"echo", "still"}, Timeout: 10 * time.Second})
	if err != nil || result.Output != "still\n" {
		t.Errorf("Exec after the restart = %+v, %v", result, err)
	}
	if err := s.client().Release(t.Context(), lease.Name, "test"); err != nil {
		t.Fatal(err)
	}
	s.wantNothingLeft()
}

// A machine that ended while no service ran is forgotten by the next one.
func TestMachineGoneAtRestartIsForgotten(t *testing.T) {
	s := crashed(t)
	kill := serveInChild(t, s)
	s.acquire("gone")
	kill()
	if _, err := s.driver.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	s.wantNothingLeft()
}

// A machine that cannot be reached at the start keeps its lease, and is adopted when it is asked.
func TestUnreachableAtRestartKeepsItsLease(t *testing.T) {
	s := serve(t, nil)
	lease := s.acquire("hidden")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s.start(func(c *service.Config) { c.Driver.(*drivertest.Driver).Fail(drivertest.OpAdopt, errors.New("busy")) })
	result, err := s.client().Exec(t.Context(), lease.Name, machine.ExecRequest{Argv: []string{"echo", "there"}, Timeout: 10 * time.Second})
	if err != nil || result.Output != "there\n" {
		t.Errorf("Exec = %+v, %v", result, err)
	}
}

// What no record names, process or folder, is cleared at the start.
func TestLeftoversAreClearedAtStart(t *testing.T) {
	s := serve(t, nil)
	s.acquire("leftover")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.dir, "state.json")); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	s.wantNothingLeft()
}

// The service serves its own user alone. Health is the exception, and says whose it is.
func TestOtherUsersAreRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can ask as another user; no tool would help")
	}
	s := serve(t, func(c *service.Config) { c.Listen = "localhost:0" })
	binary := copyForOthers(t)
	cases := []struct {
		name string
		uid  uint32
		want string
	}{
		{"our own", 0, "200 \n200 \n404 unknown_machine\n"},
		{"another", 65534, "200 \n403 other_user\n403 other_user\n"},
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		if host == "[::1]" && !hasIPv6() {
			continue
		}
		base := "http://" + host + ":" + port
		for _, c := range cases {
			t.Run(c.name+" "+host, func(t *testing.T) {
				cmd := exec.Command(binary, base+"/health", base+"/machines", base+"/machines/ghost")
				cmd.Env, cmd.Dir = []string{roleKey + "=" + roleGet}, "/"
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
				output, err := cmd.CombinedOutput()
				if err != nil || string(output) != c.want {
					t.Errorf("%q, %v, want %q", output, err, c.want)
				}
			})
		}
	}
}

// copyForOthers puts this test binary where every user can run it.
func copyForOthers(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "service-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	in, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := filepath.Join(dir, "other")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(0o755), out.Close(), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
