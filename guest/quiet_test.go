package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/fake"
)

// abandoned starts a run whose answer is lost at once, as when the service dies: it goes on until a file "go" is made.
func (b *bench) abandoned(g *Guest) (execution string, ended <-chan struct{}) {
	b.Helper()
	over := make(chan struct{})
	b.wire.onExec = func(argv []string, next func() (machine.ExecResult, error)) (machine.ExecResult, error) {
		if !slices.Contains(argv, protocol.VerbInvoke) {
			return next()
		}
		go func() {
			defer close(over)
			_, _ = next()
		}()
		return machine.ExecResult{}, fake.ErrLost
	}
	value, _ := b.run(g, shell("echo x > begun; while [ ! -e go ]; do sleep 0.01; done; echo late > out"))
	if value.Outcome.Kind != protocol.Uncertain {
		b.Fatalf("outcome %+v, want uncertain", value.Outcome)
	}
	for deadline := time.Now().Add(time.Minute); !exists(filepath.Join(g.rec().workspace(), "begun")); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("the run did not begin")
		}
	}
	return value.ExecutionID, over
}

// A run that outlived the service's memory of it is not destroyed with its machine: finish names it and changes nothing, and once it
// has ended delivers what it did, its receipt too.
func TestFinishWaitsForARunInProgress(t *testing.T) {
	b := newBench(t)
	g := b.declaring(Declaration{"out", "out"})
	execution, ended := b.abandoned(g)
	pulls, record := b.api.Calls("pull"), b.read(filepath.Join(g.dir, "lease.json"))
	idle := func(do func(argv []string)) {
		b.wire.onExec = func(argv []string, next func() (machine.ExecResult, error)) (machine.ExecResult, error) {
			if slices.Contains(argv, protocol.VerbIdle) {
				do(argv)
			}
			return next()
		}
	}
	idle(func(argv []string) { argv[len(argv)-1] = "0" }) // the test does not wait so long
	_, err := g.Finish(t.Context())
	for _, part := range []string{execution, "nothing was changed", "relay_finish again", "relay_release"} {
		wantRefused(t, err, part)
	}
	if g.Gone() || b.api.Calls("release") != 0 || b.api.Calls("pull") != pulls || slices.Contains(b.kinds(), eventFinish) {
		t.Errorf("gone %v, events %v", g.Gone(), b.kinds())
	}
	if after := b.read(filepath.Join(g.dir, "lease.json")); after != record {
		t.Errorf("the record changed to %s", after)
	}

	idle(func([]string) { b.produce(g, "go", "") })
	result := b.finish(g)
	<-ended
	if !result.DeliveryVerified || result.Execution == evidence.Passed {
		t.Errorf("result %+v", result.Delivered)
	}
	if outputs, _ := filepath.Glob(g.rec().host("extractions", "out", "*")); len(outputs) != 1 || b.read(outputs[0]) != "late\n" {
		t.Errorf("outputs %v", outputs)
	}
	if !exists(g.rec().host("state", "receiver", "receipts", execution+".json")) {
		t.Error("the receipt was not brought over")
	}
}

// A command that has the machine keeps the question itself waiting; that is bounded too.
func TestFinishDoesNotWaitForeverBehindACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		g := b.staged(b.input())
		_, release := b.api.Hold(machine.OpExec)
		defer release()
		began := time.Now()
		_, err := g.Finish(t.Context())
		wantRefused(t, err, "a command that was sent before")
		if took := time.Since(began); took != quietWait+quietSlack || g.Gone() {
			t.Errorf("refused after %v, gone %v", took, g.Gone())
		}
		_, again := b.api.Hold(machine.OpExec)
		defer again()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = g.Finish(ctx)
		wantError(t, err, "cannot tell whether a run is in progress")
	})
}

// A guest staged before the runtime could be asked is finished without.
func TestFinishTakesARuntimeThatCannotBeAsked(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.run(g, shell("true"))
	b.wire.onExec = func(argv []string, next func() (machine.ExecResult, error)) (machine.ExecResult, error) {
		if i := slices.Index(argv, protocol.VerbIdle); i >= 0 {
			argv[i] = "unheard-of"
		}
		return next()
	}
	if result := b.finish(g); !result.DeliveryVerified {
		t.Errorf("result %+v", result)
	}
}

// A machine that is dead stays dead: finish does not ask to be called again, and release keeps what the host has.
func TestFinishOfADeadMachineNamesTheWayOut(t *testing.T) {
	b := newBench(t)
	g := b.declaring(Declaration{"out", "out"})
	value, _ := b.run(g, shell("echo kept"))
	b.wire.onExec = func([]string, func() (machine.ExecResult, error)) (machine.ExecResult, error) {
		return machine.ExecResult{}, serviceError(500, machine.CodeMachineGone, "ssh failed: it ended while or before the command ran")
	}
	_, err := g.Finish(t.Context())
	for _, part := range []string{"is dead", "never", "relay_release", "keeps what the host has"} {
		wantRefused(t, err, part)
	}
	if strings.Contains(err.Error(), "called again") || g.Gone() {
		t.Errorf("error %v, gone %v", err, g.Gone())
	}
	if _, err := g.Release(t.Context()); err != nil || !g.Gone() {
		t.Fatalf("gone %v, %v", g.Gone(), err)
	}
	if !exists(g.rec().host("host", "receiver-receipts", value.ExecutionID+".json")) {
		t.Error("what the host had is lost")
	}
}

// A script that nobody waits for any more has the machine: the work on the evidence is bounded, its record says what was left, and the
// machine is destroyed. A caller that cancels does not even wait so long.
func TestReleaseBoundsItsWorkOnTheEvidence(t *testing.T) {
	for _, test := range []struct {
		name   string
		cancel time.Duration
		want   time.Duration
	}{
		{"time over", time.Hour, salvageTime},
		{"cancelled", 7 * time.Second, 7 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				g := b.declaring(Declaration{"out", "out"}, Declaration{"more", "more"})
				b.produce(g, "out", "data")
				_, free := b.api.Hold(machine.OpExec)
				defer free()
				ctx, cancel := context.WithTimeout(t.Context(), test.cancel)
				defer cancel()
				began := time.Now()
				result, err := g.Release(ctx)
				if took := time.Since(began); err != nil || !g.Gone() || took != test.want {
					t.Fatalf("gone %v after %v, %v", g.Gone(), took, err)
				}
				lost := errors.New(result.Value.(*FinishResult).DeliveryError)
				for _, part := range []string{"no time left", `"out"`, `"more"`, "the sealed recording"} {
					wantError(t, lost, part)
				}
				if data, err := os.ReadFile(g.rec().HostRoot + ".delivery-error.json"); err != nil || !strings.Contains(string(data), "sealed recording") {
					t.Errorf("the record says %s, %v", data, err)
				}
			})
		})
	}
}
