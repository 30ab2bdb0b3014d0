package leaseclock

import "time"

// phase of a clock.
type phase int

const (
	idle     phase = iota // nothing is renewed
	renewing              // beats are sent at their times
	pausing               // a pause waits for the beat in flight, the last one included
)

func (p phase) String() string { return [...]string{"idle", "renewing", "pausing"}[p] }

// Clock is the lease clock of one guest. It is not safe for use by several goroutines.
type Clock struct {
	limits   Limits
	lease    Lease
	phase    phase
	due      time.Time // of the next beat, while renewing
	number   int       // of the last beat ordered
	inFlight bool
	final    bool // the beat in flight is the last one
	failures int  // in a row
	reason   string
}

// View is a copy of what the clock knows.
type View struct {
	Lease    LeaseID
	Deadline time.Time
	Expires  time.Time // last confirmed
	Phase    string    // idle, renewing, pausing
	InFlight bool
	Due      time.Time // of the next beat; zero unless renewing
}

// New makes a clock that renews nothing until an operation begins.
func New(limits Limits, _ time.Time) *Clock { return &Clock{limits: limits.WithDefaults()} }

// View tells the state.
func (c *Clock) View() View {
	v := View{Lease: c.lease.ID, Deadline: c.lease.Deadline, Expires: c.lease.Expires, Phase: c.phase.String(), InFlight: c.inFlight}
	if c.phase == renewing {
		v.Due = c.due
	}
	return v
}

// Next is when the clock wants to be told that time has passed.
func (c *Clock) Next() (time.Time, bool) {
	if c.phase != renewing {
		return time.Time{}, false
	}
	if end := c.lastChance(); end.Before(c.due) {
		return end, true
	}
	return c.due, true
}

// lastChance is the first moment at which what is left is too short to be renewed.
func (c *Clock) lastChance() time.Time { return c.lease.Deadline.Add(-c.limits.Minimum).Add(1) }

// Step takes in an event and answers what is to be done about it.
func (c *Clock) Step(now time.Time, ev Event) []Effect {
	switch ev := ev.(type) {
	case OperationBegan:
		return c.began(now, ev.Lease)
	case BeatAnswered:
		return c.answered(now, ev)
	case BeatFailed:
		return c.failed(now, ev)
	case Ticked:
		return c.ticked(now)
	case PauseAsked:
		return c.pause(now, ev.Reason)
	case StopAsked:
		return c.stop(ev.Reason)
	case LeaseGone:
		c.forget()
	}
	return nil
}

// forget makes answers still to come those of another lease.
func (c *Clock) forget() { *c = Clock{limits: c.limits, number: c.number} }

func (c *Clock) began(now time.Time, lease Lease) []Effect {
	if c.phase == pausing || lease.ID == "" {
		return nil
	}
	if lease.ID != c.lease.ID {
		c.forget()
	}
	c.lease = lease
	if c.phase == renewing {
		return c.ticked(now)
	}
	if c.tooLate(now) {
		return nil
	}
	c.phase, c.failures, c.due = renewing, 0, c.firstBeat(now)
	return append([]Effect{SaveActive{Active: true}}, c.ticked(now)...)
}

// firstBeat is at once, unless the lease is known to last as long as after a fresh beat.
func (c *Clock) firstBeat(now time.Time) time.Time {
	fresh := c.lease.Expires.Add(-c.limits.Window).Add(c.limits.Cadence)
	switch next := now.Add(c.limits.Cadence); {
	case fresh.Before(now):
		return now
	case fresh.Before(next):
		return fresh
	default:
		return next
	}
}

// tooLate says that what is left before the deadline cannot be asked for any more.
func (c *Clock) tooLate(now time.Time) bool {
	return !now.Before(c.lastChance())
}

// ticked looks at the deadline before anything else: the host may have slept past it.
func (c *Clock) ticked(now time.Time) []Effect {
	if c.phase != renewing {
		return nil
	}
	if c.tooLate(now) {
		c.phase = idle
		reason := "less than the shortest renewal is left before the deadline"
		return []Effect{SaveActive{}, StopRenewing{Reason: reason, Deadline: c.lease.Deadline}}
	}
	if now.Before(c.due) {
		return nil
	}
	c.due = now.Add(c.limits.Cadence)
	if c.inFlight {
		return nil // skipped, not queued
	}
	return []Effect{SendBeat{Beat: c.next(), Ask: min(c.limits.Window, c.lease.Deadline.Sub(now))}}
}

func (c *Clock) next() Beat {
	c.number++
	c.inFlight = true
	return Beat{Lease: c.lease.ID, Number: c.number}
}

// awaited says whether an answer is that of the beat in flight.
func (c *Clock) awaited(b Beat) bool {
	return c.inFlight && b.Lease == c.lease.ID && b.Number == c.number
}

func (c *Clock) answered(now time.Time, ev BeatAnswered) []Effect {
	if !c.awaited(ev.Beat) {
		return nil
	}
	c.inFlight, c.failures = false, 0
	c.lease.Expires = ev.Expires
	if c.phase == pausing {
		return c.goOnPausing(now)
	}
	return c.ticked(now)
}

func (c *Clock) failed(now time.Time, ev BeatFailed) []Effect {
	if !c.awaited(ev.Beat) {
		return nil
	}
	c.inFlight = false
	switch c.phase {
	case pausing:
		if !c.final {
			return c.goOnPausing(now)
		}
		return append([]Effect{FinalFailed{Reason: ev.Reason}}, c.goOnPausing(now)...)
	case renewing:
		c.failures++
		c.due = now.Add(c.limits.retryAfter(c.failures))
		return append([]Effect{Doubt{Reason: ev.Reason}}, c.ticked(now)...)
	}
	return nil
}

func (c *Clock) pause(now time.Time, reason string) []Effect {
	if c.phase == pausing {
		return nil
	}
	c.phase, c.reason = pausing, reason
	if c.inFlight {
		return nil
	}
	return c.goOnPausing(now)
}

// goOnPausing sends the last beat once no other is in flight, and ends the pause once that is over.
func (c *Clock) goOnPausing(now time.Time) []Effect {
	if !c.final && c.lease.ID != "" && !c.tooLate(now) {
		c.final = true
		return []Effect{FinalBeat{Beat: c.next(), Ask: c.lease.Deadline.Sub(now)}}
	}
	c.phase, c.final = idle, false
	return []Effect{SaveActive{Reason: c.reason}, Paused{}}
}

func (c *Clock) stop(reason string) []Effect {
	if c.phase != renewing {
		return nil
	}
	c.phase = idle
	return []Effect{SaveActive{Reason: reason}}
}
