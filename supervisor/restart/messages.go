package restart

import "time"

// Event is a fact that the core is told.
type Event interface{ event() }

// Began says that the supervisor runs: its children are started.
type Began struct{}

// ChildStarted says that an incarnation came up.
type ChildStarted struct {
	ID          string
	Incarnation uint64
}

// ChildExited says that an incarnation ended, before it came up or after, and why.
type ChildExited struct {
	ID          string
	Incarnation uint64
	Reason      error
}

// Ticked says that the time of Next has come. Telling it early or late is harmless.
type Ticked struct{}

// AddAsked asks for a further child, the last in order. If its first start fails it is forgotten.
type AddAsked struct{ Spec ChildSpec }

// TerminateAsked asks for a child to be stopped and kept down. Its spec stays, unless it is temporary or the strategy simple_one_for_one.
type TerminateAsked struct{ ID string }

// RestartAsked asks for a child that is down to be started again. If that fails it stays down.
type RestartAsked struct{ ID string }

// RemoveAsked asks for a child to be stopped and forgotten.
type RemoveAsked struct{ ID string }

// StopAsked asks the supervisor to end.
type StopAsked struct{ Reason error }

func (Began) event()          {}
func (ChildStarted) event()   {}
func (ChildExited) event()    {}
func (Ticked) event()         {}
func (AddAsked) event()       {}
func (TerminateAsked) event() {}
func (RestartAsked) event()   {}
func (RemoveAsked) event()    {}
func (StopAsked) event()      {}

// Effect is an order of the core, or something that it decided and tells. Effects are carried out in the order given.
type Effect interface{ effect() }

// StartChild orders an incarnation to be made. It must be followed by a ChildStarted or a ChildExited.
type StartChild struct {
	ID          string
	Incarnation uint64
}

// StopChild orders an incarnation to be asked to end. It must be followed by a ChildExited.
type StopChild struct {
	ID          string
	Incarnation uint64
	Reason      error
}

// KillChild orders an incarnation to be abandoned. Nothing is expected from it any more: the core has given its place away.
type KillChild struct {
	ID          string
	Incarnation uint64
}

// Abandoned tells that the incarnation just killed had been given its time, and let it pass.
type Abandoned struct {
	ID          string
	Incarnation uint64
	Doing       string // starting or stopping
}

// Restarting tells that a child failed and is started again.
type Restarting struct {
	ID          string
	Incarnation uint64 // the one that failed
	Reason      error
	Row         int           // the how-manieth restart in a row
	Waiting     time.Duration // before it is started
}

// Refused tells that what was asked for at run time is not done.
type Refused struct {
	ID  string
	Why error
}

// Ready tells, once, that all children were up.
type Ready struct{}

// Exit orders the supervisor to end. Nobody lives, and it is the last effect.
type Exit struct{ Reason error }

func (StartChild) effect() {}
func (StopChild) effect()  {}
func (KillChild) effect()  {}
func (Abandoned) effect()  {}
func (Restarting) effect() {}
func (Refused) effect()    {}
func (Ready) effect()      {}
func (Exit) effect()       {}
