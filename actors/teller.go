package actors

import (
	"sync/atomic"
	"time"
)

const (
	tellerRoom = 4096        // events that may wait to be told
	tellerStop = time.Second // for the last ones to be told
)

// teller tells events, in their order, on a goroutine of its own: a log or a monitor that is slow, or hangs, must never hold up an
// actor. What does not fit is lost, and how much is told.
type teller struct {
	queue chan Event
	quit  chan struct{}
	done  chan struct{}
	lost  atomic.Uint64
}

func newTeller(sink func(Event)) *teller {
	t := &teller{queue: make(chan Event, tellerRoom), quit: make(chan struct{}), done: make(chan struct{})}
	go t.run(sink)
	return t
}

// tell never waits.
func (t *teller) tell(e Event) {
	select {
	case t.queue <- e:
	default:
		t.lost.Add(1)
	}
}

func (t *teller) run(sink func(Event)) {
	defer close(t.done)
	for {
		select {
		case e := <-t.queue:
			t.hand(sink, e)
		case <-t.quit:
			t.drain(sink)
			return
		}
	}
}

func (t *teller) hand(sink func(Event), e Event) {
	if n := t.lost.Swap(0); n > 0 {
		sink(EventsLost{n})
	}
	sink(e)
}

func (t *teller) drain(sink func(Event)) {
	for {
		select {
		case e := <-t.queue:
			t.hand(sink, e)
		default:
			return
		}
	}
}

// stop tells what is left, for so long as that may take. It is called once.
func (t *teller) stop() {
	close(t.quit)
	timer := time.NewTimer(tellerStop)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
	}
}
