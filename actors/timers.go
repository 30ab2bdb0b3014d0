package actors

import "time"

// timers are the keyed timers of one cell. Each arming has a generation of its own, which its tick carries: a tick of another
// generation is stale, and is dropped.
type timers struct {
	armed      map[any]armed
	generation uint64
}

type armed struct {
	timer      *time.Timer
	generation uint64
}

// tick is a timer's message to its own cell.
type tick struct {
	key        any
	generation uint64
	msg        any
}

func (t *timers) arm(to *life, key any, d time.Duration, msg any) {
	t.cancel(key)
	if t.armed == nil {
		t.armed = map[any]armed{}
	}
	t.generation++
	due := tick{key, t.generation, msg}
	t.armed[key] = armed{time.AfterFunc(d, func() { to.tell(due) }), t.generation}
}

func (t *timers) cancel(key any) {
	if a, ok := t.armed[key]; ok {
		a.timer.Stop()
		delete(t.armed, key)
	}
}

// due gives the message of a tick that is not stale.
func (t *timers) due(m tick) (msg any, ok bool) {
	if t.armed[m.key].generation != m.generation {
		return nil, false
	}
	delete(t.armed, m.key)
	return m.msg, true
}

func (t *timers) stopAll() {
	for key := range t.armed {
		t.cancel(key)
	}
}
