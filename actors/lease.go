package actors

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/leaseclock"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// beatTimeout is how long one renewal may take.
const beatTimeout = 10 * time.Second

// lease keeps the lease of one guest alive while the session works with it. It never waits for the lane, nor for anything else:
// renewals and saves run in goroutines of their own. One that restarts goes on where the record stands.
type lease struct {
	session *sessionParts
	name    string
	held    Held
	clock   *leaseclock.Clock
	orders  []leaseclock.Effect // not carried out yet: they wait for a save to be durable
	saving  bool
	unsaved error // why the last save failed
	pauses  []Reply[error]
}

func newLease(session *sessionParts, name string) *lease {
	return &lease{session: session, name: name}
}

// Init rebuilds the clock from the record: a lease that was being renewed is renewed.
func (l *lease) Init(c *Ctx) error {
	e, err := l.session.roster.find(l.name)
	if err != nil {
		return fmt.Errorf("cannot renew for guest %q: %w", l.name, err)
	}
	l.held = e.held
	l.clock = leaseclock.New(l.session.renewal, time.Now())
	self := c.Self()
	l.session.roster.update(l.name, func(e *entry) { e.lease = self })
	if view := l.held.Lease(); view.Active {
		l.step(c, leaseclock.OperationBegan{Lease: leaseOf(view)})
	}
	return nil
}

// leaseOf is a lease as the clock knows it; one that was never confirmed is none.
func leaseOf(v guest.LeaseView) leaseclock.Lease {
	if v.Expires.IsZero() {
		return leaseclock.Lease{}
	}
	return leaseclock.Lease{ID: leaseclock.LeaseID(strconv.FormatInt(v.Start.UnixNano(), 10)), Deadline: v.Deadline, Expires: v.Expires}
}

// Handle turns a message into an event of the clock.
func (l *lease) Handle(c *Ctx, msg any) error {
	switch m := msg.(type) {
	case operationBegan:
		l.step(c, leaseclock.OperationBegan{Lease: leaseOf(m.lease)})
	case beatEnded:
		l.step(c, m.event)
	case leaseDue:
		l.step(c, leaseclock.Ticked{})
	case saved:
		l.saving = false
		l.unsaved = m.err
		if m.err != nil {
			l.session.emit(RecordFailed{Guest: l.name, Err: m.err})
		}
		l.carryOn(c)
	case pauseAsked:
		l.pauses = append(l.pauses, m.reply)
		l.step(c, leaseclock.PauseAsked{Reason: m.reason})
	case renewingStopped:
		l.step(c, leaseclock.StopAsked{Reason: m.reason})
	case leaseGone:
		l.step(c, leaseclock.LeaseGone{})
	case Stop:
		return m.Err()
	}
	return nil
}

// Terminate leaves everything as the record says; a pause that is asked for ends with it.
func (l *lease) Terminate(*Ctx, error) error { return nil }

// step tells the clock an event, carries out what it orders and sets the one timer.
func (l *lease) step(c *Ctx, event leaseclock.Event) {
	l.orders = append(l.orders, l.clock.Step(time.Now(), event)...)
	l.carryOn(c)
	if at, ok := l.clock.Next(); ok {
		c.After(leaseDue{}, time.Until(at), leaseDue{})
		return
	}
	c.Cancel(leaseDue{})
}

// carryOn carries out orders up to the next that has to be durable before those behind it.
func (l *lease) carryOn(c *Ctx) {
	for len(l.orders) > 0 && !l.saving {
		next := l.orders[0]
		l.orders = l.orders[1:]
		l.carryOut(c, next)
	}
}

func (l *lease) carryOut(c *Ctx, effect leaseclock.Effect) {
	switch e := effect.(type) {
	case leaseclock.SaveActive:
		l.save(c, func() error { return l.held.SetActive(e.Active, e.Reason) })
	case leaseclock.SendBeat:
		l.beat(c, e.Beat, e.Ask)
	case leaseclock.FinalBeat:
		l.beat(c, e.Beat, e.Ask)
	case leaseclock.StopRenewing:
		l.save(c, func() error {
			return l.held.Note(guest.EventRenewalStopped, e.Reason, map[string]any{"deadline": e.Deadline.UTC().Format(time.RFC3339)})
		})
	case leaseclock.FinalFailed:
		l.save(c, func() error { return l.held.Note(guest.EventFinalRenewalFailed, e.Reason, nil) })
	case leaseclock.Doubt:
		l.session.emit(BeatLost{Guest: l.name, Reason: e.Reason})
		if entry, err := l.session.roster.find(l.name); err == nil {
			entry.lane.Tell(doubtRaised{e.Reason})
		}
	case leaseclock.Paused:
		for _, reply := range l.pauses {
			reply.Send(l.unsaved)
		}
		l.pauses = nil
	}
}

// save does what must be durable before the orders behind it.
func (l *lease) save(c *Ctx, do func() error) {
	l.saving = true
	Offload(c, saved{}, func(context.Context) (struct{}, error) { return struct{}{}, do() },
		func(_ struct{}, err error) any { return saved{err} })
}

// beat renews once. Its answer is for that beat alone, however late it comes.
func (l *lease) beat(c *Ctx, beat leaseclock.Beat, ask time.Duration) {
	Offload(c, beat, func(ctx context.Context) (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, beatTimeout)
		defer cancel()
		expires, err := l.held.Beat(ctx, ask)
		l.session.met(err)
		return expires, err
	}, func(expires time.Time, err error) any {
		if err != nil {
			return beatEnded{leaseclock.BeatFailed{Beat: beat, Reason: err.Error()}}
		}
		return beatEnded{leaseclock.BeatAnswered{Beat: beat, Expires: expires}}
	})
}
