package namespace

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/guestinit"
)

func TestExecRunsArgvAsItIs(t *testing.T) {
	g := newTestGuest(t)
	tests := []struct {
		name     string
		argv     []string
		wantCode int
		want     string
	}{
		{"no shell between", []string{"echo", "$HOME", "a  b", "*"}, 0, "$HOME a  b *\n"},
		{"status", []string{"sh", "-c", "exit 7"}, 7, ""},
		{"both streams", []string{"sh", "-c", "echo out; echo err >&2"}, 0, "out\nerr\n"},
		{"killed by a signal", []string{"sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		{"in the home", []string{"pwd"}, 0, "/root\n"},
		{"empty input", []string{"cat"}, 0, ""},
		{"by path", []string{"/bin/echo", "x"}, 0, "x\n"},
		{"leader of its own session", []string{"sh", "-c", "set -- $(cat /proc/$$/stat); [ $1 = $5 ] && [ $1 = $6 ] && echo leader"}, 0, "leader\n"},
		{"root", []string{"id", "-u"}, 0, "0\n"},
		{"not there", []string{"no-such-program"}, 127, "cannot start \"no-such-program\": file does not exist\n"},
		{"not executable", []string{"/etc/hosts"}, 126, "cannot start \"/etc/hosts\": permission denied\n"},
		{"a directory", []string{"/etc"}, 126, "cannot start \"/etc\": permission denied\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code, out := run(t, g, tt.argv...); code != tt.wantCode || out != tt.want {
				t.Errorf("status %d, output %q; want %d, %q", code, out, tt.wantCode, tt.want)
			}
		})
	}
}

func TestExecKeepsTheEndOfLongOutput(t *testing.T) {
	g := newTestGuest(t)
	_, out, err := g.Exec(t.Context(), []string{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do echo line $i; i=$((i+1)); done"}, patience, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 5000 || !strings.HasSuffix(string(out), "line 99998\nline 99999\n") {
		t.Errorf("%d bytes that end with %q", len(out), out[max(0, len(out)-40):])
	}
}

func TestExecReturnsWhenTheCommandEndsNotWhenItsPipesClose(t *testing.T) {
	g := newTestGuest(t)
	began := time.Now()
	out := sh(t, g, "sleep 300 & echo started")
	if out != "started\n" || time.Since(began) > patience/2 {
		t.Errorf("%q after %s", out, time.Since(began))
	}
	if out := sh(t, g, "pgrep -x sleep | wc -l"); out != "1\n" {
		t.Errorf("the process left behind is gone: %q", out)
	}
}

// A browser that a script started must not die of its next word to a closed pipe.
func TestLeftProcessesMayWriteOn(t *testing.T) {
	g := newTestGuest(t)
	sh(t, g, "(while [ ! -e /tmp/go ]; do sleep 0.05; done; echo one; echo two; echo alive > /tmp/alive) & echo started")
	sh(t, g, "touch /tmp/go; while [ ! -e /tmp/alive ]; do sleep 0.05; done")
}

func TestTimeoutKillsTheWholeSession(t *testing.T) {
	g := newTestGuest(t)
	code, out, err := g.Exec(t.Context(), []string{"sh", "-c", "echo before; sleep 4321 & sleep 4321"}, time.Second, 1000)
	if !errors.Is(err, driver.ErrTimeout) || string(out) != "before\n" || code != 128+9 {
		t.Errorf("status %d, output %q, error %v; want 137, before, ErrTimeout", code, out, err)
	}
	if got := sh(t, g, "pgrep -f 'sleep 432[1]' || echo none"); got != "none\n" {
		t.Errorf("left: %q", got)
	}
}

func TestCancellingKillsTheCommandAndNothingElse(t *testing.T) {
	g := newTestGuest(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := g.Exec(ctx, []string{"sh", "-c", "touch /tmp/began; sleep 5432 & sleep 5432"}, 0, 1000)
		done <- err
	}()
	sh(t, g, "while [ ! -e /tmp/began ]; do sleep 0.05; done; sleep 6543 >/dev/null 2>&1 &")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if got := sh(t, g, "pgrep -f 'sleep 543[2]' || echo none; pgrep -fc 'sleep 654[3]'"); got != "none\n1\n" {
		t.Errorf("after the cancellation: %q, want the cancelled command gone and the other alive", got)
	}
}

func TestExecsRunSideBySide(t *testing.T) {
	g := newTestGuest(t)
	done := make(chan string, 2)
	for _, script := range []string{
		"touch /tmp/a; while [ ! -e /tmp/b ]; do sleep 0.02; done; echo met",
		"touch /tmp/b; while [ ! -e /tmp/a ]; do sleep 0.02; done; echo met",
	} {
		go func() {
			_, out, err := g.Exec(t.Context(), []string{"sh", "-c", script}, patience, 100)
			if err != nil {
				out = []byte(err.Error())
			}
			done <- string(out)
		}()
	}
	for range 2 {
		if got := <-done; got != "met\n" {
			t.Error(got)
		}
	}
}

func TestBadArgvNeverRuns(t *testing.T) {
	g := newTestGuest(t)
	for _, argv := range [][]string{nil, {""}, {"echo", "a\x00b"}} {
		if code, out, err := g.Exec(t.Context(), argv, patience, 100); err == nil {
			t.Errorf("%q: status %d, output %q, want an error", argv, code, out)
		}
	}
}

// The display is there when Create returns, and every command finds it.
func TestGuestHasADisplay(t *testing.T) {
	if !guestinit.DisplayAvailable() {
		lacking(t, "no %s: install the package xvfb", guestinit.DisplayServer)
	}
	g := newTestGuest(t)
	if g.record.Facts["display"] != geometry {
		t.Errorf("display fact %v, want %s", g.record.Facts["display"], geometry)
	}
	if out := sh(t, g, "echo $DISPLAY; ls /tmp/.X11-unix"); out != ":0\nX0\n" {
		t.Errorf("display %q", out)
	}
	if _, err := os.Stat("/usr/bin/xterm"); err != nil {
		lacking(t, "no /usr/bin/xterm: install the package xterm")
	}
	if code, out := run(t, g, "xterm", "-e", "sh", "-c", "echo hello > /tmp/hello"); code != 0 {
		t.Fatalf("xterm: status %d, %s", code, out)
	}
	if out := sh(t, g, "cat /tmp/hello"); out != "hello\n" {
		t.Errorf("the terminal's command wrote %q", out)
	}
}

func TestWritableSpaceIsBounded(t *testing.T) {
	dir := t.TempDir()
	spec := newSpec(t, dir, uniqueName())
	spec.DiskMB = 64
	g, _ := create(t, newDriver(t, dir), spec)
	code, out := run(t, g, "dd", "if=/dev/zero", "of=/var/tmp/big", "bs=1M", "count=100")
	if code == 0 || !strings.Contains(out, "No space left") {
		t.Errorf("100 MiB in a guest of 64: status %d, %s", code, out)
	}
}

func TestForkBombStaysInside(t *testing.T) {
	g := newTestGuest(t)
	_, out, err := g.Exec(t.Context(), []string{"perl", "-e", `for (1..5000) { my $p = fork; if (!defined $p) { print "stopped at $_\n"; sleep 1; exit 3 } if (!$p) { sleep 600; exit } }`}, patience, 1000)
	if err != nil {
		t.Fatal(err)
	}
	at, convErr := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(out), "stopped at ")))
	if convErr != nil || at > mostPids {
		t.Errorf("a loop of forks: %q, want it stopped before %d", out, mostPids)
	}
	if !g.Alive() {
		t.Error("the guest died of it")
	}
	if err := g.ping(t.Context()); err != nil {
		t.Errorf("init does not answer: %v", err)
	}
}

func TestMemoryHogStaysInsideWhereMemoryIsLimited(t *testing.T) {
	dir := t.TempDir()
	spec := newSpec(t, dir, uniqueName())
	spec.MemoryMB = 256
	g, facts := create(t, newDriver(t, dir), spec)
	limits := facts["limits"].(string)
	if strings.Contains(limits, "memory not limited: ") {
		if os.Geteuid() == 0 {
			lacking(t, "memory is not limited although we are root: %s", limits)
		}
		return // the facts say so, and that is all there is to keep
	}
	code, out := run(t, g, "perl", "-e", `$x = "a" x (600*1024*1024); print length $x`)
	if code != 128+9 {
		t.Errorf("600 MiB in a guest of 256: status %d, %s; want it killed", code, out)
	}
	if out := sh(t, g, "echo alive"); out != "alive\n" {
		t.Errorf("after that: %q", out)
	}
}

// The whole list, once more as a user who is not root.
func TestAllOfItAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this run is one already")
	}
	runAsUser(t)
}
