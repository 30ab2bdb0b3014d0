package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/callqueue"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// errCancelled is why an operation ends early when its caller does not wait any more.
var errCancelled = fmt.Errorf("its caller cancelled it: %w", context.Canceled)

// errCutOff is why an operation ends early when the session's grace is over.
var errCutOff = fmt.Errorf("the session ends and its grace is over: %w", context.Canceled)

// errBroken is what a caller is told of a panic; the log has the rest.
var errBroken = errors.New("the relay failed inside while it worked on it")

// broken says that work did not come to its end.
func broken(err error) bool {
	var panicked *PanicError
	return errors.As(err, &panicked) || errors.Is(err, ErrGoexit)
}

func stackOf(err error) []byte {
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return panicked.Stack
	}
	return nil
}

// outcome is what the work of a call came to.
type outcome struct {
	result guest.Result
	err    error
}

// operation is a kind of work on a guest.
type operation struct {
	tool       string // the tool's name, for the books
	reconcile  bool   // compare with machine-service first, and renew the lease from then on
	renew      bool   // renew the lease once the work has succeeded or may have
	concluding bool   // ends the guest
	patience   patience
	expires    time.Time           // it may not wait longer, nor work; zero for ever
	late       func() guest.Result // what is answered when it may not wait any longer; nil for a refusal
	run        func(ctx context.Context, held Held) (guest.Result, error)
}

// patience is what becomes of running work whose caller cancels.
type patience int

const (
	cancelled patience = iota // answered at once, and cancelled
	goesOn                    // answered at once, told, and brought to its end all the same
	awaited                   // told, and answered only at its end
)

// call is one operation on its way through the lane of a guest. The lane answers it exactly once.
type call struct {
	id     callqueue.CallID
	guest  string
	op     operation
	ctx    context.Context // its caller's; only its values and, for awaited work, its end are used
	answer func(outcome)
	fate   atomic.Int32 // undecided, begun or withdrawn

	cancel context.CancelCauseFunc // of the work, once it has begun
	began  time.Time
	result outcome
}

// Fates of a call. Whoever decides first decides for good, so that what is answered as never begun never begins.
const (
	undecided int32 = iota
	begun
	withdrawn
)

// begin decides that the work is done, unless the call was withdrawn.
func (c *call) begin() bool { return c.fate.CompareAndSwap(undecided, begun) }

// withdraw decides that the work is never done, unless it has begun.
func (c *call) withdraw() bool {
	return c.fate.CompareAndSwap(undecided, withdrawn) || c.fate.Load() == withdrawn
}

// neverBegan is the answer of a call that had no effect.
func (c *call) neverBegan(why callqueue.Refusal, trigger string) outcome {
	switch why {
	case callqueue.Cancelled:
		return outcome{err: guest.Refuse("the call was cancelled while it waited behind earlier calls on guest %q; it never began", c.guest)}
	case callqueue.Expired:
		if c.op.late != nil {
			return outcome{result: c.op.late()}
		}
		return outcome{err: guest.Refuse("the call waited behind earlier calls on guest %q for as long as it may; it never began", c.guest)}
	case callqueue.Full:
		return outcome{err: guest.Refuse("too many calls wait on guest %q; wait for their answers first", c.guest)}
	default:
		return outcome{err: refuseEnding(trigger)}
	}
}

// mayHaveRun is the answer of a call whose work has begun and whose outcome nobody will know.
func (c *call) mayHaveRun(held Held, cause error) outcome {
	err := fmt.Errorf("the outcome of this call on guest %q is uncertain: it had begun and may have run: %w", c.guest, cause)
	if held == nil || held.Gone() {
		return outcome{err: err}
	}
	return outcome{err: &guest.OperationError{Guest: c.guest, Cause: err, Status: held.Status()}}
}

// lost is the answer of a call whose lane ended without a word.
func (c *call) lost(held Held) outcome {
	if !c.withdraw() {
		return c.mayHaveRun(held, errBroken)
	}
	return outcome{err: guest.Refuse("the relay failed inside before this call on guest %q began; it may be sent again", c.guest)}
}
