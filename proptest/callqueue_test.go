package proptest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/callqueue"
)

// P1: calls start in the order of their arrival, one at a time; a cancelled or expired waiting call never starts; each call gets exactly
// one word; a closed queue takes in nothing, and its last call comes last.
func TestCallQueue(t *testing.T) {
	check(t, 1500, 80, facts(func() func(int) string { return newQueueWorld().fact }))
}

const maxWaiting = 6

// queueCall is a call as the books have it.
type queueCall struct {
	id         callqueue.CallID
	expires    time.Time
	concluding bool
	last       bool
	due        callqueue.Refusal // it must be refused so
}

type queueWorld struct {
	queue   *callqueue.Queue
	now     time.Time
	calls   int
	waiting []*queueCall // in the order of arrival
	running *queueCall
	word    map[callqueue.CallID]bool // said
	closed  bool
	ended   callqueue.CallID // whose end is being told
	cut     bool             // the running call is to be detached
}

func newQueueWorld() *queueWorld {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &queueWorld{queue: callqueue.New(callqueue.Limits{Waiting: maxWaiting}, now), now: now, word: map[callqueue.CallID]bool{}}
}

func (w *queueWorld) fact(k int) string {
	choice, rest := k%16, k/16
	switch choice {
	case 0, 1, 2, 3, 4, 5:
		return w.arrive(rest)
	case 6, 7, 8, 9:
		return w.done()
	case 10, 11:
		return w.cancel(rest)
	case 12, 13:
		w.now = w.now.Add(time.Duration(rest%60) * time.Second)
		w.expire()
		return w.step(callqueue.Ticked{})
	case 14:
		if rest%5 == 0 {
			return w.close()
		}
		return w.step(callqueue.CallDone{ID: "nobody"})
	default:
		return w.cutOff()
	}
}

// expire marks who must never start any more.
func (w *queueWorld) expire() {
	for _, c := range w.waiting {
		if !c.expires.IsZero() && !w.now.Before(c.expires) && c.due == "" {
			c.due = callqueue.Expired
		}
	}
}

func (w *queueWorld) arrive(k int) string {
	w.calls++
	c := &queueCall{id: callqueue.CallID(fmt.Sprint(w.calls)), concluding: k%5 == 0}
	if k%3 == 0 {
		c.expires = w.now.Add(time.Duration(k%100) * time.Second)
	}
	switch {
	case w.closed:
		c.due = callqueue.Closed
	case len(w.waiting) >= maxWaiting:
		c.due = callqueue.Full
	case !c.expires.IsZero() && !w.now.Before(c.expires):
		c.due = callqueue.Expired
	}
	w.waiting = append(w.waiting, c)
	return w.step(callqueue.CallArrived{ID: c.id, Expires: c.expires, Concluding: c.concluding})
}

func (w *queueWorld) done() string {
	if w.running == nil {
		return ""
	}
	w.ended = w.running.id
	w.running = nil
	return w.step(callqueue.CallDone{ID: w.ended})
}

func (w *queueWorld) cancel(k int) string {
	known := slices.Clone(w.waiting)
	if w.running != nil {
		known = append(known, w.running)
	}
	if len(known) == 0 {
		return w.step(callqueue.CallCancelled{ID: "nobody"})
	}
	c := known[k%len(known)]
	if c == w.running {
		w.cut = !w.word[c.id]
	} else if c.due == "" {
		c.due = callqueue.Cancelled
	}
	return w.step(callqueue.CallCancelled{ID: c.id})
}

func (w *queueWorld) close() string {
	if w.closed {
		return w.step(callqueue.Closing{Last: "another last"})
	}
	w.closed = true
	stays := false // from the end: a concluding call keeps what is before it
	for _, c := range slices.Backward(w.waiting) {
		stays = stays || c.concluding
		if !stays {
			c.due = callqueue.Closed
		}
	}
	w.waiting = append(w.waiting, &queueCall{id: "last", last: true})
	return w.step(callqueue.Closing{Last: "last"})
}

func (w *queueWorld) cutOff() string {
	if w.closed {
		for _, c := range w.waiting {
			if !c.last && c.due == "" {
				c.due = callqueue.Closed
			}
		}
		w.cut = w.running != nil && !w.running.last && !w.word[w.running.id]
	}
	return w.step(callqueue.CuttingOff{})
}

func (w *queueWorld) step(event callqueue.Event) string {
	for _, effect := range w.queue.Step(w.now, event) {
		if violation := w.ordered(effect); violation != "" {
			return fmt.Sprintf("%v after %#v: %s", effect, event, violation)
		}
	}
	return w.atRest()
}

func (w *queueWorld) ordered(effect callqueue.Effect) string {
	switch e := effect.(type) {
	case callqueue.StartCall:
		if w.running != nil {
			return "another one runs"
		}
		if len(w.waiting) == 0 || w.waiting[0].id != e.ID || w.waiting[0].due != "" {
			return "it is not the first that may start"
		}
		w.running, w.waiting = w.waiting[0], w.waiting[1:]
		return ""
	case callqueue.AnswerCall:
		if w.ended != e.ID {
			return "its work has not ended"
		}
		w.ended = ""
		return w.say(e.ID)
	case callqueue.RefuseCall:
		i := slices.IndexFunc(w.waiting, func(c *queueCall) bool { return c.id == e.ID })
		if i < 0 || w.waiting[i].due != e.Why {
			return "it is not to be refused so"
		}
		w.waiting = slices.Delete(w.waiting, i, i+1)
		return w.say(e.ID)
	case callqueue.DetachCall:
		if !w.cut || w.running == nil || w.running.id != e.ID {
			return "it is not to be answered early"
		}
		w.cut = false
		return w.say(e.ID)
	}
	return "unknown order"
}

func (w *queueWorld) say(id callqueue.CallID) string {
	if w.word[id] {
		return "it has had its word"
	}
	w.word[id] = true
	return ""
}

// atRest is what holds after every fact.
func (w *queueWorld) atRest() string {
	if w.ended != "" && !w.word[w.ended] {
		return fmt.Sprintf("call %s ended and was not answered", w.ended)
	}
	w.ended = ""
	var first time.Time
	for _, c := range w.waiting {
		if c.due != "" {
			return fmt.Sprintf("call %s is not refused (%s)", c.id, c.due)
		}
		if !c.expires.IsZero() && (first.IsZero() || c.expires.Before(first)) {
			first = c.expires
		}
	}
	if next, ok := w.queue.Next(); ok == first.IsZero() || !next.Equal(first) {
		return fmt.Sprintf("it wants to be woken at %v, the first expires at %v", next, first)
	}
	switch {
	case w.cut:
		return "the running call was cancelled and not answered"
	case w.running == nil && len(w.waiting) > 0:
		return "somebody waits for nobody"
	}
	return ""
}
