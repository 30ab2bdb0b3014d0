package actors

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor/restart"
)

// Forward has a supervisor tell a message to the incarnation of a child that lives now. The order of one sender is kept. When none lives
// it is a dead letter.
type Forward struct {
	Child   string
	Message any
}

// Fail fails the message within.
func (f Forward) Fail(why error) { fail(f.Message, why) }

// AddChild has a supervisor start a further child, the last in order, and waits until it is up. If the start fails, the error says why
// and the child is forgotten. The error is supervisor.ErrExists, ErrStopping, a *supervisor.SpecError, the reason of the failed
// start, or what ended the asking (see Ask): then the child may have been started. In a dynamic supervisor only the ID of the
// spec counts.
func AddChild(ctx context.Context, to Ref, child Child) (Ref, error) {
	return Ask(ctx, to, func(r Reply[Ref]) any { return addAsked{r, child} })
}

// RestartChild has a supervisor start a child again that is down, and waits until it is up. If the start fails it stays down.
func RestartChild(ctx context.Context, to Ref, id string) (Ref, error) {
	return Ask(ctx, to, func(r Reply[Ref]) any { return childAsked{r, id, again} })
}

// TerminateChild has a supervisor stop a child, and waits until it is down, or abandoned. It stays down and may be restarted, unless it is
// temporary or the supervisor dynamic: then it is forgotten.
func TerminateChild(ctx context.Context, to Ref, id string) error {
	_, err := Ask(ctx, to, func(r Reply[Ref]) any { return childAsked{r, id, halt} })
	return err
}

// RemoveChild has a supervisor stop a child, and waits until it is down, or abandoned, and forgotten.
func RemoveChild(ctx context.Context, to Ref, id string) error {
	_, err := Ask(ctx, to, func(r Reply[Ref]) any { return childAsked{r, id, remove} })
	return err
}

// WhichChildren asks a supervisor for its children, in the order of starting. It answers at once whatever they do.
func WhichChildren(ctx context.Context, of Ref) ([]ChildInfo, error) {
	return Ask(ctx, of, func(r Reply[[]ChildInfo]) any { return whichAsked{r} })
}

// ChildInfo is what a supervisor knows about a child.
type ChildInfo struct {
	Spec        supervisor.ChildSpec
	State       string // down, waiting, starting, up, stopping
	Incarnation uint64 // how many incarnations the supervisor had made of its children when it made this one; zero: none yet
	Restarts    int
	LastExit    error // of the incarnation before; nil when none has ended
	Ref         Ref   // of the incarnation that lives; the zero Ref when none does
}

type change int

const (
	again change = iota
	halt
	remove
)

// Questions to a supervisor.
type (
	addAsked struct {
		Reply[Ref]
		child Child
	}
	childAsked struct {
		Reply[Ref]
		id   string
		what change
	}
	whichAsked struct{ Reply[[]ChildInfo] }
)

// waiter is somebody who waits for a child to come up, or to go down.
type waiter struct {
	reply Reply[Ref]
	id    string
	up    bool
}

func (s *Supervisor) add(now time.Time, m addAsked) error {
	spec := m.child.Spec
	if s.template != nil {
		id := spec.ID
		spec = *s.template
		spec.ID = id
	}
	before, taken := s.makers[spec.ID]
	s.makers[spec.ID] = m.child.New
	refusal, exit := s.shell.Add(now, spec)
	if refusal != nil && taken {
		s.makers[spec.ID] = before
	}
	return s.asked(m.Reply, spec.ID, true, refusal, exit)
}

func (s *Supervisor) change(now time.Time, m childAsked) error {
	var refusal, exit error
	switch m.what {
	case again:
		refusal, exit = s.shell.Restart(now, m.id)
	case halt:
		refusal, exit = s.shell.Terminate(now, m.id)
	case remove:
		refusal, exit = s.shell.Remove(now, m.id)
	}
	return s.asked(m.Reply, m.id, m.what == again, refusal, exit)
}

// asked answers a refusal, or has the asker wait.
func (s *Supervisor) asked(reply Reply[Ref], id string, up bool, refusal, exit error) error {
	if refusal != nil {
		reply.Fail(fmt.Errorf("cannot change child %q of %s: %w", id, s.c.Self().Path(), refusal))
		return s.after(exit)
	}
	s.waiting = append(s.waiting, waiter{reply, id, up})
	return s.after(exit)
}

// answer tells those whose wait is over.
func (s *Supervisor) answer() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w waiter) bool {
		child, known := s.shell.Child(w.id)
		gone := !known || child.Phase == restart.Down && !child.Wanted
		switch {
		case w.up && known && child.Phase == restart.Up:
			w.reply.Send(s.living[w.id])
		case w.up && gone:
			w.reply.Fail(s.failedStart(w.id))
		case !w.up && gone:
			w.reply.Send(Ref{})
		default:
			return false
		}
		return true
	})
}

// failedStart is why a child that was asked for is not up.
func (s *Supervisor) failedStart(id string) error {
	reason := supervisor.ErrStartTimeout // it was abandoned
	if ref, ok := s.living[id]; ok {
		reason = ref.Err()
	}
	return fmt.Errorf("cannot start child %q of %s: %w", id, s.c.Self().Path(), reason)
}

func (s *Supervisor) forward(m Forward) {
	if ref, ok := s.living[m.Child]; ok {
		ref.Tell(m.Message)
		return
	}
	s.c.cell.life.engine.deadLetters.Add(1)
	m.Fail(&DownError{Path: s.c.Self().Path() + "/" + m.Child, Reason: supervisor.ErrUnknown})
}

func (s *Supervisor) infos() []ChildInfo {
	var infos []ChildInfo
	if s.shell == nil {
		return nil
	}
	for _, v := range s.shell.Children() {
		info := ChildInfo{Spec: v.Spec, State: v.Phase.String(), Incarnation: v.Incarnation, Restarts: v.Restarts, LastExit: v.LastExit}
		if v.Phase >= restart.Starting {
			info.Ref = s.living[v.Spec.ID]
		}
		infos = append(infos, info)
	}
	return infos
}
