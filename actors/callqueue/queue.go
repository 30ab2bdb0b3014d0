package callqueue

import (
	"slices"
	"time"
)

// Limits of a queue.
type Limits struct {
	Waiting int // calls that may wait; one more is refused. Default 1000
}

const defaultWaiting = 1000

// Queue is the order of calls of one guest. It is not safe for use by several goroutines.
type Queue struct {
	limits   Limits
	waiting  []CallArrived
	running  CallID // "" when none is
	detached bool   // the running call has been answered already
	closed   bool
	last     CallID // the call that ends a closed queue
}

// View is a copy of what the queue knows.
type View struct {
	Running  CallID // "" when none is
	Detached bool   // the running call is answered, its work has not ended
	Waiting  []CallID
	Closed   bool
}

// New makes an empty queue.
func New(limits Limits, _ time.Time) *Queue {
	if limits.Waiting <= 0 {
		limits.Waiting = defaultWaiting
	}
	return &Queue{limits: limits}
}

// View tells the state.
func (q *Queue) View() View {
	v := View{Running: q.running, Detached: q.detached, Closed: q.closed}
	for _, call := range q.waiting {
		v.Waiting = append(v.Waiting, call.ID)
	}
	return v
}

// Next is when the first waiting call expires.
func (q *Queue) Next() (time.Time, bool) {
	var first time.Time
	for _, call := range q.waiting {
		if !call.Expires.IsZero() && (first.IsZero() || call.Expires.Before(first)) {
			first = call.Expires
		}
	}
	return first, !first.IsZero()
}

// Step takes in an event and answers what is to be done about it. Calls that have expired meanwhile are refused first.
func (q *Queue) Step(now time.Time, ev Event) []Effect {
	effects := q.refuse(Expired, func(_ int, call CallArrived) bool {
		return !call.Expires.IsZero() && !now.Before(call.Expires)
	})
	switch ev := ev.(type) {
	case CallArrived:
		effects = append(effects, q.arrived(now, ev)...)
	case CallDone:
		effects = append(effects, q.done(ev.ID)...)
	case CallCancelled:
		effects = append(effects, q.cancelled(ev.ID)...)
	case Closing:
		effects = append(effects, q.closing(ev.Last)...)
	case CuttingOff:
		effects = append(effects, q.cutOff()...)
	}
	return append(effects, q.start()...)
}

func (q *Queue) arrived(now time.Time, call CallArrived) []Effect {
	switch {
	case q.knows(call.ID):
		return nil
	case q.closed:
		return []Effect{RefuseCall{ID: call.ID, Why: Closed}}
	case len(q.waiting) >= q.limits.Waiting:
		return []Effect{RefuseCall{ID: call.ID, Why: Full}}
	case !call.Expires.IsZero() && !now.Before(call.Expires):
		return []Effect{RefuseCall{ID: call.ID, Why: Expired}}
	}
	q.waiting = append(q.waiting, call)
	return nil
}

func (q *Queue) knows(id CallID) bool {
	return q.running == id || slices.ContainsFunc(q.waiting, func(c CallArrived) bool { return c.ID == id })
}

func (q *Queue) done(id CallID) []Effect {
	if q.running == "" || q.running != id {
		return nil
	}
	answered := q.detached
	q.running, q.detached = "", false
	if answered {
		return nil
	}
	return []Effect{AnswerCall{ID: id}}
}

func (q *Queue) cancelled(id CallID) []Effect {
	if q.running == id {
		return q.detach()
	}
	return q.refuse(Cancelled, func(_ int, call CallArrived) bool { return call.ID == id })
}

// detach answers the running call before its work has ended.
func (q *Queue) detach() []Effect {
	if q.running == "" || q.detached {
		return nil
	}
	q.detached = true
	return []Effect{DetachCall{ID: q.running}}
}

func (q *Queue) closing(last CallID) []Effect {
	if q.closed {
		return nil
	}
	kept := 0 // waiting calls up to the last one that concludes
	for i, call := range q.waiting {
		if call.Concluding {
			kept = i + 1
		}
	}
	effects := q.refuse(Closed, func(i int, _ CallArrived) bool { return i >= kept })
	q.closed, q.last = true, last
	q.waiting = append(q.waiting, CallArrived{ID: last})
	return effects
}

func (q *Queue) cutOff() []Effect {
	if !q.closed {
		return nil
	}
	effects := q.refuse(Closed, func(_ int, call CallArrived) bool { return call.ID != q.last })
	if q.running != q.last {
		effects = append(effects, q.detach()...)
	}
	return effects
}

// refuse takes the waiting calls of a kind out of the queue.
func (q *Queue) refuse(why Refusal, which func(int, CallArrived) bool) []Effect {
	var effects []Effect
	var stay []CallArrived
	for i, call := range q.waiting {
		if which(i, call) {
			effects = append(effects, RefuseCall{ID: call.ID, Why: why})
			continue
		}
		stay = append(stay, call)
	}
	q.waiting = stay
	return effects
}

func (q *Queue) start() []Effect {
	if q.running != "" || len(q.waiting) == 0 {
		return nil
	}
	q.running = q.waiting[0].ID
	q.waiting = q.waiting[1:]
	return []Effect{StartCall{ID: q.running}}
}
