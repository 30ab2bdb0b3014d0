package actors

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// signal is a message of the cell's own, which is not counted as a dead letter.
type signal interface{ signal() }

type (
	boot    struct{} // the first message: Init runs
	killed  struct{} // the context has ended from outside
	stopped struct{} // hollywood has taken the process off its books
	crash   struct{ reason error }
)

func (boot) signal()    {}
func (killed) signal()  {}
func (stopped) signal() {}
func (tick) signal()    {}

// reporter is told once when an incarnation comes up, if it does, and once when it ends. It is called on the incarnation's goroutine
// and must not block.
type reporter interface {
	up(Ref)
	down(Ref, error)
}

// cell keeps one incarnation of a behaviour: it lets no panic out, and reports exactly one end.
type cell struct {
	produce   func() Behaviour
	behaviour Behaviour // nil until the boot message
	ctx       *Ctx
	life      *life
	parent    *life // nil: a root
	report    reporter
	spec      supervisor.ChildSpec // zero: a root
	unhook    func() bool          // from the context
	timers    timers
	workers   workers
	watched   map[*life]bool
	late      bool // up is reported by the behaviour, not by the end of Init
	reported  bool // up
	over      bool
	lost      bool // hollywood will never run the process again
}

// spawn makes an incarnation and returns before its Init has run. Its context derives from within. Of the spec of a root only the id
// is given.
func (e *Engine) spawn(within context.Context, parent *life, spec supervisor.ChildSpec, produce func() Behaviour, report reporter) Ref {
	ctx, cancel := context.WithCancel(within)
	id, path := spec.ID, spec.ID
	if parent != nil {
		path = parent.path + "/" + id
	}
	l := &life{id: id, path: path, incarnation: e.incarnations.Add(1), engine: e, done: make(chan struct{}), ctx: ctx, cancel: cancel, made: time.Now()}
	c := &cell{produce: produce, life: l, parent: parent, report: report, spec: spec}
	c.ctx = &Ctx{Context: ctx, cell: c}
	l.pending.Store(1) // boot, which the mailbox tells itself
	e.living.Add(1)
	e.open(c)
	return Ref{l}
}

// receive takes one message. Whatever happens in it, hollywood sees it return, except for a Goexit, which nothing can stop.
func (c *cell) receive(msg any) {
	msg = c.life.unhandled.unwrap(msg)
	returned := false
	defer func() {
		if returned {
			return
		}
		reason := ErrGoexit
		if v := recover(); v != nil {
			reason = &PanicError{v, debug.Stack()}
		} else {
			c.lost = true
			defer c.abandonMailbox()
		}
		c.end(reason, msg)
	}()
	c.take(msg)
	returned = true
}

// abandonMailbox fails and counts what nobody will ever take out.
func (c *cell) abandonMailbox() {
	c.life.box.forget()
	c.life.engine.deadLetters.Add(uint64(max(c.life.pending.Swap(0), 0)))
	c.life.unhandled.failAll(&DownError{Path: c.life.path, Reason: c.life.reasonIfEnded()})
}

func (c *cell) take(msg any) {
	if _, gone := msg.(stopped); gone {
		c.unregistered()
		return
	}
	c.life.pending.Add(-1)
	if c.over {
		c.life.deadLetter(msg)
		return
	}
	if c.life.ctx.Err() != nil { // abandoned: it does nothing more
		c.end(ErrKilled, msg)
		return
	}
	c.dispatch(msg)
}

// unregistered comes last, after the cell's own pill. Without one, somebody else has stopped the process.
func (c *cell) unregistered() {
	if c.over {
		return
	}
	c.lost = true
	c.end(ErrKilled, nil)
	c.abandonMailbox()
}

func (c *cell) dispatch(msg any) {
	switch m := msg.(type) {
	case boot:
		c.boot()
	case killed:
		c.end(ErrKilled, nil)
	case crash:
		c.end(m.reason, nil)
	case tick:
		if msg, ok := c.timers.due(m); ok {
			c.handle(msg)
		}
	case finished:
		c.workers.done(m.name)
		c.dispatch(m.msg)
	case Down:
		if c.watched[m.Ref.life] || m.Ref.life == nil {
			delete(c.watched, m.Ref.life)
			c.handle(m)
		}
	default:
		c.handle(msg)
	}
}

func (c *cell) boot() {
	c.unhook = context.AfterFunc(c.ctx, func() { c.life.tell(killed{}) })
	if err := guard(c.init); err != nil {
		c.end(err, nil)
		return
	}
	if !c.late {
		c.ready()
	}
}

func (c *cell) init() error {
	c.behaviour = c.produce()
	if c.behaviour == nil {
		return errors.New("cannot start: there is no behaviour")
	}
	return c.behaviour.Init(c.ctx)
}

// ready reports that the incarnation is up. A behaviour that is up only after its Init sets late, and calls ready itself.
func (c *cell) ready() {
	if c.reported || c.over {
		return
	}
	c.reported = true
	c.life.state.Store(int32(running))
	c.report.up(Ref{c.life})
}

func (c *cell) handle(msg any) {
	if _, asked := msg.(Stop); asked {
		c.life.state.Store(int32(stoppingState))
	}
	if err := guard(func() error { return c.behaviour.Handle(c.ctx, msg) }); err != nil {
		c.end(err, msg)
	}
}

// guard turns a panic into an error. A Goexit passes through it.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return f()
}

// end is the one way an incarnation ends. What follows Terminate happens even if Terminate ends the goroutine.
func (c *cell) end(reason error, last any) {
	if c.over {
		return
	}
	c.over = true
	defer func() { c.finish(reason, last) }()
	if c.behaviour == nil {
		return
	}
	if err := guard(func() error { return c.behaviour.Terminate(c.ctx, reason) }); err != nil && !orderly(reason) {
		reason = errors.Join(reason, err)
	}
}

func (c *cell) finish(reason error, last any) {
	c.timers.stopAll()
	if c.unhook != nil {
		c.unhook()
	}
	c.life.cancel()
	for other := range c.watched {
		other.unwatch(c.life)
	}
	c.life.end(reason)
	if !orderly(reason) {
		fail(last, &DownError{Path: c.life.path, Reason: reason})
	}
	c.report.down(Ref{c.life}, reason)
	close(c.life.done)
	if !c.lost {
		c.life.box.close()
	}
}
