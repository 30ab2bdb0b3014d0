package mcpgate

import (
	"context"
	"sync"
)

// turns keep the order in which calls on one guest arrived: a call goes to the relay when every earlier call on that guest
// has been admitted there or has ended. Calls on different guests, and calls that name none, never wait here.
type turns struct {
	mu     sync.Mutex
	queues map[string][]*turn
}

// turn is one call's place. A nil turn is that of a call which has none to keep.
type turn struct {
	of    *turns
	guest string
	open  chan struct{} // closed when the call may go on
}

func newTurns() *turns { return &turns{queues: map[string][]*turn{}} }

// take gives the next place for guest, or nil when the call names none.
func (t *turns) take(guest string) *turn {
	if guest == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	place := &turn{of: t, guest: guest, open: make(chan struct{})}
	t.queues[guest] = append(t.queues[guest], place)
	if len(t.queues[guest]) == 1 {
		close(place.open)
	}
	return place
}

// wait returns when the call may go on, or with ctx's error.
func (p *turn) wait(ctx context.Context) error {
	if p == nil {
		return ctx.Err()
	}
	select {
	case <-p.open:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives the place up, wherever in the queue it is. Leaving twice is harmless.
func (p *turn) leave() {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	queue := p.of.queues[p.guest]
	for i, place := range queue {
		if place != p {
			continue
		}
		queue = append(queue[:i:i], queue[i+1:]...)
		if len(queue) == 0 {
			delete(p.of.queues, p.guest)
			return
		}
		p.of.queues[p.guest] = queue
		if i == 0 {
			close(queue[0].open)
		}
		return
	}
}
