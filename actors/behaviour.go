package actors

import (
	"errors"
	"fmt"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// Behaviour is what an actor does. Its methods are called one at a time and must not block.
type Behaviour interface {
	// Init comes first, on the actor's own goroutine. The actor is up when it returns nil; an error is a failed start. Its context ends
	// when the time to start is over.
	Init(*Ctx) error

	// Handle is called for each message. An error ends the actor and is its exit reason: ErrNormal, ErrShutdown, or a crash.
	Handle(c *Ctx, msg any) error

	// Terminate comes last, whatever the reason, also after a failed Init. An error is joined to an exit reason that is a crash.
	Terminate(c *Ctx, reason error) error
}

// Exit reasons. Any other reason is a crash.
var (
	ErrNormal   = supervisor.ErrNormal
	ErrShutdown = supervisor.ErrShutdown
	ErrKilled   = supervisor.ErrKilled // it was abandoned, or its context ended

	ErrGoexit = errors.New("the goroutine was ended by runtime.Goexit")
)

func orderly(reason error) bool { return supervisor.IsNormal(reason) }

// PanicError is the exit reason of an actor that panicked, and the error of offloaded work that did.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Stop asks a behaviour to end. It decides when, and ends by returning Reason (ErrShutdown when nil) from Handle; its supervisor decides
// how long that may take.
type Stop struct{ Reason error }

// Err is the reason to end with.
func (s Stop) Err() error {
	if s.Reason == nil {
		return ErrShutdown
	}
	return s.Reason
}

// Down tells a watching actor that another one ended. It comes exactly once for each Watch.
type Down struct {
	Ref    Ref
	Reason error
}

// Failer is a message whose sender wants to know that it was not handled. Fail is called at most once for each Tell, never before the
// actor's Terminate has run, on any goroutine. After a crash while it was being handled it is called too, even if the behaviour has
// answered it before: a Failer that counts answers must let only the first one through, as Reply does.
type Failer interface{ Fail(error) }

// ErrDown is what every DownError is.
var ErrDown = errors.New("the actor has ended")

// DownError says that an actor ended before it handled a message. Whether it began to is not known.
type DownError struct {
	Path   string
	Reason error
}

func (e *DownError) Error() string {
	if e.Path == "" {
		return ErrDown.Error()
	}
	return fmt.Sprintf("%s has ended: %v", e.Path, e.Reason)
}

// Is makes the error an ErrDown.
func (e *DownError) Is(target error) bool { return target == ErrDown }

// Unwrap gives the exit reason.
func (e *DownError) Unwrap() error { return e.Reason }
