package downloadqueue

import (
	"slices"
	"time"
)

// Limits of a queue.
type Limits struct {
	Bound int // jobs queued and in flight beyond which calls wait for the oldest; default 64
}

const defaultBound = 64

type state int

const (
	open state = iota
	closing
	closed
)

func (s state) String() string { return [...]string{"open", "closing", "closed"}[s] }

// Queue is the downloads of one guest. It is not safe for use by several goroutines.
type Queue struct {
	limits    Limits
	state     state
	paused    bool
	waiting   []Key
	promoted  map[Key]bool // waiting, ahead of the others, and run even while paused
	flying    Key          // in flight, its transfer not ended; "" when none is
	recording map[Key]End  // ended, and not recorded yet
	counts    map[End]int
	full      bool // calls may be waiting
}

// View is a copy of what the queue knows.
type View struct {
	State    string // open, closing, closed
	Paused   bool
	Queued   []Key
	InFlight Key // "" when none is; a job whose end is being recorded is still in flight
	Full     bool
	Counts   map[End]int
}

// New makes an empty, open queue.
func New(limits Limits, _ time.Time) *Queue {
	if limits.Bound <= 0 {
		limits.Bound = defaultBound
	}
	return &Queue{limits: limits, promoted: map[Key]bool{}, recording: map[Key]End{}, counts: map[End]int{}}
}

// View tells the state.
func (q *Queue) View() View {
	v := View{State: q.state.String(), Paused: q.paused, Queued: slices.Clone(q.waiting), InFlight: q.flying, Full: q.full, Counts: map[End]int{}}
	for end, n := range q.counts {
		v.Counts[end] = n
	}
	for key, end := range q.recording {
		if end == Downloaded || end == Failed {
			v.InFlight = key
		}
	}
	return v
}

// Next is never: nothing here depends on time.
func (q *Queue) Next() (time.Time, bool) { return time.Time{}, false }

// Step takes in an event and answers what is to be done about it.
func (q *Queue) Step(_ time.Time, ev Event) []Effect {
	if q.state == closed {
		return nil
	}
	var effects []Effect
	switch ev := ev.(type) {
	case JobQueued:
		q.queued(ev.Key)
	case Promoted:
		q.promote(ev.Key)
	case JobEnded:
		effects = q.ended(ev)
	case Recorded:
		effects = q.recorded(ev.Key)
	case OperationEnded:
		q.paused = false
	case DrainAsked:
		effects = q.drain()
	case Reopened:
		q.state = open
	case Closed:
		return q.close()
	}
	effects = append(effects, q.begin()...)
	return append(effects, q.wake()...)
}

func (q *Queue) queued(key Key) {
	_, recording := q.recording[key]
	if q.state != open || key == "" || key == q.flying || recording || slices.Contains(q.waiting, key) {
		return
	}
	q.waiting = append(q.waiting, key)
}

// promote takes effect even while the failure that pauses the queue is being recorded.
func (q *Queue) promote(key Key) {
	i := slices.Index(q.waiting, key)
	if i < 0 {
		return
	}
	q.waiting = slices.Insert(slices.Delete(q.waiting, i, i+1), 0, key)
	q.promoted[key] = true
}

func (q *Queue) ended(ev JobEnded) []Effect {
	if q.flying == "" || ev.Key != q.flying {
		return nil
	}
	q.flying = ""
	var effects []Effect
	switch {
	case ev.End == Downloaded:
		q.paused = false
	case ev.Transient && q.state == open:
		q.paused = true
	case ev.Transient:
		effects = q.endWaiting(Cancelled)
	}
	return append(effects, q.record(ev.Key, ev.End))
}

func (q *Queue) record(key Key, end End) Effect {
	q.recording[key] = end
	return RecordEnd{Key: key, End: end}
}

func (q *Queue) recorded(key Key) []Effect {
	end, ok := q.recording[key]
	if !ok {
		return nil
	}
	delete(q.recording, key)
	q.counts[end]++
	if q.state == closing && q.idle() {
		return []Effect{Drained{}}
	}
	return nil
}

// idle says that nothing is in flight and every end is recorded.
func (q *Queue) idle() bool { return q.flying == "" && len(q.recording) == 0 && len(q.waiting) == 0 }

// drain ends what waits at once; the one in flight is waited for.
func (q *Queue) drain() []Effect {
	q.state, q.paused = closing, false
	effects := q.endWaiting(Coalesced)
	if q.idle() {
		effects = append(effects, Drained{})
	}
	return effects
}

func (q *Queue) endWaiting(end End) []Effect {
	var effects []Effect
	for _, key := range q.waiting {
		effects = append(effects, q.record(key, end))
	}
	q.waiting = nil
	clear(q.promoted)
	return effects
}

func (q *Queue) close() []Effect {
	q.state = closed
	q.counts[Cancelled] += len(q.waiting)
	q.waiting = nil
	clear(q.promoted)
	var effects []Effect
	if q.flying != "" {
		effects = append(effects, AbortJob{Key: q.flying})
	}
	clear(q.recording)
	q.flying = ""
	return append(effects, q.wake()...)
}

// begin starts the head when nothing is in flight, the recording of an end included.
func (q *Queue) begin() []Effect {
	if q.state != open || q.flying != "" || len(q.recording) > 0 || len(q.waiting) == 0 {
		return nil
	}
	if q.paused && !q.promoted[q.waiting[0]] {
		return nil
	}
	q.flying, q.waiting = q.waiting[0], q.waiting[1:]
	delete(q.promoted, q.flying)
	return []Effect{BeginJob{Key: q.flying}}
}

// wake keeps the mark that calls have to wait, and says when they need not any more.
func (q *Queue) wake() []Effect {
	pending := len(q.waiting) + len(q.recording)
	if q.flying != "" {
		pending++
	}
	was := q.full
	q.full = q.state == open && !q.paused && pending > q.limits.Bound
	if was && !q.full {
		return []Effect{WakeWaiters{}}
	}
	return nil
}
