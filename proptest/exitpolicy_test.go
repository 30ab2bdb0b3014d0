package proptest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/exitpolicy"
)

// P8: the session quits exactly once, at the latest when grace, tail and the last budget are over; every guest is settled once in its
// turn, and directly only when it is neither settled nor failed; the exit code tells whether all were settled.
func TestExitPolicy(t *testing.T) {
	check(t, 1500, 40, facts(func() func(int) string { return (&exitWorld{}).fact }))
}

var exitLimits = exitpolicy.Limits{Grace: time.Minute, Tail: 5 * time.Second, Direct: 30 * time.Second}

// exitWorld keeps books of its own about the end of one session. The first fact decides which session it is.
type exitWorld struct {
	policy  *exitpolicy.Policy
	choice  exitpolicy.Choice
	now     time.Time
	ended   time.Time // zero before the end was seen
	open    []string
	failed  []string
	asked   []string // in their turn
	direct  []string
	stopped bool
	cut     bool
	quit    bool
}

func (w *exitWorld) fact(k int) string {
	if w.policy == nil {
		w.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		w.choice = []exitpolicy.Choice{exitpolicy.Pause, exitpolicy.Release}[k%2]
		w.policy = exitpolicy.New(exitLimits, w.choice, w.now)
		return w.end(k / 2)
	}
	choice, rest := k%8, k/8
	switch choice {
	case 0:
		return w.step(exitpolicy.EndSeen{Trigger: "again", Guests: []string{"g0", "other"}})
	case 1, 2:
		return w.settle(rest, true)
	case 3:
		return w.settle(rest, false)
	case 4:
		return w.step(exitpolicy.GuestSettled{Name: "nobody"})
	case 5:
		w.now = w.now.Add(time.Duration(rest%20) * time.Second)
		if next, ok := w.policy.Next(); ok && w.now.After(next) {
			w.now = next
		}
		return w.step(exitpolicy.Ticked{})
	default:
		if next, ok := w.policy.Next(); ok {
			w.now = next
		}
		return w.step(exitpolicy.Ticked{})
	}
}

func (w *exitWorld) end(k int) string {
	for i := range k % 5 {
		w.open = append(w.open, fmt.Sprintf("g%d", i))
	}
	w.ended = w.now
	return w.step(exitpolicy.EndSeen{Trigger: "end", Guests: slices.Clone(w.open)})
}

func (w *exitWorld) settle(k int, well bool) string {
	if len(w.open) == 0 {
		return ""
	}
	i := k % len(w.open)
	name := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	if well {
		return w.step(exitpolicy.GuestSettled{Name: name})
	}
	w.failed = append(w.failed, name)
	return w.step(exitpolicy.GuestFailed{Name: name, Reason: "no answer"})
}

func (w *exitWorld) step(event exitpolicy.Event) string {
	for _, effect := range w.policy.Step(w.now, event) {
		if violation := w.ordered(effect); violation != "" {
			return fmt.Sprintf("%v after %#v: %s", effect, event, violation)
		}
	}
	return w.atRest()
}

func (w *exitWorld) ordered(effect exitpolicy.Effect) string {
	since := w.now.Sub(w.ended)
	if w.quit {
		return "it has quit"
	}
	switch e := effect.(type) {
	case exitpolicy.StopAdmitting:
		if w.stopped {
			return "twice"
		}
		w.stopped = true
	case exitpolicy.SettleGuest:
		if !w.stopped || e.Choice != w.choice || !slices.Contains(w.open, e.Name) || slices.Contains(w.asked, e.Name) {
			return "not now, not this one, or not so"
		}
		w.asked = append(w.asked, e.Name)
	case exitpolicy.CancelInFlight:
		if w.cut || since < exitLimits.Grace {
			return fmt.Sprintf("twice, or too early: after %v", since)
		}
		w.cut = true
	case exitpolicy.SettleDirectly:
		if since < exitLimits.Grace+exitLimits.Tail || e.Choice != w.choice || !slices.Contains(w.open, e.Name) || slices.Contains(w.direct, e.Name) {
			return "not now, not this one, or not so"
		}
		w.direct = append(w.direct, e.Name)
	case exitpolicy.Quit:
		return w.quitting(e, since)
	}
	return ""
}

func (w *exitWorld) quitting(e exitpolicy.Quit, since time.Duration) string {
	w.quit = true
	left := slices.Sorted(slices.Values(append(slices.Clone(w.open), w.failed...)))
	switch {
	case !slices.Equal(left, e.Left) || (e.Code == 0) != (len(left) == 0):
		return fmt.Sprintf("left are %v", left)
	case len(w.open) > 0 && since < exitLimits.Grace+exitLimits.Tail+exitLimits.Direct:
		return "there was time left"
	}
	return ""
}

// atRest is what holds after every fact.
func (w *exitWorld) atRest() string {
	next, wishes := w.policy.Next()
	since := w.now.Sub(w.ended)
	switch {
	case !w.stopped || (len(w.asked) == 0) != (len(w.asked)+len(w.open)+len(w.failed) == 0):
		return "the end has not begun"
	case !w.quit && len(w.open) == 0:
		return "everything is settled and it does not quit"
	case !w.quit && !wishes, w.quit && wishes:
		return "it wants to be woken exactly until it has quit"
	case !w.quit && (!next.After(w.now) || next.Sub(w.ended) > exitLimits.Grace+exitLimits.Tail+exitLimits.Direct):
		return fmt.Sprintf("the next wish is at %v", next.Sub(w.ended))
	case !w.quit && since >= exitLimits.Grace && !w.cut:
		return "the grace is over and nothing was cut off"
	case !w.quit && since >= exitLimits.Grace+exitLimits.Tail && !w.allDirect():
		return "the tail is over and somebody was not settled directly"
	}
	return ""
}

func (w *exitWorld) allDirect() bool {
	for _, name := range w.open {
		if !slices.Contains(w.direct, name) {
			return false
		}
	}
	return true
}
