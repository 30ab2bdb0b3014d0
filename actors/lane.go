package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/callqueue"
	"github.com/seed-1e4c9d81/mcp-relay/actors/exitpolicy"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// Names of the lane's own calls; those of callers are numbers.
const (
	settleCall callqueue.CallID = "settle"
	doubtCall  callqueue.CallID = "reconcile"
)

// lane carries out the calls of one guest, one at a time, in the order of their arrival. Their work runs in goroutines of its own:
// nothing here ever blocks. A lane that crashes answers what it had and comes back empty; nothing is begun twice.
type lane struct {
	session *sessionParts
	name    string
	held    Held
	turn    chan struct{}
	queue   *callqueue.Queue
	calls   map[callqueue.CallID]*call // those without a last word
	choice  exitpolicy.Choice          // of the settling that closed the queue
	cutting bool                       // nothing in flight is waited for any more
}

func newLane(session *sessionParts, name string) *lane {
	return &lane{session: session, name: name, calls: map[callqueue.CallID]*call{}}
}

// Init takes the guest from the roster, where its owner lock is held.
func (l *lane) Init(c *Ctx) error {
	e, err := l.session.roster.find(l.name)
	if err != nil {
		return fmt.Errorf("cannot work for guest %q: %w", l.name, err)
	}
	l.held, l.turn = e.held, e.turn
	l.queue = callqueue.New(callqueue.Limits{}, time.Now())
	self := c.Self()
	l.session.roster.update(l.name, func(e *entry) { e.lane, e.failed = self, "" })
	return nil
}

// Handle turns a message into an event of the queue.
func (l *lane) Handle(c *Ctx, msg any) error {
	switch m := msg.(type) {
	case callSubmitted:
		l.submit(c, m.call)
	case callCancelled:
		l.cancel(c, m)
	case workEnded:
		l.ended(c, m)
	case laneDue:
		l.step(c, callqueue.Ticked{})
	case doubtRaised:
		l.submit(c, l.internal(doubtCall, operation{tool: "reconcile", run: l.compare}, func(outcome) {}))
	case settleAsked:
		l.close(c, m.choice)
	case cutOff:
		l.cutOff(c)
	case Stop:
		return m.Err()
	}
	return nil
}

// Terminate gives every call that is still open its last word. What had begun is uncertain. A settling that was under way gets none: the
// exit policy goes on without it.
func (l *lane) Terminate(_ *Ctx, reason error) error {
	for _, open := range l.calls {
		if open.id != settleCall {
			l.finish(open, l.lastWord(open, reason))
		}
	}
	return nil
}

func (l *lane) lastWord(open *call, reason error) outcome {
	end, over := l.session.roster.ended()
	switch {
	case !open.withdraw() && over:
		return open.mayHaveRun(l.held, errCutOff)
	case !open.withdraw():
		return open.lost(l.held)
	case l.held != nil && l.held.Gone():
		return outcome{err: &guest.UnknownGuestError{Name: l.name, Held: l.session.roster.held()}}
	case over && orderly(reason):
		return outcome{err: refuseEnding(end.trigger)}
	}
	return open.lost(l.held)
}

func (l *lane) submit(c *Ctx, submitted *call) {
	if _, known := l.calls[submitted.id]; known {
		return
	}
	if submitted.ctx.Err() != nil && submitted.op.patience != awaited {
		submitted.answer(submitted.neverBegan(callqueue.Cancelled, ""))
		return
	}
	l.calls[submitted.id] = submitted
	l.step(c, callqueue.CallArrived{ID: submitted.id, Expires: submitted.op.expires, Concluding: submitted.op.concluding})
}

// internal makes a call of the lane's own.
func (l *lane) internal(id callqueue.CallID, op operation, answer func(outcome)) *call {
	return &call{id: id, guest: l.name, op: op, ctx: context.Background(), answer: answer}
}

// compare looks at a guest whose renewal got lost, in its turn among the calls.
func (l *lane) compare(ctx context.Context, held Held) (guest.Result, error) {
	err := held.Reconcile(ctx)
	if err != nil && !held.Gone() {
		l.session.note(l.name, held, eventHeartbeatUncertain, err)
	}
	return guest.Result{}, err
}

func (l *lane) cancel(c *Ctx, m callCancelled) {
	open, ok := l.calls[m.id]
	if ok && open.cancel != nil {
		open.cancel(m.cause)
	}
	if ok && open.op.patience == awaited {
		return // one that still waits comes to its turn all the same: it has something to undo
	}
	l.step(c, callqueue.CallCancelled{ID: m.id})
}

// cutOff ends the patience with what is in flight.
func (l *lane) cutOff(c *Ctx) {
	l.cutting = true
	l.step(c, callqueue.CuttingOff{})
	if last, ok := l.calls[settleCall]; ok {
		l.hurry(last)
	}
}

// hurry takes from a release at the session's end the time for evidence once nothing is waited for any more, whether it has begun or
// begins only now: the machine is destroyed at once.
func (l *lane) hurry(last *call) {
	if l.cutting && last.id == settleCall && last.cancel != nil && l.choice == exitpolicy.Release {
		last.cancel(errCutOff)
	}
}

func (l *lane) ended(c *Ctx, m workEnded) {
	if open, ok := l.calls[m.id]; ok {
		open.result = m.result
		if broken(m.result.err) {
			l.session.emit(OperationBroken{Guest: l.name, Tool: open.op.tool, Call: string(open.id), Err: m.result.err, Stack: stackOf(m.result.err)})
			open.result = open.mayHaveRun(l.held, errBroken)
		}
	}
	l.retire()
	l.step(c, callqueue.CallDone{ID: m.id})
}

// retire frees the slot of a guest that is no more.
func (l *lane) retire() {
	if l.held.Gone() {
		l.session.retire(l.name, l.held)
	}
}

// step tells the queue an event, carries out what it orders and sets the one timer.
func (l *lane) step(c *Ctx, event callqueue.Event) {
	for _, effect := range l.queue.Step(time.Now(), event) {
		l.carryOut(c, effect)
	}
	if at, ok := l.queue.Next(); ok {
		c.After(laneDue{}, time.Until(at), laneDue{})
		return
	}
	c.Cancel(laneDue{})
}

func (l *lane) carryOut(c *Ctx, effect callqueue.Effect) {
	switch e := effect.(type) {
	case callqueue.StartCall:
		l.start(c, l.calls[e.ID])
	case callqueue.AnswerCall:
		open := l.calls[e.ID]
		l.finish(open, open.result)
	case callqueue.RefuseCall:
		open := l.calls[e.ID]
		end, _ := l.session.roster.ended()
		l.finish(open, open.neverBegan(e.Why, end.trigger))
	case callqueue.DetachCall:
		l.detach(l.calls[e.ID])
	}
}

// detach answers a call whose turn it is before its work has ended.
func (l *lane) detach(open *call) {
	why, cause := callqueue.Cancelled, errCancelled
	end, over := l.session.roster.ended()
	if over && l.queue.View().Closed {
		why, cause = callqueue.Closed, fmt.Errorf("the session ended (%s): %w", end.trigger, context.Canceled)
	}
	open.cancel(cause)
	if open.withdraw() { // it was still waiting for what an earlier lane left behind
		l.finish(open, open.neverBegan(why, end.trigger))
		return
	}
	l.finish(open, open.mayHaveRun(l.held, cause))
}

// finish says a call's last word.
func (l *lane) finish(open *call, word outcome) {
	delete(l.calls, open.id)
	if open.fate.Load() == begun {
		l.session.emit(CallEnded{Guest: l.name, Tool: open.op.tool, Call: string(open.id), Duration: time.Since(open.began), Err: word.err})
	}
	open.answer(word)
}

// start begins the work of a call in a goroutine of its own, which sends exactly one message back whatever becomes of it.
func (l *lane) start(c *Ctx, next *call) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(next.ctx))
	next.cancel, next.began = cancel, time.Now()
	if next.ctx.Err() != nil {
		cancel(context.Cause(next.ctx))
	}
	l.hurry(next)
	id := next.id
	Offload(c, id, func(actor context.Context) (guest.Result, error) {
		defer cancel(nil)
		if next.op.patience == cancelled { // other work outlives a lane that crashes
			defer context.AfterFunc(actor, func() { cancel(context.Cause(actor)) })()
		}
		return l.work(ctx, next)
	}, func(result guest.Result, err error) any {
		return workEnded{lane: l, id: id, result: outcome{result: result, err: err}}
	})
}

// work does what a call is for, once the guest is free: a lane that crashed may have left work behind that has not ended.
func (l *lane) work(ctx context.Context, of *call) (guest.Result, error) {
	if err := l.takeTurn(ctx); err != nil {
		return guest.Result{}, err
	}
	defer func() { <-l.turn }()
	if !of.begin() {
		return guest.Result{}, errCancelled // it was answered
	}
	l.session.emit(CallStarted{Guest: l.name, Tool: of.op.tool, Call: string(of.id)})
	if l.held.Gone() {
		return guest.Result{}, &guest.UnknownGuestError{Name: l.name, Held: l.session.roster.held()}
	}
	if !of.op.expires.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, of.op.expires)
		defer cancel()
		ctx = bounded
	}
	if of.op.reconcile {
		err := l.held.Reconcile(ctx)
		l.session.met(err)
		if err != nil {
			return guest.Result{}, err
		}
		l.renew()
	}
	result, err := of.op.run(ctx, l.held)
	if of.op.renew && !l.held.Gone() {
		l.renew()
	}
	return result, err
}

// takeTurn waits until no earlier work has the guest. Work that is cancelled already still gets a free turn: it may have something to
// undo.
func (l *lane) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return guest.Refuse("guest %q was still at work for an earlier call, so this one never began: %v", l.name, context.Cause(ctx))
	}
}

// renew tells the lease actor that an operation begins.
func (l *lane) renew() {
	if e, err := l.session.roster.find(l.name); err == nil {
		e.lease.Tell(operationBegan{l.held.Lease()})
	}
}

// close ends the lane with one last call: the session leaves the guest.
func (l *lane) close(c *Ctx, choice exitpolicy.Choice) {
	if _, settling := l.calls[settleCall]; settling {
		return
	}
	l.choice = choice
	op := operation{tool: "pause", run: l.pause}
	if choice == exitpolicy.Release {
		op = operation{tool: "release", run: l.release}
	}
	last := l.internal(settleCall, op, nil)
	last.answer = func(o outcome) {
		if last.fate.Load() == begun { // else earlier work still has the guest, and the exit policy goes on without this one
			l.session.tell(guestSettled{name: l.name, err: o.err})
		}
	}
	l.calls[settleCall] = last
	l.step(c, callqueue.Closing{Last: settleCall})
	if l.cutting {
		l.cutOff(c)
	}
}

func (l *lane) pause(ctx context.Context, _ Held) (guest.Result, error) {
	return guest.Result{}, l.session.pause(ctx, l.name)
}

func (l *lane) release(ctx context.Context, held Held) (guest.Result, error) {
	return guest.Result{}, l.session.release(ctx, l.name, held)
}
