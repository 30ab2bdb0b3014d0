package guest

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// inFlight is a guest whose acquisition was sent to process one of a service and whose answer was lost; no machine was made.
func inFlight(t *testing.T, b *bench) *Guest {
	t.Helper()
	b.api.SetProcess("one", "folder")
	g := b.create(b.input())
	b.api.Fail("acquire", serviceError(503, machine.CodeInternal, "it was killed"))
	if _, err := g.Acquire(t.Context()); err == nil || g.Gone() {
		t.Fatalf("gone %v, %v; want a guest that is kept", g.Gone(), err)
	}
	return g
}

// The service that was asked is dead, its successor on the same folder has nothing of it: nothing was made, and that is proved.
func TestAnAcquisitionThatDiedWithItsServiceIsSettled(t *testing.T) {
	for name, settle := range map[string]func(*Guest) error{
		"by a release":           func(g *Guest) error { _, err := g.Release(t.Context()); return err },
		"by the next call on it": func(g *Guest) error { return g.Reconcile(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			g := inFlight(t, b)
			b.api.SetProcess("two", "folder")
			if err := settle(g); err != nil && !strings.Contains(err.Error(), "acquire again") {
				t.Error(err)
			}
			if !g.Gone() || b.api.Calls("acquire") != 1 || b.api.Calls("release") != 0 {
				t.Errorf("gone %v after %d acquisitions and %d releases", g.Gone(), b.api.Calls("acquire"), b.api.Calls("release"))
			}
			if stored, err := b.newSession().Records(); err != nil || len(stored) != 0 {
				t.Errorf("records left: %v, %v", stored, err)
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
		{"the same process runs", func(*bench, *Guest) {}, "still runs"},
		{"another folder's service answers", func(b *bench, _ *Guest) { b.api.SetProcess("two", "elsewhere") }, "another machine-service"},
		{"the host still has a machine of it", func(b *bench, g *Guest) {
			lease, err := b.api.Acquire(t.Context(), g.acquireRequest())
			if err != nil {
				t.Fatal(err)
			}
			b.api.Vanish(lease.Name)
			b.api.Remain(lease.Name)
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

// Of a service that does not say which process answers only time tells: the request's own hour and one window.
func TestAnAcquisitionOfAnUnknownServiceIsSettledByTime(t *testing.T) {
	b := newBench(t)
	g := b.create(b.input())
	b.api.Fail("acquire", serviceError(503, machine.CodeInternal, "it was killed"))
	if _, err := g.Acquire(t.Context()); err == nil {
		t.Fatal("the acquisition did not fail")
	}
	if _, err := g.Release(t.Context()); err == nil || g.Gone() {
		t.Fatalf("gone %v at once, %v", g.Gone(), err)
	}
	if err := g.update(func(r *Record) { r.StartedAt = isoTime(g.now().Add(-acquirePatience - g.s.opt.Window - time.Second)) }); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Release(t.Context()); err != nil || !g.Gone() {
		t.Errorf("gone %v after its time, %v", g.Gone(), err)
	}
}
