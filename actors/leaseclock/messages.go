package leaseclock

import (
	"fmt"
	"time"
)

// LeaseID tells one lease from another, so that a late answer about an earlier one changes nothing.
type LeaseID string

// Lease is what the record says.
type Lease struct {
	ID       LeaseID
	Deadline time.Time // no renewal reaches past it
	Expires  time.Time // last confirmed end; zero when none is known
}

// Beat names one renewal that was ordered.
type Beat struct {
	Lease  LeaseID
	Number int
}

// Event is a fact that the clock is told.
type Event interface{ event() }

// OperationBegan says that an operation on the guest begins: its lease is renewed from now on. A lease of another ID takes the place
// of the one before. While a pause is under way, which ends the session, it changes nothing.
type OperationBegan struct{ Lease Lease }

// BeatAnswered says that machine-service confirmed a beat, and the lease's new end.
type BeatAnswered struct {
	Beat    Beat
	Expires time.Time
}

// BeatFailed says that no confirmation came; the lease may have been renewed all the same.
type BeatFailed struct {
	Beat   Beat
	Reason string
}

// Ticked says that the time of Next has come. Telling it early or late is harmless.
type Ticked struct{}

// PauseAsked says that the session leaves the guest: one last renewal, and none after it.
type PauseAsked struct{ Reason string }

// StopAsked says that renewing ends at once, without a last renewal.
type StopAsked struct{ Reason string }

// LeaseGone says that the guest has no lease any more.
type LeaseGone struct{}

func (OperationBegan) event() {}
func (BeatAnswered) event()   {}
func (BeatFailed) event()     {}
func (Ticked) event()         {}
func (PauseAsked) event()     {}
func (StopAsked) event()      {}
func (LeaseGone) event()      {}

// Effect is an order of the clock. Effects are carried out in the order given.
type Effect interface {
	effect()
	String() string
}

// SaveActive orders the record to say, durably, whether the lease is being renewed.
type SaveActive struct {
	Active bool
	Reason string // why it is not; empty when a StopRenewing tells it
}

// SendBeat orders one renewal for Ask from now. Exactly one BeatAnswered or BeatFailed must follow.
type SendBeat struct {
	Beat Beat
	Ask  time.Duration
}

// FinalBeat is the last renewal, for all the time that is left. It is answered as SendBeat is.
type FinalBeat struct {
	Beat Beat
	Ask  time.Duration
}

// StopRenewing tells that the lease is left to run out at its deadline.
type StopRenewing struct {
	Reason   string
	Deadline time.Time
}

// Doubt orders the guest to be compared with machine-service, in its turn among the calls, because a beat got lost.
type Doubt struct{ Reason string }

// FinalFailed tells that the last renewal was not confirmed. The pause goes on.
type FinalFailed struct{ Reason string }

// Paused tells that a pause is over.
type Paused struct{}

func (SaveActive) effect()   {}
func (SendBeat) effect()     {}
func (FinalBeat) effect()    {}
func (StopRenewing) effect() {}
func (Doubt) effect()        {}
func (FinalFailed) effect()  {}
func (Paused) effect()       {}

func (e SaveActive) String() string {
	if e.Reason == "" {
		return fmt.Sprintf("save active=%t", e.Active)
	}
	return fmt.Sprintf("save active=%t (%s)", e.Active, e.Reason)
}
func (e SendBeat) String() string     { return fmt.Sprintf("beat %d for %v", e.Beat.Number, e.Ask) }
func (e FinalBeat) String() string    { return fmt.Sprintf("final beat %d for %v", e.Beat.Number, e.Ask) }
func (e StopRenewing) String() string { return fmt.Sprintf("stop renewing (%s)", e.Reason) }
func (e Doubt) String() string        { return fmt.Sprintf("doubt (%s)", e.Reason) }
func (e FinalFailed) String() string  { return fmt.Sprintf("final beat failed (%s)", e.Reason) }
func (Paused) String() string         { return "paused" }
