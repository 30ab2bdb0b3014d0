package proptest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor/restart"
)

// The moves are what the environment of a supervisor can do to it. Each takes a number and picks the child that it stands for, so that
// every sequence of moves is legal, and shrinking never breaks one.
var moves = []struct {
	name   string
	weight int
	run    func(w *world, k int) string
}{
	{"ackUp", 8, func(w *world, k int) string {
		return w.pick(k, func(c *kid) bool { return c.live != 0 && !c.up }, w.comesUp)
	}},
	{"failUp", 1, func(w *world, k int) string {
		return w.pick(k, func(c *kid) bool { return c.live != 0 && !c.up && !c.told }, func(c *kid) string { return w.goesDown(c, errCrash) })
	}},
	{"ackStop", 5, func(w *world, k int) string {
		return w.pick(k, func(c *kid) bool { return c.told }, func(c *kid) string { return w.goesDown(c, restart.ErrShutdown) })
	}},
	{"exit", 4, func(w *world, k int) string {
		reason := []error{errCrash, errCrash, restart.ErrNormal, restart.ErrShutdown}[k/13%4]
		return w.pick(k, func(c *kid) bool { return c.live != 0 }, func(c *kid) string { return w.goesDown(c, reason) })
	}},
	{"advance", 4, func(w *world, k int) string { return w.advance(time.Duration(k%40) * 100 * time.Millisecond) }},
	{"wait", 1, func(w *world, k int) string { return w.advance(time.Duration(20+k%20) * time.Second) }},
	{"stale", 1, func(w *world, k int) string {
		return w.pick(k, func(*kid) bool { return true }, func(c *kid) string { return w.stale(c, k) })
	}},
	{"add", 1, func(w *world, k int) string { return w.add(k) }},
	{"terminate", 1, func(w *world, k int) string {
		return w.manual(k, func(id string) restart.Event { return restart.TerminateAsked{ID: id} }, func(c *kid) { c.off = true })
	}},
	{"remove", 1, func(w *world, k int) string {
		return w.manual(k, func(id string) restart.Event { return restart.RemoveAsked{ID: id} }, func(c *kid) { c.off, c.gone = true, true })
	}},
	{"restart", 1, func(w *world, k int) string { return w.again(k) }},
	{"settle", 1, func(w *world, _ int) string { return w.settle() }},
	{"stop", 1, func(w *world, k int) string {
		if k%4 != 0 {
			return ""
		}
		w.stop(restart.ErrShutdown)
		return w.step(restart.StopAsked{})
	}},
}

// pick does something with the child, among those that qualify, that k stands for.
func (w *world) pick(k int, qualifies func(*kid) bool, do func(*kid) string) string {
	var some []*kid
	for _, c := range w.kids {
		if qualifies(c) {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return ""
	}
	return do(some[k%len(some)])
}

func (w *world) comesUp(c *kid) string {
	if !c.told {
		c.up, c.since, c.trial, c.fresh = true, w.now, false, false
	}
	return w.step(restart.ChildStarted{ID: c.spec.ID, Incarnation: c.live})
}

func (w *world) goesDown(c *kid, reason error) string {
	incarnation := c.live
	w.ended(c, reason)
	return w.step(restart.ChildExited{ID: c.spec.ID, Incarnation: incarnation, Reason: reason})
}

// I10: news of an incarnation that is not the living one, and a tick before its time, change nothing.
func (w *world) stale(c *kid, k int) string {
	other := c.last + 1000
	if k%2 == 0 && c.last > 0 {
		other = c.last - 1
	}
	if c.live == 0 && k%3 == 0 {
		other = c.last
	}
	events := []restart.Event{restart.ChildExited{ID: c.spec.ID, Incarnation: other, Reason: errCrash}, restart.ChildStarted{ID: c.spec.ID, Incarnation: other}, restart.Ticked{}}
	if effects := w.core.Step(w.now, events[k/7%3]); len(effects) > 0 {
		return fmt.Sprintf("I10: %T of another incarnation had effects: %v", events[k/7%3], effects)
	}
	return w.compare()
}

// add asks for a new child, and sometimes for one that exists.
func (w *world) add(k int) string {
	w.added++
	spec := randomSpec(w.options, fmt.Sprintf("x%d", w.added), k)
	var refusal error
	if k%5 == 0 && len(w.kids) > 0 {
		spec.ID, refusal = w.kids[k%len(w.kids)].spec.ID, restart.ErrExists
	}
	if w.stopped {
		refusal = restart.ErrStopping
	}
	if refusal == nil {
		w.kids = append(w.kids, &kid{spec: spec, trial: true, fresh: true})
	}
	return w.asked(restart.AddAsked{Spec: spec}, refusal)
}

func (w *world) manual(k int, event func(id string) restart.Event, note func(*kid)) string {
	var refusal error
	id := "nobody"
	switch {
	case w.stopped:
		refusal = restart.ErrStopping
	case k%9 == 0 || len(w.kids) == 0:
		refusal = restart.ErrUnknown
	default:
		c := w.kids[k%len(w.kids)]
		id = c.spec.ID
		note(c)
	}
	return w.asked(event(id), refusal)
}

func (w *world) again(k int) string {
	return w.pick(k, func(*kid) bool { return true }, func(c *kid) string {
		var refusal error
		switch {
		case w.stopped:
			refusal = restart.ErrStopping
		case !c.off || c.live != 0:
			refusal = restart.ErrRunning
		default:
			c.off, c.trial, c.row, c.notBefore = false, true, 0, time.Time{}
		}
		return w.asked(restart.RestartAsked{ID: c.spec.ID}, refusal)
	})
}

func (w *world) asked(event restart.Event, refusal error) string {
	if v := w.step(event); v != "" {
		return v
	}
	if !errors.Is(w.refused, refusal) {
		return fmt.Sprintf("%T refused with %v, want %v", event, w.refused, refusal)
	}
	return ""
}

// advance lets time pass, and wakes the core whenever it wants to be.
func (w *world) advance(d time.Duration) string {
	end := w.now.Add(d)
	for range 1000 {
		at, ok := w.core.Next()
		if !ok || at.After(end) {
			w.now = end
			return ""
		}
		if at.After(w.now) {
			w.now = at
		}
		if v := w.step(restart.Ticked{}); v != "" {
			return v
		}
	}
	return "the core wants to be woken without end"
}

// I12, I8: in a quiet world everybody comes up, or the end comes.
func (w *world) settle() string {
	for range 400 {
		if w.exited {
			return ""
		}
		busy := slices.ContainsFunc(w.kids, func(c *kid) bool { return c.live != 0 && !c.up })
		for _, c := range slices.Clone(w.kids) {
			v := ""
			switch {
			case c.told:
				v = w.goesDown(c, restart.ErrShutdown)
			case c.live != 0 && !c.up:
				v = w.comesUp(c)
			}
			if v != "" {
				return v
			}
		}
		_, waiting := w.core.Next()
		if !busy && !waiting {
			break
		}
		if v := w.advance(500 * time.Millisecond); v != "" {
			return v
		}
	}
	if w.stopped {
		return "I8: stopping never ended"
	}
	for _, c := range w.kids {
		if !c.off && !c.up {
			return "I12: " + c.spec.ID + " never came up"
		}
	}
	return ""
}
