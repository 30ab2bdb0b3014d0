package callqueue

import (
	"fmt"
	"time"
)

// CallID names one call; the caller never uses one twice.
type CallID string

// Event is a fact that the queue is told. Facts about calls it does not know change nothing.
type Event interface{ event() }

// CallArrived puts a call behind those that came before. One that is still waiting at Expires never starts; zero never expires.
// Concluding marks a call that ends the guest: see Closing.
type CallArrived struct {
	ID         CallID
	Expires    time.Time
	Concluding bool
}

// CallDone says that the work of the running call has ended.
type CallDone struct{ ID CallID }

// CallCancelled says that the caller does not wait any more.
type CallCancelled struct{ ID CallID }

// Ticked says that the time of Next has come. Telling it early or late is harmless.
type Ticked struct{}

// Closing says that the session ends: later calls are refused, and of the waiting ones those that no concluding call comes after.
// What stays runs as before, and Last after it.
type Closing struct{ Last CallID }

// CuttingOff says that a session that ends has waited long enough: every waiting call but the last one is refused, and the running
// call, unless it is the last one, is cancelled.
type CuttingOff struct{}

func (CallArrived) event()   {}
func (CallDone) event()      {}
func (CallCancelled) event() {}
func (Ticked) event()        {}
func (Closing) event()       {}
func (CuttingOff) event()    {}

// Refusal is why a call never started.
type Refusal string

// The refusals.
const (
	Cancelled Refusal = "cancelled"
	Expired   Refusal = "expired"
	Closed    Refusal = "closed"
	Full      Refusal = "full"
)

// Effect is an order of the queue. Effects are carried out in the order given.
type Effect interface {
	effect()
	String() string
}

// StartCall orders the work of a call to begin.
type StartCall struct{ ID CallID }

// AnswerCall orders the outcome of the work that has ended to be answered.
type AnswerCall struct{ ID CallID }

// RefuseCall orders a call that never started, and never will, to be answered so.
type RefuseCall struct {
	ID  CallID
	Why Refusal
}

// DetachCall orders the running call to be answered at once, as one that may have run, and its work to be cancelled. Its place is
// free only at its CallDone.
type DetachCall struct{ ID CallID }

func (StartCall) effect()  {}
func (AnswerCall) effect() {}
func (RefuseCall) effect() {}
func (DetachCall) effect() {}

func (e StartCall) String() string  { return fmt.Sprintf("start %s", e.ID) }
func (e AnswerCall) String() string { return fmt.Sprintf("answer %s", e.ID) }
func (e RefuseCall) String() string { return fmt.Sprintf("refuse %s (%s)", e.ID, e.Why) }
func (e DetachCall) String() string { return fmt.Sprintf("detach %s", e.ID) }
