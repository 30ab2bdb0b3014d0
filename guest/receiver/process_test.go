package receiver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// pidIn reads a pid that a script wrote to a file of the workspace.
func (g *guestRoot) pidIn(name string) int {
	g.t.Helper()
	var pid int
	eventually(g.t, name+" holds a pid", func() bool {
		data, err := os.ReadFile(g.join("workspace", name))
		if err != nil || !strings.HasSuffix(string(data), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	return pid
}

// alive reports whether pid is there and not a zombie.
func alive(pid int) bool {
	p, err := readProcess(pid)
	return err == nil && !p.zombie
}

// killLater ends a process that a script of the test left.
func killLater(t *testing.T, pid int) {
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
}

func confirmed(t *testing.T, receipt protocol.Receipt) {
	t.Helper()
	if receipt.TerminationConfirmed == nil || !*receipt.TerminationConfirmed {
		t.Errorf("termination is not confirmed: %s", asJSON(t, receipt))
	}
}

// On a timeout everything that stems from the script is killed, wherever it went; the output printed before is kept, and the
// next run works.
func TestTimeoutKillsAllAndKeepsOutput(t *testing.T) {
	for _, row := range []struct{ name, code string }{
		{"plain", `echo $$ > pid; sleep 60`},
		{"background child", `sleep 60 & echo $! > pid; wait`},
		{"child in a session of its own", `setsid sh -c 'echo $$ > pid; sleep 60' & sleep 60`},
		{"orphan in a session of its own", `(setsid sh -c 'echo $$ > pid; exec sleep 60' &) ; sleep 60`},
		{"deaf to signals", `trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 60; done`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			receipt := g.shell("echo out; echo err >&2; "+row.code, func(r *protocol.Request) { r.TimeoutMs = 400 })
			want(t, receipt, protocol.Uncertain, "")
			confirmed(t, receipt)
			if !receipt.TimedOut || *receipt.Stdout != "out\n" || *receipt.Stderr != "err\n" {
				t.Errorf("receipt is %s", asJSON(t, receipt))
			}
			if pid := g.pidIn("pid"); alive(pid) {
				killLater(t, pid)
				t.Errorf("process %d is still there", pid)
			}
			// The picture after it is taken all the same.
			if receipt.ImageEvidence.Status != protocol.ImageAvailable {
				t.Errorf("image evidence is %s", asJSON(t, receipt.ImageEvidence))
			}
			wantExit(t, g.shell("true"), 0)
		})
	}
}

// What a script leaves running after its own end stays, and is listed; a stream it still holds does not hold the run.
func TestLeftoversStayAndAreListed(t *testing.T) {
	for _, row := range []struct{ name, code string }{
		{"holding stdout", `sleep 60 & echo $! > pid; while [ "$(cat /proc/$!/comm)" != sleep ]; do :; done; echo out`},
		{"in a session of its own", `setsid sleep 60 & echo $! > pid; while [ "$(cat /proc/$!/comm)" != sleep ]; do :; done; echo out`},
		{"without streams", `sleep 60 >/dev/null 2>&1 & echo $! > pid; while [ "$(cat /proc/$!/comm)" != sleep ]; do :; done; echo out`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			begun := time.Now()
			receipt := g.shell(row.code)
			pid := g.pidIn("pid")
			killLater(t, pid)
			wantExit(t, receipt, 0)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("the leftover held the run for %s", took)
			}
			if !alive(pid) {
				t.Error("the leftover was killed")
			}
			if len(receipt.Leftover) != 1 || receipt.Leftover[0].PID != pid || receipt.Leftover[0].Name != "sleep" || receipt.LeftoverTotal != 1 {
				t.Errorf("leftover is %s", asJSON(t, receipt.Leftover))
			}
			if *receipt.Stdout != "out\n" || receipt.TerminationConfirmed != nil {
				t.Errorf("receipt is %s", asJSON(t, receipt))
			}
			next := g.shell("true")
			wantExit(t, next, 0)
			if len(next.Leftover) != 0 || !alive(pid) {
				t.Errorf("the next run owns it: %s", asJSON(t, next.Leftover))
			}
		})
	}
}

// A leftover that goes on printing must not die of a closed pipe when the receiver is gone.
func TestLeftoverMayGoOnPrinting(t *testing.T) {
	g := newGuest(t)
	req := g.push(protocol.Shell, `(while :; do echo tick; echo x >> ticks; sleep 0.02; done) & echo $! > pid`, noSnapshots)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The runtime under its own name, so that it can start itself as the reader.
	runtime := g.join(protocol.RuntimeName)
	if err := os.Link(self, runtime); err != nil {
		data, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(runtime, data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(runtime, protocol.VerbInvoke, g.path, g.join("requests", req.ExecutionID+".json")).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pid := g.pidIn("pid")
	killLater(t, pid)
	after := g.count("ticks")
	eventually(t, "it printed on", func() bool { return g.count("ticks") > after+20 })
	if !alive(pid) {
		t.Error("the leftover died")
	}
}

func TestCancellationKillsAndIsRecorded(t *testing.T) {
	g := newGuest(t)
	ctx, cancel := context.WithCancel(t.Context())
	req := g.push(protocol.Shell, "echo begun; echo $$ > pid; sleep 60; echo x >> ran")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(g.join("workspace", "pid")); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	receipt := g.runContext(ctx, req, Options{Capturer: &fakeCapturer{}})
	want(t, receipt, protocol.Uncertain, "")
	confirmed(t, receipt)
	if receipt.TimedOut || alive(g.pidIn("pid")) || g.count("ran") != 0 || *receipt.Stdout != "begun\n" {
		t.Errorf("receipt is %s", asJSON(t, receipt))
	}
	wantExit(t, g.shell("true"), 0)
}

// SIGTERM is a cancellation that reached the guest.
func TestSignalToTheRuntimeIsACancellation(t *testing.T) {
	g := newGuest(t)
	req := g.push(protocol.Shell, "echo $$ > pid; sleep 60", noSnapshots)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "runtime", protocol.VerbInvoke, g.path, g.join("requests", req.ExecutionID+".json"))
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := g.pidIn("pid")
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var ack protocol.Ack
	if err := protocol.ParseAnswer(out.String(), &ack); err != nil || ack.Outcome != protocol.Uncertain || ack.Receipt == "" {
		t.Errorf("%v: %s", err, out.String())
	}
	if alive(pid) {
		t.Error("the script is still there")
	}
}

func TestCancelledBeforeItsDispatchRanNothing(t *testing.T) {
	g := newGuest(t)
	ctx, cancel := context.WithCancel(t.Context())
	opt := Options{Capturer: &fakeCapturer{}, Hook: func(at string) {
		if at == pointBegun {
			cancel()
		}
	}}
	receipt := g.runContext(ctx, g.push(protocol.Shell, "echo x >> ran"), opt)
	want(t, receipt, protocol.Refused, protocol.ReasonCancelled)
	if g.count("ran") != 0 {
		t.Error("it ran")
	}
}

// While one run is on: the same id is uncertain and leaves no receipt, another is refused as busy, durably, and the first completes.
func TestOneRunAtATime(t *testing.T) {
	g := newGuest(t)
	first := g.push(protocol.Shell, "echo x >> ran; while [ ! -e go ]; do sleep 0.01; done")
	second := g.push(protocol.Shell, "echo y >> ran")
	cmd := g.process(first, "")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first runs", func() bool { return g.count("ran") == 1 })

	same, written, err := Run(t.Context(), g.path, g.join("requests", first.ExecutionID+".json"), Options{})
	if err != nil || written != "" {
		t.Errorf("%q %v", written, err)
	}
	want(t, same, protocol.Uncertain, "")
	busy := g.run(second, Options{Capturer: &fakeCapturer{}})
	want(t, busy, protocol.Refused, protocol.ReasonBusy)

	g.write(g.join("workspace", "go"), "")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v %s", err, out.String())
	}
	wantExit(t, g.run(first, Options{}), 0)
	// The busy answer stands, also now.
	want(t, g.run(second, Options{Capturer: &fakeCapturer{}}), protocol.Refused, protocol.ReasonBusy)
	if n := g.count("ran"); n != 1 {
		t.Errorf("scripts ran %d times", n)
	}
	wantExit(t, g.shell("true"), 0)
}

// Any number of receivers for one request run it once.
func TestManyReceiversOfOneRequestRunItOnce(t *testing.T) {
	g := newGuest(t)
	req := g.push(protocol.Shell, "echo x >> ran; sleep 0.05")
	var all []*exec.Cmd
	for range 8 {
		cmd := g.process(req, "")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if n := g.count("ran"); n > 1 {
		t.Errorf("it ran %d times", n)
	}
	receipt := g.run(req, Options{})
	if ran := g.count("ran"); (receipt.Outcome.Kind == protocol.Completed) != (ran == 1) {
		t.Errorf("it ran %d times, and the receipt says %s", ran, asJSON(t, receipt.Outcome))
	}
}

// Two requests at once: each runs or is refused as busy, and the receipts tell the truth.
func TestReceiptsOfRacingRequestsTellTheTruth(t *testing.T) {
	g := newGuest(t)
	var reqs []protocol.Request
	var all []*exec.Cmd
	for i := range 6 {
		reqs = append(reqs, g.push(protocol.Shell, fmt.Sprintf("echo x >> ran%d", i)))
	}
	for _, req := range reqs {
		cmd := g.process(req, "")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	for i, req := range reqs {
		receipt := g.run(req, Options{})
		ran := g.count(fmt.Sprintf("ran%d", i))
		switch {
		case receipt.Outcome.Kind == protocol.Completed && ran == 1:
		case receipt.Outcome.Reason == protocol.ReasonBusy && ran == 0:
		default:
			t.Errorf("run %d ran %d times and says %s", i, ran, asJSON(t, receipt.Outcome))
		}
	}
}

// kill -9 of the receiver at every durable point: the script runs at most once, the same id gets a definite and true answer,
// the next id completes, and the journal is whole.
func TestReceiverKilledAtEachPoint(t *testing.T) {
	dispatched := false
	for _, point := range []string{pointOwned, pointClaimed, pointRouted, pointVerified, pointBegun, pointIntended, pointPhotograph,
		pointCaptured, pointDispatch, pointStarted, pointEnded,
		pointIntended + ":2", pointPhotograph + ":2", pointCaptured + ":2", pointCompleted, pointRetained, pointAnswered, pointSettled} {
		dispatched = dispatched || point == pointDispatch
		t.Run(point, func(t *testing.T) {
			g := newGuest(t)
			req := g.push(protocol.Shell, "echo $$ > pid; echo x >> ran")
			if err := g.process(req, point).Run(); err == nil {
				t.Fatal("the receiver did not die")
			}
			next := g.shell("echo y >> other")
			wantExit(t, next, 0)
			receipt := g.run(req, Options{Capturer: &fakeCapturer{}})
			ran := g.count("ran")
			switch {
			case point == pointOwned: // nothing was claimed: it runs now
				wantExit(t, receipt, 0)
				if ran != 1 {
					t.Errorf("it ran %d times", ran)
				}
			case !dispatched:
				want(t, receipt, protocol.Refused, protocol.ReasonCancelled)
				if ran != 0 {
					t.Errorf("it ran %d times", ran)
				}
			case point == pointRetained || point == pointAnswered || point == pointSettled:
				// The receipt, or the journal that holds it, knows the end.
				wantExit(t, receipt, 0)
				if ran != 1 {
					t.Errorf("it ran %d times", ran)
				}
			default:
				want(t, receipt, protocol.Uncertain, "")
				if ran > 1 {
					t.Errorf("it ran %d times", ran)
				}
			}
			if again := g.run(req, Options{Capturer: &fakeCapturer{}}); asJSON(t, again) != asJSON(t, receipt) || g.count("ran") != ran {
				t.Errorf("asked again it says %s", asJSON(t, again))
			}
			closed := map[string]int{}
			for _, e := range g.journal() {
				closed[e.ExecutionID+e.Kind]++
			}
			for _, id := range []string{req.ExecutionID, next.ExecutionID} {
				if closed[id+"action-start"] != closed[id+"action-completion"]+closed[id+"action-refusal"] || closed[id+"execution-completion"] > 1 {
					t.Errorf("the journal does not close %s: %v", id, closed)
				}
			}
		})
	}
}

// Who asks for the very run whose receiver died gets a durable answer at once, and its image status fits its plan.
func TestAskingForARunThatDied(t *testing.T) {
	for _, row := range []struct {
		name, point, outcome, image string
		edit                        func(*protocol.Request)
	}{
		{"before its dispatch", pointClaimed, protocol.Refused, protocol.ImageCaptureUnknown, func(*protocol.Request) {}},
		{"before its dispatch, no pictures", pointClaimed, protocol.Refused, protocol.ImageNotRequested, noSnapshots},
		{"after its dispatch", pointEnded, protocol.Uncertain, protocol.ImageCaptureUnknown, func(*protocol.Request) {}},
		{"after its dispatch, no pictures", pointEnded, protocol.Uncertain, protocol.ImageNotRequested, noSnapshots},
		{"after its last picture", pointCompleted, protocol.Uncertain, protocol.ImageAvailable, func(*protocol.Request) {}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			req := g.push(protocol.Shell, "echo x >> ran", row.edit)
			if err := g.process(req, row.point).Run(); err == nil {
				t.Fatal("the receiver did not die")
			}
			ran := g.count("ran")
			receipt := g.run(req, Options{Capturer: &fakeCapturer{}})
			if receipt.Outcome.Kind != row.outcome || receipt.ImageEvidence.Status != row.image || g.count("ran") != ran {
				t.Errorf("receipt is %s", asJSON(t, receipt))
			}
			if _, err := os.Stat(g.join("state", "receiver", "receipts", req.ExecutionID+".json")); err != nil {
				t.Error(err)
			}
			if receipt.RequestSHA256 == "" || receipt.SessionID != req.SessionID || receipt.Outcome.Diagnostic == "" {
				t.Errorf("receipt is %s", asJSON(t, receipt))
			}
		})
	}
}

// A receiver killed while its script runs: the script dies with it, also what it started, before the next one runs.
func TestScriptOfAKilledReceiverIsEnded(t *testing.T) {
	g := newGuest(t)
	req := g.push(protocol.Shell, "sh -c 'echo $$ > child; sleep 60; echo x >> ran' & echo $$ > pid; wait")
	cmd := g.process(req, "")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	script, child := g.pidIn("pid"), g.pidIn("child")
	killLater(t, child)
	var o owner
	eventually(t, "the owner record names the script", func() bool {
		data, err := os.ReadFile(g.join(lockDir, "owner.json"))
		return err == nil && json.Unmarshal(data, &o) == nil && o.Script != nil && o.Script.PID == script
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the script is gone", func() bool { return !alive(script) })
	wantExit(t, g.shell("true"), 0)
	if alive(child) {
		t.Error("the script's child is still there")
	}
	receipt := g.run(req, Options{})
	want(t, receipt, protocol.Uncertain, "")
	if len(receipt.ImageEvidence.Snapshots) != 1 || receipt.ImageEvidence.Status != protocol.ImageCaptureUnknown {
		t.Errorf("the picture before it is lost: %s", asJSON(t, receipt.ImageEvidence))
	}
}

// A number that another process took over is nobody we may signal.
func TestSurvivorsAreOnlyThoseProvablyOfTheScript(t *testing.T) {
	script := identity{PID: 50, Start: "1000"}
	row := func(pid int, start string, session int) process {
		return process{identity: identity{pid, start}, session: session, group: session}
	}
	for _, r := range []struct {
		name  string
		table []process
		want  int
	}{
		{"leader and child", []process{row(50, "1000", 50), row(51, "1001", 50)}, 2},
		{"leader gone", []process{row(51, "1001", 50)}, 1},
		{"number reused", []process{row(50, "2000", 50), row(51, "2001", 50)}, 0},
		{"older than the script", []process{row(51, "999", 50)}, 0},
		{"other session", []process{row(51, "1001", 7)}, 0},
		{"zombie", []process{{identity: identity{51, "1001"}, session: 50, zombie: true}}, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			if got := survivors(script, r.table); len(got) != r.want {
				t.Errorf("survivors: %v", got)
			}
		})
	}
}

func TestProofOfAbsence(t *testing.T) { synctest.Test(t, proofOfAbsence) }

func proofOfAbsence(t *testing.T) {
	gone := func(calls *int, after int) func() ([]process, error) {
		return func() ([]process, error) {
			*calls++
			if *calls > after {
				return nil, nil
			}
			return []process{{identity: identity{PID: 1 << 30, Start: "1"}}}, nil
		}
	}
	var calls int
	if got := endAll(gone(&calls, 2)); got == nil || !*got || calls != 3 {
		t.Errorf("gone at the third look: %v after %d", got, calls)
	}
	calls = 0
	if got := endAll(gone(&calls, 1<<20)); got == nil || *got {
		t.Errorf("never gone: %v", got)
	}
	if got := endAll(func() ([]process, error) { return nil, os.ErrPermission }); got != nil {
		t.Errorf("table unreadable: %v", *got)
	}
}

func TestSignalReachesOnlyTheProcessMeant(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	id, err := identityOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := id
	other.Start += "0"
	if err := signalExactly(other, unix.SIGKILL); err != unix.ESRCH || !alive(id.PID) {
		t.Errorf("a process with another start time was signalled: %v", err)
	}
	if err := signalExactly(id, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	eventually(t, "it died", func() bool { return !alive(id.PID) })
}
