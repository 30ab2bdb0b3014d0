package actors

import (
	"context"
	"runtime/debug"
)

// Offload runs work in a goroutine of its own and tells the actor what message makes of its result: exactly one message comes back for
// each call, whatever happens. A panic in work is a *PanicError, a runtime.Goexit is ErrGoexit. A panic or Goexit in message ends
// the actor with that reason.
//
// The work's context is the actor's, and ends with CancelWork(key) too. A context is a request: work that ignores it goes on, and reports
// when it is done. When the actor has ended before, the message is a dead letter (and is failed, if it is a Failer). The key, any
// comparable value, only names the work for CancelWork; a later Offload with the same key takes the name over, nothing else.
func Offload[T any](c *Ctx, key any, work func(context.Context) (T, error), message func(T, error) any) {
	ctx, cancel := context.WithCancel(c)
	name := c.cell.workers.add(key, cancel)
	self := c.Self()
	go func() {
		var result T
		err := ErrGoexit // unless work says otherwise
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{v, debug.Stack()}
			}
			cancel()
			report(self, name, func() any { return message(result, err) })
		}()
		result, err = work(ctx)
	}()
}

// report tells the one message, or that none could be made.
func report(to Ref, name workName, message func() any) {
	var back any = crash{ErrGoexit} // unless message says otherwise
	defer func() {
		if v := recover(); v != nil {
			back = crash{&PanicError{v, debug.Stack()}}
		}
		to.Tell(finished{name, back})
	}()
	back = message()
}

// CancelWork ends the context of the work that was offloaded last under this key. Its message comes all the same.
func (c *Ctx) CancelWork(key any) { c.cell.workers.cancel(key) }

// workName names one piece of offloaded work.
type workName struct {
	key    any
	number uint64
}

// finished brings the one message of offloaded work.
type finished struct {
	name workName
	msg  any
}

// Fail fails the message within.
func (f finished) Fail(why error) { fail(f.msg, why) }

// workers are the cancel functions of a cell's offloaded work that has not reported, by name.
type workers struct {
	named  map[any]worker
	number uint64
}

type worker struct {
	number uint64
	cancel context.CancelFunc
}

func (w *workers) add(key any, cancel context.CancelFunc) workName {
	if w.named == nil {
		w.named = map[any]worker{}
	}
	w.number++
	w.named[key] = worker{w.number, cancel}
	return workName{key, w.number}
}

func (w *workers) cancel(key any) {
	if work, ok := w.named[key]; ok {
		work.cancel()
	}
}

func (w *workers) done(name workName) {
	if w.named[name.key].number == name.number {
		delete(w.named, name.key)
	}
}
