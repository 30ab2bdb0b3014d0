package guest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// inFlight is a guest whose acquisition was sent to process one of a service and whose answer was lost; no machine was made.
func inFlight(t *testing.T, b *bench) *Guest {
	t.Helper()
	b.api.SetProcess("one", "folder")
	return lostAcquire(t, b)
}

func lostAcquire(t *testing.T, b *bench) *Guest {
	t.Helper()
	g := b.create(b.input())
	b.api.Fail(machine.OpAcquire, serviceError(503, machine.CodeInternal, "it was killed"))
	if _, err := g.Acquire(t.Context()); err == nil || g.Gone() {
		t.Fatalf("gone %v, %v; want a guest that is kept", g.Gone(), err)
	}
	return g
}

// sentBefore makes the acquisition one that was sent so long ago.
func sentBefore(t *testing.T, g *Guest, ago time.Duration) {
	t.Helper()
	if err := g.update(func(r *Record) { r.StartedAt = isoTime(g.now().Add(-ago)) }); err != nil {
		t.Fatal(err)
	}
}

// The service that was asked is dead, its successor on the same folder has nothing of it: nothing was made, and that is proved.
func TestAnAcquisitionThatDiedWithItsServiceIsSettled(t *testing.T) {
	for _, c := range []struct {
		name   string
		settle func(t *testing.T, b *bench, g *Guest)
	}{
		{"by a release", func(t *testing.T, _ *bench, g *Guest) {
			if _, err := g.Release(t.Context()); err != nil || !g.Gone() {
				t.Errorf("gone %v, %v", g.Gone(), err)
			}
		}},
		{"by the next call on it", func(t *testing.T, _ *bench, g *Guest) {
			wantRefused(t, g.Reconcile(t.Context()), "never completed and no machine exists for it, so its name is given up: acquire again")
			if !g.Gone() {
				t.Error("the guest is kept")
			}
		}},
		{"by the first call after a restart", func(t *testing.T, b *bench, g *Guest) {
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := b.newSession().Open(t.Context(), g.Name())
			if err != nil {
				t.Fatal(err)
			}
			wantRefused(t, again.Reconcile(t.Context()), "acquire again")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			g := inFlight(t, b)
			b.api.SetProcess("two", "folder")
			c.settle(t, b, g)
			if b.api.Calls(machine.OpAcquire) != 1 || b.api.Calls(machine.OpRelease) != 0 {
				t.Errorf("%d acquisitions and %d releases were asked for", b.api.Calls(machine.OpAcquire), b.api.Calls(machine.OpRelease))
			}
			if stored, err := b.newSession().Records(); err != nil || len(stored) != 0 {
				t.Errorf("records left: %v, %v", stored, err)
			}
			if !slices.Contains(b.kinds(), eventAcquireRefused) {
				t.Errorf("the end left no event: %v", b.kinds())
			}
		})
	}
}

// Anything less is no proof, and the guest is kept with the reason.
func TestAnAcquisitionIsKeptWithoutProof(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *bench, g *Guest)
		want   string
	}{
		{"the same process runs", func(*bench, *Guest) {}, "still runs and may still make it; it is settled when none has come by "},
		{"another folder's service answers", func(b *bench, _ *Guest) { b.api.SetProcess("two", "elsewhere") }, "another machine-service"},
		{"nobody says which process answers", func(b *bench, _ *Guest) {
			b.api.Fail(machine.OpHealth, errors.New("nobody there"))
		}, "nobody there"},
		{"the witness cannot look", func(b *bench, _ *Guest) {
			b.api.SetProcess("two", "folder")
			b.api.Fail("witness", errors.New("no lister"))
		}, "cannot prove that no machine was made"},
		{"the host still has a machine of it", func(b *bench, g *Guest) {
			b.api.Remain(g.rec().Purpose + "-0a1b2c")
			b.api.SetProcess("two", "folder")
		}, "the host still has machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			g := inFlight(t, b)
			c.change(b, g)
			_, err := g.Release(t.Context())
			wantError(t, err, c.want)
			if g.Gone() {
				t.Error("the guest was forgotten")
			}
		})
	}
}

// Where no process can be told from another, time tells: the request's own hour and one window. Our own service, while it runs, is
// believed sooner, for it ends by itself what it made for a caller who has gone.
func TestAnAcquisitionIsSettledByTime(t *testing.T) {
	for _, c := range []struct {
		name             string
		instance, folder string
		answers          [2]string // who does later
		after            time.Duration
	}{
		{"a service that does not say who answers", "", "", [2]string{}, acquirePatience + DefaultWindow},
		{"a service that does not say its folder", "one", "", [2]string{"two", ""}, acquirePatience + DefaultWindow},
		{"another folder's service answers", "one", "folder", [2]string{"two", "elsewhere"}, acquirePatience + DefaultWindow},
		{"the process that was asked still runs", "one", "folder", [2]string{"one", "folder"}, acquireArrival},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.api.SetProcess(c.instance, c.folder)
			g := lostAcquire(t, b)
			b.api.SetProcess(c.answers[0], c.answers[1])
			sentBefore(t, g, c.after-time.Minute)
			if _, err := g.Release(t.Context()); err == nil || g.Gone() {
				t.Fatalf("gone %v before its time, %v", g.Gone(), err)
			}
			sentBefore(t, g, c.after+time.Second)
			if _, err := g.Release(t.Context()); err != nil || !g.Gone() {
				t.Errorf("gone %v after its time, %v", g.Gone(), err)
			}
		})
	}
}

// The process that was asked makes the machine after it has listed none, and dies: its successor has the machine, and it is not lost.
func TestAMachineMadeAfterTheListIsNotForgotten(t *testing.T) {
	b := newBench(t)
	g := inFlight(t, b)
	reached, goOn := b.api.Hold(machine.OpHealth)
	released := make(chan error, 1)
	go func() {
		_, err := g.Release(t.Context())
		released <- err
	}()
	<-reached
	lease, err := b.api.Acquire(t.Context(), g.acquireRequest())
	if err != nil {
		t.Fatal(err)
	}
	b.api.SetProcess("two", "folder")
	goOn()
	wantError(t, <-released, "one appeared meanwhile; try again")
	if g.Gone() {
		t.Fatal("the guest was forgotten")
	}
	if _, err := g.Release(t.Context()); err != nil || !g.Gone() {
		t.Errorf("gone %v, %v", g.Gone(), err)
	}
	if _, err := b.api.Get(t.Context(), lease.Name); !errors.Is(err, machine.ErrUnknownMachine) {
		t.Errorf("the machine is not destroyed: %v", err)
	}
}

// A process that took the place of the noted one begins nothing; it is noted itself before it is asked.
func TestAnAcquisitionIsMadeByTheProcessThatIsNoted(t *testing.T) {
	b := newBench(t)
	b.api.SetProcess("one", "folder")
	g := b.create(b.input())
	reached, goOn := b.api.Hold(machine.OpAcquire)
	acquired := make(chan error, 1)
	go func() {
		_, err := g.Acquire(t.Context())
		acquired <- err
	}()
	<-reached
	if r := g.rec(); !r.AcquisitionInFlight || r.AcquireInstance != "one" || r.AcquireFolder != "folder" {
		t.Errorf("not noted before it was sent: %+v", r)
	}
	b.api.SetProcess("two", "folder")
	goOn()
	if err := <-acquired; err != nil {
		t.Fatal(err)
	}
	if r := g.rec(); r.AcquireInstance != "two" || r.Lease == nil || b.api.Calls(machine.OpAcquire) != 2 {
		t.Errorf("%d acquisitions, recorded %+v", b.api.Calls(machine.OpAcquire), r)
	}
}

// A service that cannot be asked who it is is not sent the request: nothing could be proved about it later.
func TestNothingIsSentToAServiceThatCannotBeAsked(t *testing.T) {
	b := newBench(t)
	g := b.create(b.input())
	b.api.Fail(machine.OpHealth, errors.New("nobody there"))
	_, err := g.Acquire(t.Context())
	wantError(t, err, "nothing was sent and no machine was allocated: machine-service cannot be asked who it is: nobody there")
	if !g.Gone() || b.api.Calls(machine.OpAcquire) != 0 {
		t.Errorf("gone %v after %d acquisitions", g.Gone(), b.api.Calls(machine.OpAcquire))
	}
}
