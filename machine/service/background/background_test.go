package background_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/background"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

// This test binary plays other processes: the value of roleKey says which.
const (
	roleKey    = "BACKGROUND_TEST_ROLE"
	roleServe  = "serve"  // what Ensure starts
	roleEnsure = "ensure" // a process that needs machines; prints the endpoint
	roleFail   = "fail"   // a service that cannot start
	roleMute   = "mute"   // a service that never answers
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleKey); role {
	case "":
		os.Exit(m.Run())
	case roleServe:
		finish(serveRole())
	case roleEnsure:
		finish(ensureRole())
	case roleFail:
		finish(errors.New("this host cannot make machines"))
	case roleMute:
		time.Sleep(time.Minute) // until it is killed
	}
}

func finish(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// folders of one test, handed to the processes by their arguments: state, port.
func options(dir, port string) background.Options {
	var number int
	_, _ = fmt.Sscan(port, &number) // the tests write numbers
	return background.Options{
		Executable: os.Args[0], Args: []string{dir, port}, Env: append(os.Environ(), roleKey+"="+roleServe),
		StateDir: filepath.Join(dir, "state"), RuntimeDir: filepath.Join(dir, "run"), Port: number, Log: zerolog.Nop(),
	}
}

func serveRole() error {
	opt := options(os.Args[1], os.Args[2])
	return background.Serve(context.Background(), service.Config{
		StateDir: opt.StateDir, Driver: drivertest.New(os.Args[1]), Log: zerolog.New(os.Stderr), IdleExit: time.Minute,
	}, opt)
}

func ensureRole() error {
	found, err := background.Ensure(context.Background(), options(os.Args[1], os.Args[2]))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// freePort is one that nobody listens on.
func freePort(t *testing.T) (int, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	return port, fmt.Sprint(port)
}

// stopAtEnd ends the service that a test started, by its record.
func stopAtEnd(t *testing.T, opt background.Options) {
	t.Cleanup(func() {
		if r, ok := background.Read(opt.RuntimeDir); ok {
			_ = syscall.Kill(r.PID, syscall.SIGKILL)
		}
	})
}

func health(t *testing.T, url string) machine.Health {
	t.Helper()
	c, err := machine.New(machine.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// However many processes need machines at once, one service is started, and it outlives them all.
func TestManyAtOnceStartOne(t *testing.T) {
	dir := t.TempDir()
	_, port := freePort(t)
	opt := options(dir, port)
	stopAtEnd(t, opt)
	var all sync.WaitGroup
	found := make([]background.Endpoint, 4)
	for i := range found {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], dir, port)
			cmd.Env = append(os.Environ(), roleKey+"="+roleEnsure)
			cmd.Stderr = os.Stderr
			output, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(output, &found[i])
			}
			if err != nil {
				t.Errorf("process %d: %v: %s", i, err, output)
			}
		})
	}
	all.Wait()
	started := 0
	for _, f := range found {
		if f.Started {
			started++
		}
		// One that found it by its port, before it had published itself, cannot know its pid.
		if f.URL != found[0].URL || (f.PID == 0 && f.Started) {
			t.Errorf("different services: %+v and %+v", f, found[0])
		}
	}
	if started != 1 {
		t.Errorf("%d say they started it, want 1", started)
	}
	r, ok := background.Read(opt.RuntimeDir)
	if h := health(t, found[0].URL); !ok || h.Instance != r.Nonce || h.UID == nil || *h.UID != os.Getuid() || r.BootID == "" || r.StartTime == 0 {
		t.Errorf("record %+v, health %+v", r, h)
	}
	if sid, err := unix.Getsid(r.PID); err != nil || sid != r.PID {
		t.Errorf("the service is in session %d (%v), want its own, %d", sid, err, r.PID)
	}
	info, err := os.Stat(filepath.Join(opt.RuntimeDir, "machine-service.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("record: %v, %v, want mode 0600", info.Mode(), err)
	}
}

// What answers on the default port and is no machine-service is left alone; ours takes a free port and is found by its record.
func TestTakenPortIsGoneAround(t *testing.T) {
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}
	go func() { _ = server.Serve(foreign) }()
	defer server.Close()
	port := fmt.Sprint(foreign.Addr().(*net.TCPAddr).Port)
	opt := options(t.TempDir(), port)
	stopAtEnd(t, opt)
	first, err := background.Ensure(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Started || strings.HasSuffix(first.URL, ":"+port) {
		t.Errorf("Ensure = %+v, want a service on another port than %s", first, port)
	}
	again, err := background.Ensure(t.Context(), opt)
	if err != nil || again.Started || again.URL != first.URL {
		t.Errorf("a second Ensure = %+v, %v, want %s", again, err, first.URL)
	}
}

func TestServiceOnTheDefaultPortIsUsed(t *testing.T) {
	var answer atomic.Value
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer.Load()) })}
	port := l.Addr().(*net.TCPAddr).Port
	cases := []struct {
		name, answer string
		want         bool
	}{
		{"one that tells no user", `{"ok":true,"service":"machine-service"}`, true},
		{"our own", fmt.Sprintf(`{"ok":true,"service":"machine-service","uid":%d}`, os.Getuid()), true},
		{"another user's", fmt.Sprintf(`{"ok":true,"service":"machine-service","uid":%d}`, os.Getuid()+1), false},
		{"our own on another state folder", fmt.Sprintf(`{"ok":true,"service":"machine-service","uid":%d,"folder":"0123456789abcdef"}`, os.Getuid()), false},
		{"an older service", `{"ok":true,"service":"vm-service"}`, false},
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answer.Store(c.answer)
			found, err := background.Find(t.Context(), options(t.TempDir(), fmt.Sprint(port)))
			if (err == nil) != c.want || err != nil && !errors.Is(err, background.ErrNone) {
				t.Errorf("Find = %+v, %v, want found: %t", found, err, c.want)
			}
		})
	}
}

// A record whose port answers with another nonce names a service that is no more.
func TestRecordCountsOnlyWithItsNonce(t *testing.T) {
	dir := t.TempDir()
	_, port := freePort(t)
	opt := options(dir, port)
	stopAtEnd(t, opt)
	first, err := background.Ensure(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	r, ok := background.Read(opt.RuntimeDir)
	if !ok {
		t.Fatal("no record")
	}
	stale := r
	stale.Nonce = strings.Repeat("0", 32)
	elsewhere := options(t.TempDir(), "1") // nobody listens on port 1
	if err := background.Publish(elsewhere.RuntimeDir, stale); err != nil {
		t.Fatal(err)
	}
	if found, err := background.Find(t.Context(), elsewhere); !errors.Is(err, background.ErrNone) {
		t.Errorf("Find = %+v, %v, want ErrNone", found, err)
	}
	if err := background.Withdraw(opt.RuntimeDir, stale.Nonce); err != nil {
		t.Fatal(err)
	}
	if _, ok := background.Read(opt.RuntimeDir); !ok {
		t.Errorf("a record with another nonce was withdrawn; the service at %s is lost", first.URL)
	}
}

func TestUnreadableRecordIsAbsent(t *testing.T) {
	cases := []struct{ name, content string }{
		{"empty", ""}, {"cut", `{"pid": 1,`}, {"no nonce", `{"pid":1,"port":6240,"uid":0}`}, {"no port", `{"nonce":"x"}`},
		{"another user's", fmt.Sprintf(`{"nonce":"x","port":6240,"uid":%d}`, os.Getuid()+1)}, {"too large", strings.Repeat(" ", 5000)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "machine-service.json"), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if r, ok := background.Read(dir); ok {
				t.Errorf("Read = %+v, want none", r)
			}
		})
	}
}

// A start that fails says so in the service's own words, and leaves no process.
func TestFailedStartShowsTheLog(t *testing.T) {
	_, port := freePort(t)
	opt := options(t.TempDir(), port)
	opt.Env = append(os.Environ(), roleKey+"="+roleFail)
	_, err := background.Ensure(t.Context(), opt)
	if err == nil || !strings.Contains(err.Error(), "this host cannot make machines") {
		t.Errorf("Ensure = %v, want the log's words", err)
	}
}

func TestMuteServiceIsGivenUp(t *testing.T) {
	_, port := freePort(t)
	opt := options(t.TempDir(), port)
	opt.Env, opt.Wait = append(os.Environ(), roleKey+"="+roleMute), 300*time.Millisecond
	_, err := background.Ensure(t.Context(), opt)
	if err == nil || !strings.Contains(err.Error(), "does not answer after 300ms") {
		t.Errorf("Ensure = %v", err)
	}
}
