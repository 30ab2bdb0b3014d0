package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// fakeHost is a host whose guests do what their scripts say, in the time of a bubble.
type fakeHost struct {
	mu      sync.Mutex
	guests  map[string]*fakeGuest
	stored  []guest.Stored
	faults  map[string]error // by "create", "open <name>"
	created int
	slow    time.Duration // how long Create takes
}

// fakeGuest is a guest without a machine. It notes every operation, and whether two ever ran at the same time.
type fakeGuest struct {
	host *fakeHost
	name string
	free chan struct{} // closed: stubborn work ends

	mu        sync.Mutex
	trace     []string
	running   int
	overlap   bool
	lease     guest.LeaseView
	beats     []fakeBeat
	notes     []string
	reasons   []string // of SetActive(false)
	beatFault error
	faults    map[string]error // by operation
	gone      bool
	closed    int
	evidence  time.Duration // how long a release works on the evidence
	deaf      bool          // a release works on it until the guest is free, whatever its context says; the next one does not
	kept      bool          // a release had the time for the evidence
}

type fakeBeat struct {
	at  time.Time
	ttl time.Duration
}

const fakeWindow = 15 * time.Minute

func (h *fakeHost) Records() ([]guest.Stored, error) { return h.stored, nil }

func (h *fakeHost) NextName(task string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s-%d", task, n)
		if _, used := h.guests[name]; !used {
			return name, nil
		}
	}
}

func (h *fakeHost) Search(context.Context, guest.SearchInput) (guest.Result, error) {
	return guest.Result{Value: "found"}, nil
}

func (h *fakeHost) ProbeHost(_ context.Context, held []any) (guest.Result, error) {
	return guest.Result{Value: held}, nil
}

func (h *fakeHost) Create(ctx context.Context, name string, in guest.AcquireInput) (Held, error) {
	if err := pass(ctx, h.slow); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.faults["create"]; err != nil {
		return nil, err
	}
	if _, used := h.guests[name]; used {
		return nil, fs.ErrExist
	}
	h.created++
	return h.add(name, in.TTLHours), nil
}

func (h *fakeHost) add(name string, ttlHours float64) *fakeGuest {
	if ttlHours == 0 {
		ttlHours = 4
	}
	now := time.Now()
	g := &fakeGuest{host: h, name: name, free: make(chan struct{}), faults: map[string]error{},
		lease: guest.LeaseView{Start: now, Deadline: now.Add(time.Duration(ttlHours * float64(time.Hour)))}}
	h.guests[name] = g
	return g
}

func (h *fakeHost) Open(_ context.Context, name string) (Held, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.faults["open "+name]; err != nil {
		return nil, err
	}
	g := h.add(name, 4)
	g.lease.Expires = time.Now().Add(time.Minute)
	return g, nil
}

func (h *fakeHost) guest(name string) *fakeGuest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.guests[name]
}

// pass lets time go by, or the context end.
func pass(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// operate notes an operation from its beginning to its end.
func (g *fakeGuest) operate(name string, work func() (guest.Result, error)) (guest.Result, error) {
	g.mu.Lock()
	g.running++
	g.overlap = g.overlap || g.running > 1
	g.trace = append(g.trace, "+"+name)
	fault := g.faults[name]
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		g.trace = append(g.trace, "-"+name)
	}()
	if fault != nil {
		return guest.Result{}, fault
	}
	return work()
}

func (g *fakeGuest) Acquire(ctx context.Context) (guest.Result, error) {
	return g.operate("acquire", func() (guest.Result, error) {
		if ctx.Err() != nil {
			g.end()
			return guest.Result{}, guest.Refuse("cancelled before anything was sent")
		}
		time.Sleep(time.Second) // once sent it is not cancelled
		g.mu.Lock()
		g.lease.Expires = time.Now().Add(fakeWindow)
		g.mu.Unlock()
		if ctx.Err() != nil {
			return guest.Result{}, fmt.Errorf("cancelled after it was sent, machine owned: %w", context.Cause(ctx))
		}
		return guest.Result{Value: guest.AcquireResult{Status: g.Status()}}, nil
	})
}

// end makes the guest one that is no more.
func (g *fakeGuest) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = true
}

// Reconcile with a fault finds that the guest is gone.
func (g *fakeGuest) Reconcile(context.Context) error {
	_, err := g.operate("reconcile", func() (guest.Result, error) { return guest.Result{}, nil })
	if err != nil {
		g.end()
	}
	return err
}

func (g *fakeGuest) Probe(context.Context) (guest.Result, error) {
	return g.operate("probe", func() (guest.Result, error) { return guest.Result{Value: "probed"}, nil })
}

func (g *fakeGuest) Stage(context.Context, guest.StageInput) (guest.Result, error) {
	return g.operate("stage", func() (guest.Result, error) { return guest.Result{Value: "staged"}, nil })
}

// Script does what its code says: "<name> for <duration>", "<name> panic", "<name> goexit", "<name> deaf <duration>" or "<name> stubborn", which
// ignore their context.
func (g *fakeGuest) Script(ctx context.Context, in guest.Script) (guest.Result, error) {
	name, how, _ := strings.Cut(*in.Code, " ")
	return g.operate(name, func() (guest.Result, error) {
		switch {
		case how == "panic":
			panic("the work is broken")
		case how == "goexit":
			goruntime.Goexit()
		case how == "stubborn":
			<-g.free
		case strings.HasPrefix(how, "deaf "):
			d, err := time.ParseDuration(strings.TrimPrefix(how, "deaf "))
			time.Sleep(d)
			return guest.Result{Value: name}, err
		case strings.HasPrefix(how, "for "):
			d, err := time.ParseDuration(strings.TrimPrefix(how, "for "))
			if err != nil {
				return guest.Result{}, err
			}
			if err := pass(ctx, d); err != nil {
				return guest.Result{}, err
			}
		}
		return guest.Result{Value: name}, nil
	})
}

func (g *fakeGuest) Image(_ context.Context, in guest.ImageInput) (guest.Result, error) {
	return g.operate("image", func() (guest.Result, error) { return guest.Result{Value: in.Guest}, nil })
}

func (g *fakeGuest) Extract(context.Context, guest.ExtractInput) (guest.Result, error) {
	return g.operate("extract", func() (guest.Result, error) { return guest.Result{}, nil })
}

func (g *fakeGuest) Finish(context.Context) (guest.Result, error) {
	return g.leave("finish", func() {})
}

// Release destroys at once when its context has ended, and as soon as it ends.
func (g *fakeGuest) Release(ctx context.Context) (guest.Result, error) {
	return g.leave("release", func() { g.keep(ctx) })
}

// keep works on the evidence.
func (g *fakeGuest) keep(ctx context.Context) {
	g.mu.Lock()
	evidence, deaf := g.evidence, g.deaf
	g.deaf = false
	g.mu.Unlock()
	if deaf {
		<-g.free
	}
	if pass(ctx, evidence) == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.kept = true
	}
}

func (g *fakeGuest) leave(how string, before func()) (guest.Result, error) {
	return g.operate(how, func() (guest.Result, error) {
		before()
		if g.Gone() { // another release was faster
			return guest.Result{}, guest.Refuse("guest %q is gone", g.name)
		}
		time.Sleep(time.Second)
		g.end()
		return guest.Result{Value: &guest.FinishResult{Guest: g.name, Released: true}}, nil
	})
}

func (g *fakeGuest) Beat(ctx context.Context, ttl time.Duration) (time.Time, error) {
	if err := pass(ctx, 100*time.Millisecond); err != nil {
		return time.Time{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.beatFault != nil {
		return time.Time{}, g.beatFault
	}
	g.beats = append(g.beats, fakeBeat{time.Now(), ttl})
	g.lease.Expires = time.Now().Add(ttl)
	return g.lease.Expires, nil
}

func (g *fakeGuest) Lease() guest.LeaseView {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lease
}

func (g *fakeGuest) SetActive(active bool, reason string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fault := g.faults["set-active"]; fault != nil {
		return fault
	}
	g.lease.Active = active
	if !active {
		g.reasons = append(g.reasons, reason)
	}
	return nil
}

func (g *fakeGuest) Note(kind, because string, _ map[string]any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notes = append(g.notes, kind+": "+because)
	return nil
}

func (g *fakeGuest) Status() guest.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return guest.Status{Guest: g.name, State: guest.StateStaged, Active: g.lease.Active}
}

func (g *fakeGuest) HasTarget(t guest.ImageTarget) bool { return t.SessionID == "session of "+g.name }

func (g *fakeGuest) Gone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

func (g *fakeGuest) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed++
	return nil
}

func (g *fakeGuest) fail(operation string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults[operation] = err
}

// burden has every release work on the evidence for so long, and the next one, if deaf, until the guest is free.
func (g *fakeGuest) burden(evidence time.Duration, deaf bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.evidence, g.deaf = evidence, deaf
}

// loseBeats has every renewal fail; nil ends it.
func (g *fakeGuest) loseBeats(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.beatFault = err
}

// forgive forgets that two operations ran at the same time.
func (g *fakeGuest) forgive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.overlap = false
}

// seen is what a guest has been through.
type seen struct {
	trace, reasons []string
	beats          []fakeBeat
	lease          guest.LeaseView
	gone, kept     bool
	closed         int
}

func (g *fakeGuest) look() seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	return seen{slices.Clone(g.trace), slices.Clone(g.reasons), slices.Clone(g.beats), g.lease, g.gone, g.kept, g.closed}
}

// began lists the operations that began, in their order, without comparisons.
func (g *fakeGuest) began() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []string
	for _, line := range g.trace {
		if name, ok := strings.CutPrefix(line, "+"); ok && name != "reconcile" {
			list = append(list, name)
		}
	}
	return list
}

// world is a relay in a bubble.
type world struct {
	*testing.T
	host   *fakeHost
	system *System
	relay  *Relay
}

// inRelay runs f with a relay in a bubble, and ends the relay. Whatever still runs then fails the test.
func inRelay(t *testing.T, change func(*Options, *fakeHost), f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, host: &fakeHost{guests: map[string]*fakeGuest{}, faults: map[string]error{}}}
		o := Options{
			Host: w.host, MaxGuests: 4, OnExit: "pause", Grace: time.Minute, Log: zerolog.Nop(),
			Guest: guest.Options{Project: "/project", Window: fakeWindow, Minimum: 6 * time.Minute},
		}
		if change != nil {
			change(&o, w.host)
		}
		system, err := Start(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		w.system, w.relay = system, system.Relay()
		defer w.close()
		f(w)
	})
}

func (w *world) close() {
	w.end("the test is over")
	for _, g := range w.host.guests {
		select {
		case <-g.free:
		default:
			close(g.free)
		}
	}
	synctest.Wait()
	if n := w.system.engine.Living(); n != 0 {
		w.Errorf("%d actors still live", n)
	}
	for name, g := range w.host.guests {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.overlap {
			w.Errorf("two operations ran on guest %s at the same time: %v", name, g.trace)
		}
	}
}

// end ends the relay and answers the exit code and how long it took.
func (w *world) end(trigger string) (int, time.Duration) {
	began := time.Now()
	code := <-w.system.End(trigger)
	return code, time.Since(began)
}

// acquire gets a guest, which must work.
func (w *world) acquire(task string) *fakeGuest {
	w.Helper()
	result, err := w.relay.Acquire(w.Context(), guest.AcquireInput{Task: task})
	if err != nil {
		w.Fatal(err)
	}
	return w.host.guest(result.Value.(guest.AcquireResult).Guest)
}

// answered is the answer of a call, when it came.
type answered struct {
	outcome
	took time.Duration
}

// script calls relay_script and waits until it has its place.
func (w *world) script(ctx context.Context, name, code string) <-chan answered {
	w.Helper()
	return w.call(func() (guest.Result, error) {
		return w.relay.Script(ctx, guest.Script{Guest: name, Language: "shell", Inline: true, Code: &code})
	})
}

// call makes a call in a goroutine of its own and waits until all is quiet.
func (w *world) call(do func() (guest.Result, error)) <-chan answered {
	out := make(chan answered, 1)
	began := time.Now()
	go func() {
		result, err := do()
		out <- answered{outcome{result, err}, time.Since(began)}
	}()
	synctest.Wait()
	return out
}

func (w *world) status() guest.StatusResult {
	w.Helper()
	began := time.Now()
	result, err := w.relay.Status(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if took := time.Since(began); took != 0 {
		w.Errorf("status took %v", took)
	}
	return result.Value.(guest.StatusResult)
}

func (w *world) wantBegan(g *fakeGuest, want ...string) {
	w.Helper()
	if got := g.began(); !slices.Equal(got, want) {
		w.Errorf("guest %s began %v, want %v", g.name, got, want)
	}
}

func (w *world) wantRefused(err error, word string) {
	w.Helper()
	var refused *guest.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), word) {
		w.Errorf("got %v, want a refusal with %q", err, word)
	}
}

func (w *world) wantUncertain(err error) {
	w.Helper()
	if err == nil || !strings.Contains(err.Error(), "uncertain") {
		w.Errorf("got %v, want an uncertain outcome", err)
	}
}
