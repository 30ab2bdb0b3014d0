package supervisor

import (
	"errors"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor/restart"
)

// Runtime runs children. None of its methods may block or call back into the shell: what becomes of an order is reported later, by
// Shell.Up and Shell.Down.
type Runtime interface {
	StartChild(id string, incarnation uint64)              // Up or Down follows
	StopChild(id string, incarnation uint64, reason error) // Down follows
	KillChild(id string, incarnation uint64)               // nothing follows
	Wake(after time.Duration)                              // Shell.Tick follows; replaces the wake-up before
	Rest()                                                 // cancels the wake-up
	Ready()                                                // all children were up; called once
}

// Shell is a supervisor without the means of running children. It is not safe for use by several goroutines. Each method that takes in
// a fact answers the supervisor's exit reason once it is over, and nil until then.
type Shell struct {
	path    string
	core    *restart.Core
	runtime Runtime
	emit    func(Event)
	refused error
}

// NewShell makes a supervisor that does nothing before Begin. Its path stands in every event; emit may be nil. The error joins *SpecErrors.
func NewShell(path string, options Options, specs []ChildSpec, runtime Runtime, emit func(Event)) (*Shell, error) {
	core, err := restart.New(options, specs...)
	if err != nil {
		return nil, err
	}
	if emit == nil {
		emit = func(Event) {}
	}
	return &Shell{path: path, core: core, runtime: runtime, emit: emit}, nil
}

// Begin starts the children.
func (s *Shell) Begin(now time.Time) (exit error) { return s.step(now, restart.Began{}) }

// Tick says that time has passed.
func (s *Shell) Tick(now time.Time) (exit error) { return s.step(now, restart.Ticked{}) }

// Stop asks the supervisor to end.
func (s *Shell) Stop(now time.Time, reason error) (exit error) {
	return s.step(now, restart.StopAsked{Reason: reason})
}

// Up says that an incarnation came up.
func (s *Shell) Up(now time.Time, id string, incarnation uint64) (exit error) {
	if s.current(id, incarnation) {
		s.emit(Started{s.child(id, incarnation)})
	}
	return s.step(now, restart.ChildStarted{ID: id, Incarnation: incarnation})
}

// Down says that an incarnation ended.
func (s *Shell) Down(now time.Time, id string, incarnation uint64, reason error) (exit error) {
	if s.current(id, incarnation) {
		s.emit(Exited{s.child(id, incarnation), reason})
	}
	return s.step(now, restart.ChildExited{ID: id, Incarnation: incarnation, Reason: reason})
}

// Add asks for a further child. The refusal, if any, is why it is not started.
func (s *Shell) Add(now time.Time, spec ChildSpec) (refusal, exit error) {
	return s.ask(now, restart.AddAsked{Spec: spec})
}

// Restart asks for a child that is down to be started again.
func (s *Shell) Restart(now time.Time, id string) (refusal, exit error) {
	return s.ask(now, restart.RestartAsked{ID: id})
}

// Terminate asks for a child to be stopped.
func (s *Shell) Terminate(now time.Time, id string) (refusal, exit error) {
	return s.ask(now, restart.TerminateAsked{ID: id})
}

// Remove asks for a child to be stopped and forgotten.
func (s *Shell) Remove(now time.Time, id string) (refusal, exit error) {
	return s.ask(now, restart.RemoveAsked{ID: id})
}

// Children tells about every child, in the order of starting.
func (s *Shell) Children() []ChildView { return s.core.View() }

// Child tells about one child.
func (s *Shell) Child(id string) (ChildView, bool) { return s.core.Child(id) }

func (s *Shell) ask(now time.Time, event restart.Event) (refusal, exit error) {
	s.refused = nil
	exit = s.step(now, event)
	return s.refused, exit
}

// step tells the core and carries out its orders.
func (s *Shell) step(now time.Time, event restart.Event) (exit error) {
	for _, effect := range s.core.Step(now, event) {
		switch fx := effect.(type) {
		case restart.StartChild:
			s.runtime.StartChild(fx.ID, fx.Incarnation)
		case restart.StopChild:
			s.runtime.StopChild(fx.ID, fx.Incarnation, fx.Reason)
		case restart.KillChild:
			s.runtime.KillChild(fx.ID, fx.Incarnation)
		case restart.Ready:
			s.runtime.Ready()
		case restart.Refused:
			s.refused = fx.Why
		case restart.Abandoned:
			s.emit(Abandoned{s.child(fx.ID, fx.Incarnation), fx.Doing})
		case restart.Restarting:
			s.emit(Restarting{s.child(fx.ID, fx.Incarnation), fx.Reason, fx.Row, fx.Waiting})
		case restart.Exit:
			exit = s.over(fx.Reason)
		}
	}
	s.sleep(now)
	return exit
}

func (s *Shell) sleep(now time.Time) {
	if at, ok := s.core.Next(); ok {
		s.runtime.Wake(at.Sub(now))
		return
	}
	s.runtime.Rest()
}

func (s *Shell) over(reason error) error {
	if gaveUp := (*IntensityError)(nil); errors.As(reason, &gaveUp) {
		s.emit(Escalated{s.path, gaveUp})
	}
	return reason
}

func (s *Shell) current(id string, incarnation uint64) bool {
	view, ok := s.core.Child(id)
	return ok && view.Incarnation == incarnation && view.Phase >= restart.Starting
}

func (s *Shell) child(id string, incarnation uint64) Child { return Child{s.path, id, incarnation} }
