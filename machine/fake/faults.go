package fake

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// OpWitness names the witness's listing among the operations that faults can be scripted for.
const OpWitness = "witness"

// ErrLost is the cause of an answer that Lose lost.
var ErrLost = errors.New("connection reset by a scripted fault")

// faults are scripted per operation (machine.OpExec, ...), first scripted first used. Each fault serves one call.
type faults struct {
	guard  sync.Mutex
	queued map[string][]fault
	calls  map[string]int
}

type fault struct {
	err       error // the answer instead of doing it
	lose      bool  // do it, then lose the answer
	malformed bool  // do it, then answer in words that make no sense
	held      chan struct{}
	reached   chan struct{}
}

// Fail makes the next call of op answer err, with nothing done.
func (f *faults) Fail(op string, err error) { f.queue(op, fault{err: err}) }

// Lose makes the next call of op do its work and lose the answer: the caller sees a broken connection.
func (f *faults) Lose(op string) { f.queue(op, fault{lose: true}) }

// Garble makes the next call of op do its work and answer in words that make no sense (a malformed lease).
func (f *faults) Garble(op string) { f.queue(op, fault{malformed: true}) }

// Hold makes the next call of op wait before doing anything until release is called. reached is closed once the call
// waits there. A caller that gives up meanwhile sees its context's error; the work is then never done.
func (f *faults) Hold(op string) (reached <-chan struct{}, release func()) {
	h := fault{held: make(chan struct{}), reached: make(chan struct{})}
	f.queue(op, h)
	return h.reached, sync.OnceFunc(func() { close(h.held) })
}

// Calls counts the calls of op so far, failed and held ones included.
func (f *faults) Calls(op string) int {
	f.guard.Lock()
	defer f.guard.Unlock()
	return f.calls[op]
}

func (f *faults) queue(op string, one fault) {
	f.guard.Lock()
	defer f.guard.Unlock()
	if f.queued == nil {
		f.queued = map[string][]fault{}
	}
	f.queued[op] = append(f.queued[op], one)
}

func (f *faults) next(op string) fault {
	f.guard.Lock()
	defer f.guard.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[op]++
	if len(f.queued[op]) == 0 {
		return fault{}
	}
	one := f.queued[op][0]
	f.queued[op] = f.queued[op][1:]
	return one
}

// call does one operation under the next fault scripted for it.
func call[T any](ctx context.Context, s *Service, op string, do func(context.Context) (T, error)) (T, error) {
	var none T
	one := s.next(op)
	if one.held != nil {
		close(one.reached)
		select {
		case <-one.held:
		case <-ctx.Done():
			return none, fmt.Errorf("cannot tell what %s did: %w", op, ctx.Err())
		}
	}
	if one.err != nil {
		return none, one.err
	}
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("cannot %s: %w: %w", op, machine.ErrNotSent, err)
	}
	result, err := do(ctx)
	switch {
	case one.lose:
		return none, fmt.Errorf("cannot tell what %s did: %w", op, ErrLost)
	case one.malformed:
		return none, fmt.Errorf("cannot tell what %s did: %w: garbled by a scripted fault", op, machine.ErrMalformed)
	}
	return result, err
}
