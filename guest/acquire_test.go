package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// acquiring lets a test see what is durable when the request leaves.
type acquiring struct {
	machine.API
	before func(machine.AcquireRequest)
	after  func()
}

func (a acquiring) Acquire(ctx context.Context, req machine.AcquireRequest) (machine.Lease, error) {
	if a.before != nil {
		a.before(req)
	}
	if a.after != nil {
		defer a.after()
	}
	return a.API.Acquire(ctx, req)
}

// T50, T80, P4: when the request leaves, the record names the guest and says that it is in flight; it asks for one window.
func TestAcquireIsDurableBeforeItIsSent(t *testing.T) {
	b := newBench(t)
	var seen Record
	b.opt.API = acquiring{API: b.wire, before: func(req machine.AcquireRequest) {
		record, err := loadRecord(b.session.guestDir("demo-1"))
		if err != nil {
			t.Error(err)
		}
		seen = record
		if req.Purpose != record.Purpose || req.TTL != 15*time.Minute || req.Network != NetworkNAT {
			t.Errorf("request %+v, want the record's purpose, one window and nat", req)
		}
	}}
	b.session = b.newSession()
	g := b.acquire(b.input())
	if !seen.AcquisitionInFlight || seen.Lease != nil {
		t.Errorf("record at sending: in flight %v, lease %v; want in flight without a lease", seen.AcquisitionInFlight, seen.Lease)
	}
	if r := g.rec(); r.AcquisitionInFlight || r.Lease == nil || r.Lease.Purpose != seen.Purpose {
		t.Errorf("record after the answer: %+v", r)
	}
	if view := g.Lease(); !view.Deadline.Equal(view.Start.Add(4*time.Hour)) || view.Expires.IsZero() {
		t.Errorf("lease clock %+v, want a deadline four hours after the start and a confirmed expiry", view)
	}
}

// T57, D19: a refusal leaves nothing but the events, and its name is never used again.
func TestRefusedAcquireLeavesOnlyItsEvents(t *testing.T) {
	b := newBench(t)
	g := b.create(b.input())
	b.api.Fail("acquire", serviceError(409, machine.CodeBootFailed, "cannot boot"))
	_, err := g.Acquire(t.Context())
	wantRefused(t, err, "cannot boot")
	if !g.Gone() {
		t.Error("the guest is still held")
	}
	if list, _ := b.session.Records(); len(list) != 0 {
		t.Errorf("records %v, want none", list)
	}
	b.empty(filepath.Join(b.opt.Project, evidenceFolder))
	if got := b.read(filepath.Join(b.session.guestDir("demo-1"), recordFile)); got != "null\n" {
		t.Errorf("record %q, want null", got)
	}
	if events, _ := filepath.Glob(filepath.Join(b.session.guestDir("demo-1"), "events", "*.json")); len(events) != 2 {
		t.Errorf("events %v, want the intent and the refusal", events)
	}
	if name, _ := b.session.NextName("demo"); name != "demo-2" {
		t.Errorf("next name %s, want demo-2", name)
	}
}

// T54, T112 for acquisitions: a lost answer is never asked for again; the machine is found by its purpose.
func TestLostAcquireIsAdoptedByPurpose(t *testing.T) {
	b := newBench(t)
	g := b.create(b.input())
	b.api.Lose("acquire")
	_, err := g.Acquire(t.Context())
	wantError(t, err, "not known")
	var failed *OperationError
	if !errors.As(err, &failed) || g.Gone() || g.Status().State != StateIndeterminate {
		t.Fatalf("error %v, state %s; want a guest that is kept, indeterminate", err, g.Status().State)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.newSession().Open(t.Context(), "demo-1")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again.Status().State != StateLeased || b.api.Calls("acquire") != 1 {
		t.Errorf("state %s after %d acquisitions, want leased after one", again.Status().State, b.api.Calls("acquire"))
	}
	if events, _ := filepath.Glob(again.rec().host("host", "events", "*.json")); len(events) < 2 {
		t.Errorf("evidence events %v, want those from before the adoption", events)
	}
}

// T56: an answer that makes no sense is an unknown outcome.
func TestMalformedLeaseIsIndeterminate(t *testing.T) {
	b := newBench(t)
	g := b.create(b.input())
	b.api.Garble("acquire")
	if _, err := g.Acquire(t.Context()); err == nil || g.Gone() {
		t.Fatalf("error %v, gone %v; want an error on a guest that is kept", err, g.Gone())
	}
	if err := g.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// T51: whatever is wrong with the input, nothing is sent and nothing is written.
func TestBadInputLeavesNothingBehind(t *testing.T) {
	yes := true
	for _, test := range []struct {
		name   string
		change func(*AcquireInput)
		want   string
	}{
		{"unknown image", func(in *AcquireInput) { in.Image = "nobody" }, "no image"},
		{"task", func(in *AcquireInput) { in.Task = "De mo" }, "slug"},
		{"traversal", func(in *AcquireInput) { in.Extractions = []Declaration{{"../x", "x"}} }, "cannot be used"},
		{"name", func(in *AcquireInput) { in.Extractions = []Declaration{{"x", "-x"}} }, "must begin"},
		{"reserved", func(in *AcquireInput) { in.Extractions = []Declaration{{"x", "full-workspace"}} }, "reserved"},
		{"duplicate", func(in *AcquireInput) { in.Extractions = []Declaration{{"x", "x"}, {"y", "x"}} }, "twice"},
		{"ttl", func(in *AcquireInput) { in.TTLHours = 721 }, "ttlHours"},
		{"console", func(in *AcquireInput) { in.VNC = &yes }, "not available"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			in := b.input()
			test.change(&in)
			_, err := b.session.Create(t.Context(), in.Task+"-1", in)
			wantRefused(t, err, test.want)
			if n := b.api.Calls("acquire"); n != 0 {
				t.Errorf("%d acquisitions, want none", n)
			}
			if _, err := os.Stat(b.opt.StateDir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("state folder: %v, want none", err)
			}
			b.empty(b.opt.Project)
		})
	}
}

// T52: a call that was cancelled before it was sent allocates nothing.
func TestCancelledBeforeSendingAllocatesNothing(t *testing.T) {
	b := newBench(t)
	g := b.create(b.input())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Acquire(ctx)
	wantRefused(t, err, "no machine was allocated")
	if !g.Gone() || b.api.Calls("acquire") != 0 {
		t.Errorf("gone %v after %d acquisitions, want gone after none", g.Gone(), b.api.Calls("acquire"))
	}
}

// T53: cancelled after the sending, the machine that came is kept, and the text names it and the guest.
func TestCancelledAfterSendingKeepsTheMachine(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.opt.API = acquiring{API: b.wire, after: cancel}
	b.session = b.newSession()
	g := b.create(b.input())
	_, err := g.Acquire(ctx)
	if err == nil || g.Gone() || g.rec().Lease == nil {
		t.Fatalf("error %v, gone %v; want an error on a guest with its machine", err, g.Gone())
	}
	for _, part := range []string{"cancelled", g.rec().Lease.Name, g.Name(), "retained"} {
		wantError(t, err, part)
	}
	if _, err := g.Beat(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
}

// T73, T74: a machine that the service does not know is gone only when the witness says so.
func TestUnknownMachineIsGoneOnlyWithTheWitness(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	vm := g.rec().Lease.Name
	b.api.Remain(vm)
	b.api.Vanish(vm)
	wantError(t, g.Reconcile(t.Context()), "still exists")
	if g.Gone() || g.Status().GuestState != "unknown" {
		t.Fatalf("gone %v, state %s; want a guest that is kept, unknown", g.Gone(), g.Status().GuestState)
	}

	g = b.acquire(b.input())
	b.api.Vanish(g.rec().Lease.Name)
	wantRefused(t, g.Reconcile(t.Context()), "gone")
	if !g.Gone() {
		t.Error("the guest is still held")
	}
	var fact Lifecycle
	b.decode(g.rec().HostRoot+".lifecycle.json", &fact)
	if !fact.Released || fact.VM != g.rec().Lease.Name {
		t.Errorf("lifecycle %+v", fact)
	}
}

// T68, T69: a guest of another service is refused before anything is asked; a machine that belongs to another lease is not ours.
func TestReconcileChecksWhoseMachineItIs(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	b.api.Edit(g.rec().Lease.Name, func(l *machine.Lease) { l.LeaseID = "another" })
	wantError(t, g.Reconcile(t.Context()), "identity mismatch")
	if g.Gone() {
		t.Error("the guest was given up")
	}
	asked := b.api.Calls("get")
	b.opt.Backend = map[string]string{"endpoint": "http://localhost:1"}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.newSession().Open(t.Context(), g.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	wantRefused(t, again.Reconcile(t.Context()), "select the original environment")
	if b.api.Calls("get") != asked {
		t.Error("the service was asked")
	}
}

// T72, D18: records are shown as they stand, and a broken one hides none.
func TestRecordsShowEveryGuest(t *testing.T) {
	b := newBench(t)
	b.acquire(b.input())
	b.acquire(b.input())
	if err := os.WriteFile(filepath.Join(b.session.guestDir("demo-1"), recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := b.newSession().Records()
	if err != nil || len(list) != 2 {
		t.Fatalf("records %v, %v; want two", list, err)
	}
	if list[0].Fault == "" || list[0].Status.State != StateBroken {
		t.Errorf("broken record: %+v", list[0])
	}
	if list[1].Fault != "" || !list[1].Status.Unreconciled || list[1].Status.State != StateLeased {
		t.Errorf("good record: %+v", list[1])
	}
	_, err = b.session.Open(t.Context(), "demo-9")
	var unknown *UnknownGuestError
	if !errors.As(err, &unknown) || strings.Join(unknown.Held, " ") != "demo-1 demo-2" {
		t.Errorf("error %v, want the guests held", err)
	}
}

// T84, T85: a lost renewal is recorded and destroys nothing; the answer for a guest that has gone changes nothing.
func TestBeatRecordsWhatTheServiceConfirmed(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	before := g.Lease().Expires
	b.api.Fail("heartbeat", errors.New("connection reset"))
	if _, err := g.Beat(t.Context(), time.Hour); err == nil || g.Status().GuestState != "unknown" || !g.Lease().Expires.Equal(before) {
		t.Errorf("error %v, status %+v; want unknown and the last confirmed expiry", err, g.Status())
	}
	expires, err := g.Beat(t.Context(), time.Hour)
	if err != nil || !expires.After(before) || !g.Lease().Expires.Equal(expires) {
		t.Errorf("expires %v, %v; want later than %v, and recorded", expires, err, before)
	}
	if err := g.SetActive(true, ""); err != nil || !g.Lease().Active {
		t.Error(err)
	}
	if err := g.SetActive(false, "the client has gone"); err != nil || g.Lease().Active {
		t.Error(err)
	}
	if kinds := b.kinds(); kinds[len(kinds)-1] != EventRenewalPaused {
		t.Errorf("events %v, want renewal-paused last", kinds)
	}
	if _, err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Beat(t.Context(), time.Hour); err == nil {
		t.Error("a guest that has gone was renewed")
	}
}
