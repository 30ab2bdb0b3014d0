package actors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/exitpolicy"
	"github.com/seed-1e4c9d81/mcp-relay/actors/leaseclock"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Waits for an actor that is being started or restarted.
const (
	laneWait  = 10 * time.Second
	leaseWait = 2 * time.Second
)

// sessionParts is what the actors of one session share. Everything in it is fixed, or guards itself.
type sessionParts struct {
	host    Host
	roster  *roster
	onExit  exitpolicy.Choice
	grace   time.Duration
	renewal leaseclock.Limits
	project string
	service string
	emit    func(Event) // never waits

	self, board, machines, gateway address

	ready   chan struct{} // closed when the session takes calls
	readied sync.Once
}

// address is where the present incarnation of an actor is reached.
type address struct{ ref atomic.Pointer[Ref] }

func (a *address) set(r Ref) { a.ref.Store(&r) }

// get answers a dead Ref until one was set.
func (a *address) get() Ref {
	if r := a.ref.Load(); r != nil {
		return *r
	}
	return Ref{}
}

// tell sends a message to the session.
func (p *sessionParts) tell(msg any) { p.self.get().Tell(msg) }

// met tells what somebody met at machine-service: an answer of it, whatever it says, or none. What is neither tells nothing.
func (p *sessionParts) met(err error) {
	var (
		answer *machine.Error
		broken net.Error
	)
	switch {
	case err == nil || errors.As(err, &answer):
		p.machines.get().Tell(serviceMet{})
	case errors.Is(err, machine.ErrNotSent) || errors.As(err, &broken):
		p.machines.get().Tell(serviceMet{err})
	}
}

// note keeps a fact in the evidence of a guest.
func (p *sessionParts) note(name string, held Held, kind string, cause error) {
	if err := held.Note(kind, cause.Error(), nil); err != nil {
		p.emit(RecordFailed{Guest: name, Err: err})
	}
}

// lane finds the lane of a guest; it has the guest opened and its actors started where that is needed.
func (p *sessionParts) lane(ctx context.Context, name string) (Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, laneWait)
	defer cancel()
	for {
		e, err := p.roster.find(name)
		if err != nil || e.lane.Alive() {
			return e.lane, err
		}
		failure, err := Ask(ctx, p.self.get(), func(reply Reply[error]) any { return laneAsked{name, reply} })
		if err := errors.Join(err, failure); err != nil {
			return Ref{}, guest.NoEffect(fmt.Errorf("cannot take up guest %q, nothing was done: %w", name, err))
		}
		select {
		case <-e.change:
		case <-ctx.Done():
			return Ref{}, guest.NoEffect(fmt.Errorf("cannot take up guest %q, nothing was done: %w", name, context.Cause(ctx)))
		}
	}
}

// retire frees the slot of a guest that is no more, before anybody is answered. It may be repeated.
func (p *sessionParts) retire(name string, held Held) {
	e, err := p.roster.find(name)
	if err != nil || e.held != held {
		return
	}
	p.roster.remove(name)
	e.lease.Tell(leaseGone{})
	p.tell(guestGone{name})
}

// pause leaves a guest: a last renewal, the record's word that no more follow, and the owner lock is given up. A second one waits for the
// first and changes nothing.
func (p *sessionParts) pause(ctx context.Context, name string) error {
	e, err := p.roster.find(name)
	if err != nil {
		return nil // it is gone
	}
	select {
	case e.pausing <- struct{}{}:
		defer func() { <-e.pausing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e, err = p.roster.find(name); err != nil || e.settled {
		return nil
	}
	end, _ := p.roster.ended()
	unsaved, err := p.pauseLease(ctx, name, "the session ended: "+end.trigger)
	if err != nil {
		return fmt.Errorf("cannot pause guest %q: %w", name, err)
	}
	p.roster.update(name, func(e *entry) { e.settled = true })
	return errors.Join(unsaved, e.held.Close())
}

// pauseLease has the lease actor pause; it is waited for while it restarts, and done without when it does not come back.
func (p *sessionParts) pauseLease(ctx context.Context, name, reason string) (unsaved, err error) {
	for {
		e, err := p.roster.find(name)
		if err != nil {
			return nil, nil
		}
		unsaved, err := Ask(ctx, e.lease, func(reply Reply[error]) any { return pauseAsked{reason, reply} })
		if !errors.Is(err, ErrDown) {
			return unsaved, err
		}
		if !changed(ctx, e.change, leaseWait) {
			return p.pauseAlone(ctx, e.held, reason), nil
		}
	}
}

// pauseAlone pauses without the lease actor, which did not come back.
func (p *sessionParts) pauseAlone(ctx context.Context, held Held, reason string) error {
	if left := time.Until(held.Lease().Deadline); left >= p.renewal.Minimum {
		ctx, cancel := context.WithTimeout(ctx, beatTimeout)
		defer cancel()
		if _, err := held.Beat(ctx, left); err != nil {
			_ = held.Note(guest.EventFinalRenewalFailed, err.Error(), nil) // the pause goes on
		}
	}
	return held.SetActive(false, reason)
}

// changed waits for a change of an entry, for so long at most.
func changed(ctx context.Context, change <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-change:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// release destroys a guest's machine at the session's end. One that cannot be destroyed is left to run out: no renewal follows.
func (p *sessionParts) release(ctx context.Context, name string, held Held) error {
	p.roster.update(name, func(e *entry) { e.releasing = true })
	_, err := held.Release(ctx)
	if held.Gone() {
		p.retire(name, held)
		return nil
	}
	if e, findErr := p.roster.find(name); findErr == nil {
		e.lease.Tell(renewingStopped{"its release at the session's end failed"})
	}
	return err
}

// settleDirectly makes one attempt to pause or release a guest beside whatever hangs in its turn, be that a release: it may hang with
// the evidence, and destroying a machine twice is destroying it once.
func (p *sessionParts) settleDirectly(ctx context.Context, e entry, choice exitpolicy.Choice) error {
	if choice == exitpolicy.Pause {
		return p.pause(ctx, e.name)
	}
	over, cancel := context.WithCancelCause(ctx)
	cancel(errCutOff) // no time for evidence: the machine is destroyed at once
	return p.release(over, e.name, e.held)
}
