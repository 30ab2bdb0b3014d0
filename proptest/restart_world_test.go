package proptest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor/restart"
)

var errCrash = errors.New("crash")

// world plays the children and the clock of one core, and checks every effect against the invariants with books of its own.
type world struct {
	core    *restart.Core
	options restart.Options
	now     time.Time
	kids    []*kid // in the order of starting, those forgotten left out
	history []time.Time
	ready   bool
	stopped bool // it has to end
	since   time.Time
	want    error // the reason to end with
	exited  bool
	bound   time.Duration // that the end may take; negative: no bound
	refused error
	waits   map[string]time.Duration // of restarts that are due to be told
	added   int
}

// kid is what the world knows about one child.
type kid struct {
	spec  restart.ChildSpec
	live  uint64 // incarnation made and neither ended nor killed; zero: none
	last  uint64
	up    bool
	told  bool // to stop
	due   bool // to be told, as part of a group restart
	off   bool // not to be started
	trial bool // its start was asked for at run time
	fresh bool // added at run time, never up
	gone  bool // to be forgotten once it is down

	row       int
	since     time.Time // of the phase it is in
	notBefore time.Time
}

func newWorld(options restart.Options, specs []restart.ChildSpec) (*world, error) {
	core, err := restart.New(options, specs...)
	if err != nil {
		return nil, err
	}
	w := &world{core: core, options: options, now: time.Unix(0, 0), waits: map[string]time.Duration{}}
	for _, spec := range specs {
		w.kids = append(w.kids, &kid{spec: spec})
	}
	return w, nil
}

func (w *world) groups() bool {
	return w.options.Strategy == restart.OneForAll || w.options.Strategy == restart.RestForOne
}

func (w *world) simple() bool { return w.options.Strategy == restart.SimpleOneForOne }

func (w *world) find(id string) (*kid, int) {
	for i, k := range w.kids {
		if k.spec.ID == id {
			return k, i
		}
	}
	return nil, -1
}

// step tells the core a fact whose consequences the books have already, and checks what it orders. It answers the first violation.
func (w *world) step(event restart.Event) string {
	w.refused = nil
	for _, effect := range w.core.Step(w.now, event) {
		if w.exited {
			return "I9: an effect after the exit"
		}
		if v := w.effect(effect); v != "" {
			return v
		}
	}
	if len(w.waits) > 0 {
		return fmt.Sprintf("restarts were not told: %v", w.waits)
	}
	w.forget()
	return w.compare()
}

func (w *world) effect(effect restart.Effect) string {
	switch fx := effect.(type) {
	case restart.StartChild:
		return w.starts(fx)
	case restart.StopChild:
		return w.stops(fx.ID, fx.Incarnation)
	case restart.KillChild:
		return w.kills(fx)
	case restart.Restarting:
		wait, due := w.waits[fx.ID]
		if !due || wait != fx.Waiting {
			return fmt.Sprintf("restarting %s in %v, want %v (%t)", fx.ID, fx.Waiting, wait, due)
		}
		delete(w.waits, fx.ID)
	case restart.Ready:
		return w.readied()
	case restart.Refused:
		w.refused = fx.Why
	case restart.Exit:
		return w.exits(fx.Reason)
	}
	return ""
}

func (w *world) starts(fx restart.StartChild) string {
	k, i := w.find(fx.ID)
	switch {
	case k == nil:
		return "started a stranger: " + fx.ID
	case k.live != 0:
		return "I1: two live incarnations of " + fx.ID
	case w.stopped:
		return "I7: a start while stopping"
	case k.off:
		return "I5: started a child that is not to run: " + fx.ID
	case w.now.Before(k.notBefore):
		return "backoff: started too early: " + fx.ID
	case fx.Incarnation <= k.last:
		return "an incarnation twice"
	}
	if w.groups() || !w.ready && !w.simple() {
		for _, elder := range w.kids[:i] {
			if !elder.off && !elder.up {
				return "I2: started " + fx.ID + " before " + elder.spec.ID + " was up"
			}
		}
	}
	for _, other := range w.kids {
		if w.groups() && other.live != 0 && other.told {
			return "I2: started " + fx.ID + " while " + other.spec.ID + " is stopping"
		}
	}
	k.live, k.last, k.up, k.told, k.since = fx.Incarnation, fx.Incarnation, false, false, w.now
	return ""
}

func (w *world) stops(id string, incarnation uint64) string {
	k, i := w.find(id)
	switch {
	case k == nil || k.live != incarnation || incarnation == 0:
		return "stopped what does not live: " + id
	case k.told:
		return "stopped twice: " + id
	case !w.stopped && !k.off && !k.due:
		return "I4: stopped a bystander: " + id
	}
	if (w.groups() || w.stopped && !w.simple()) && (w.stopped || !k.off) {
		for _, younger := range w.kids[i+1:] {
			if younger.live != 0 {
				return "I3: stopped " + id + " before " + younger.spec.ID
			}
		}
	}
	k.told, k.up, k.since = true, false, w.now
	return ""
}

func (w *world) kills(fx restart.KillChild) string {
	k, _ := w.find(fx.ID)
	if k == nil || k.live != fx.Incarnation {
		return "I11: killed what does not live: " + fx.ID
	}
	reason := restart.ErrKilled
	switch {
	case k.told:
		if k.spec.Shutdown == restart.Infinity || !w.now.Equal(k.since.Add(k.spec.Shutdown)) {
			return fmt.Sprintf("I8: %s killed %v after its stop", fx.ID, w.now.Sub(k.since))
		}
	case !k.up && w.now.Equal(k.since.Add(k.spec.Start)):
		reason = restart.ErrStartTimeout // also while others are being stopped
	case k.spec.Shutdown == restart.BrutalKill && (w.stopped || k.off || k.due):
		if v := w.stops(fx.ID, fx.Incarnation); v != "" {
			return v
		}
	case k.up:
		return "killed a healthy child: " + fx.ID
	default:
		return fmt.Sprintf("%s killed %v after its start", fx.ID, w.now.Sub(k.since))
	}
	w.ended(k, reason)
	return ""
}

func (w *world) readied() string {
	if w.ready {
		return "ready twice"
	}
	w.ready = true
	for _, k := range w.kids {
		if !k.off && !k.up && !w.simple() {
			return "ready before " + k.spec.ID + " was up"
		}
	}
	return ""
}

func (w *world) exits(reason error) string {
	w.exited = true
	for _, k := range w.kids {
		if k.live != 0 {
			return "I9: exit while " + k.spec.ID + " lives"
		}
	}
	switch {
	case !w.stopped:
		return "I9: exit for no reason"
	case !errors.Is(reason, w.want):
		return fmt.Sprintf("I6: exit because of %v, want %v", reason, w.want)
	case w.bound >= 0 && w.now.Sub(w.since) > w.bound:
		return fmt.Sprintf("I8: the end took %v, more than %v", w.now.Sub(w.since), w.bound)
	}
	return ""
}

// stop notes that the supervisor has to end, and how long that may take.
func (w *world) stop(reason error) {
	if w.stopped {
		return
	}
	w.stopped, w.want, w.since, w.bound = true, reason, w.now, 0
	for _, k := range w.kids {
		switch {
		case k.live == 0:
		case k.spec.Shutdown == restart.Infinity:
			w.bound = -1
			return
		case w.simple():
			w.bound = max(w.bound, k.spec.Shutdown)
		default:
			w.bound += max(k.spec.Shutdown, 0)
		}
	}
}

// ended keeps the books of one incarnation's end, independently of the core.
func (w *world) ended(k *kid, reason error) {
	stayed := k.up && w.now.Sub(k.since) >= w.options.Intensity.Period
	due, expected := k.due, w.stopped || k.off || k.due
	k.live, k.up, k.told, k.due = 0, false, false, false
	switch {
	case due && k.spec.Restart == restart.Temporary:
		k.off = true
	case expected:
	case k.trial:
		k.off, k.trial, k.gone = true, false, k.gone || k.fresh
	case k.spec.Restart == restart.Temporary, k.spec.Restart == restart.Transient && (reason == restart.ErrNormal || reason == restart.ErrShutdown):
		k.off = true
		w.significant(k)
	default:
		if stayed {
			k.row = 0
		}
		w.failed(k)
	}
}

func (w *world) significant(k *kid) {
	last := !slices.ContainsFunc(w.kids, func(s *kid) bool { return s.spec.Significant && !s.off })
	if k.spec.Significant && (w.options.AutoShutdown == restart.AnySignificant || w.options.AutoShutdown == restart.AllSignificant && last) {
		w.stop(restart.ErrShutdown)
	}
}

func (w *world) failed(k *kid) {
	recent := 1
	for _, t := range w.history {
		if w.now.Sub(t) < w.options.Intensity.Period {
			recent++
		}
	}
	w.history = append(w.history, w.now)
	if recent > w.options.Intensity.MaxRestarts {
		w.stop(restart.ErrIntensity)
		return
	}
	k.row++
	wait := time.Duration(0)
	if w.options.Backoff != nil {
		wait = w.options.Backoff(k.row)
	}
	k.notBefore = w.now.Add(wait)
	w.waits[k.spec.ID] = wait
	_, at := w.find(k.spec.ID)
	for i, sibling := range w.kids {
		together := w.options.Strategy == restart.OneForAll || w.options.Strategy == restart.RestForOne && i > at
		if together && sibling != k && sibling.live != 0 && !sibling.told && !sibling.off {
			sibling.due = true
		}
	}
}

// forget drops those of whom a supervisor keeps nothing.
func (w *world) forget() {
	w.kids = slices.DeleteFunc(w.kids, func(k *kid) bool {
		return !w.stopped && k.off && k.live == 0 && (k.gone || k.spec.Restart == restart.Temporary || w.simple())
	})
}

// compare holds the core's own view against the books.
func (w *world) compare() string {
	if w.stopped {
		return ""
	}
	views := w.core.View()
	if len(views) != len(w.kids) {
		return fmt.Sprintf("%d children in view, want %d", len(views), len(w.kids))
	}
	for i, view := range views {
		k := w.kids[i]
		alive := view.Phase >= restart.Starting
		if view.Spec.ID != k.spec.ID || alive != (k.live != 0) || (view.Phase == restart.Up) != k.up || view.Wanted == k.off {
			return fmt.Sprintf("%s is %v (wanted %t) in view, want live %d, up %t, off %t", view.Spec.ID, view.Phase, view.Wanted, k.live, k.up, k.off)
		}
	}
	return ""
}
