package proptest

import (
	"fmt"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/seed-1e4c9d81/mcp-relay/actors/leaseclock"
)

// facts turns random numbers into a story: each number is one fact, told to tell in turn, which answers what it violates.
func facts(tell func() func(k int) string) gopter.Prop {
	return prop.ForAll(func(numbers []int) *gopter.PropResult {
		next := tell()
		for i, k := range numbers {
			if violation := next(k); violation != "" {
				return verdict(fmt.Sprintf("fact %d (%d): %s", i, k, violation))
			}
		}
		return verdict("")
	}, gen.SliceOf(gen.IntRange(0, 1<<20)))
}

// P2: no renewal reaches past the deadline, under the minimum or beside another; none comes after a stop until an operation; a lease
// that nobody refuses to renew is never late; an answer about another lease or an earlier beat changes nothing.
func TestLeaseClock(t *testing.T) {
	check(t, 1500, 80, facts(func() func(int) string { return newLeaseWorld().fact }))
}

var leaseLimits = leaseclock.Limits{Window: 15 * time.Minute, Minimum: 6 * time.Minute, Cadence: time.Minute, Retry: 5 * time.Second}

// leaseWorld keeps books of its own about what the clock ordered.
type leaseWorld struct {
	clock   *leaseclock.Clock
	now     time.Time
	lease   leaseclock.Lease // the present one; zero when none
	leases  int
	active  bool
	pausing bool
	flying  *leaseclock.Beat // of the present lease
	settled []leaseclock.Beat
}

func newLeaseWorld() *leaseWorld {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &leaseWorld{clock: leaseclock.New(leaseLimits, now), now: now}
}

// fact tells the fact that a number stands for.
func (w *leaseWorld) fact(k int) string {
	choice, rest := k%16, k/16
	switch choice {
	case 0, 1, 2, 3:
		return w.operation(rest)
	case 4, 5, 6:
		return w.toNext(time.Duration(rest%3) * time.Second)
	case 7:
		return w.sleep(time.Duration(rest%1000) * 10 * time.Second)
	case 8, 9, 10:
		return w.answer(true)
	case 11:
		return w.answer(false)
	case 12:
		return w.stale(rest)
	case 13:
		return w.pause()
	case 14:
		w.active = false // at most a save is ordered
		return w.step(leaseclock.StopAsked{Reason: "stop"})
	default:
		if rest%4 != 0 {
			return w.step(leaseclock.Ticked{})
		}
		w.lease, w.flying, w.active, w.pausing = leaseclock.Lease{}, nil, false, false
		return w.step(leaseclock.LeaseGone{})
	}
}

func (w *leaseWorld) operation(k int) string {
	lease := w.lease
	if lease.ID == "" || k%9 == 0 {
		w.leases++
		lease = leaseclock.Lease{ID: leaseclock.LeaseID(fmt.Sprint(w.leases)), Deadline: w.now.Add(time.Duration(k%500) * time.Minute)}
		if k%2 == 0 {
			lease.Expires = w.now.Add(time.Duration(k%20) * time.Minute)
		}
	}
	if !w.pausing {
		if lease.ID != w.lease.ID {
			if w.flying != nil {
				w.settled, w.flying = append(w.settled, *w.flying), nil
			}
			w.active = false
		}
		w.lease = lease
	}
	was := w.active
	violation := w.step(leaseclock.OperationBegan{Lease: lease})
	if fresh := lease.Expires.Sub(w.now) > leaseLimits.Window-2*leaseLimits.Cadence; violation == "" && w.active && !was && !fresh && w.flying == nil {
		return "renewing begins without a beat although the lease is not known to last"
	}
	return violation
}

// toNext lets time pass to what the clock wishes, or a little later.
func (w *leaseWorld) toNext(late time.Duration) string {
	if next, ok := w.clock.Next(); ok {
		w.now = later(w.now, next.Add(late))
	}
	return w.step(leaseclock.Ticked{})
}

func (w *leaseWorld) sleep(d time.Duration) string {
	w.now = w.now.Add(d)
	return w.step(leaseclock.Ticked{})
}

func (w *leaseWorld) answer(confirmed bool) string {
	if w.flying == nil {
		return ""
	}
	beat := *w.flying
	w.now = w.now.Add(time.Second)
	w.settled, w.flying = append(w.settled, beat), nil
	if !confirmed {
		return w.step(leaseclock.BeatFailed{Beat: beat, Reason: "lost"})
	}
	w.lease.Expires = w.now.Add(leaseLimits.Window)
	return w.step(leaseclock.BeatAnswered{Beat: beat, Expires: w.lease.Expires})
}

// stale answers a beat that nobody waits for.
func (w *leaseWorld) stale(k int) string {
	beat := leaseclock.Beat{Lease: "another", Number: k % 7}
	if len(w.settled) > 0 && k%3 > 0 {
		beat = w.settled[k%len(w.settled)]
	}
	before := w.clock.View()
	effects := w.clock.Step(w.now, leaseclock.BeatAnswered{Beat: beat, Expires: w.now.Add(99 * time.Hour)})
	if after := w.clock.View(); len(effects) > 0 || after != before {
		return fmt.Sprintf("the answer to %v changed %v to %v and ordered %v", beat, before, after, effects)
	}
	return ""
}

func (w *leaseWorld) pause() string {
	was := w.pausing
	w.pausing, w.active = true, false
	violation := w.step(leaseclock.PauseAsked{Reason: "pause"})
	if violation == "" && was && w.flying == nil {
		return "a pause neither ends nor waits for a beat"
	}
	return violation
}

func (w *leaseWorld) step(event leaseclock.Event) string {
	for _, effect := range w.clock.Step(w.now, event) {
		if violation := w.ordered(effect); violation != "" {
			return fmt.Sprintf("%v after %T: %s", effect, event, violation)
		}
	}
	return w.atRest()
}

func (w *leaseWorld) ordered(effect leaseclock.Effect) string {
	left := w.lease.Deadline.Sub(w.now)
	switch e := effect.(type) {
	case leaseclock.SaveActive:
		if e.Active && (w.active || w.lease.ID == "") {
			return "it was active, or there is no lease"
		}
		w.active = e.Active
	case leaseclock.SendBeat:
		switch {
		case !w.active:
			return "nothing is to be renewed"
		case e.Ask > left || e.Ask > leaseLimits.Window || e.Ask < leaseLimits.Minimum || e.Ask != min(left, leaseLimits.Window):
			return fmt.Sprintf("%v are left", left)
		}
		return w.sent(e.Beat)
	case leaseclock.FinalBeat:
		if !w.pausing || e.Ask != left || left < leaseLimits.Minimum {
			return fmt.Sprintf("pausing %t, %v left", w.pausing, left)
		}
		return w.sent(e.Beat)
	case leaseclock.StopRenewing:
		if w.active || left >= leaseLimits.Minimum {
			return fmt.Sprintf("active %t, %v left", w.active, left)
		}
	case leaseclock.Paused:
		if !w.pausing || w.active || w.flying != nil {
			return "the pause is not over"
		}
		w.pausing = false
	}
	return ""
}

func (w *leaseWorld) sent(beat leaseclock.Beat) string {
	if w.flying != nil {
		return "another one is in flight"
	}
	if beat.Lease != w.lease.ID {
		return "it is of another lease"
	}
	w.flying = &beat
	return ""
}

// atRest is what holds after every fact.
func (w *leaseWorld) atRest() string {
	next, wishes := w.clock.Next()
	switch {
	case w.active && !wishes:
		return "a lease is to be renewed and the clock does not want to be woken"
	case w.active && next.After(w.now.Add(leaseLimits.Cadence)):
		return fmt.Sprintf("the next beat comes only in %v", next.Sub(w.now))
	case w.active && w.lease.Deadline.Sub(w.now) < leaseLimits.Minimum:
		return "it is renewed although too little is left"
	case w.pausing && w.flying == nil:
		return "a pause waits for nothing"
	}
	return ""
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
