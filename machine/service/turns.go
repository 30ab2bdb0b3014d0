package service

import (
	"context"
	"slices"
	"sync"
)

// turns lets callers through one at a time, in the order in which they came. The zero value is free.
type turns struct {
	mu      sync.Mutex
	taken   bool
	waiting []chan struct{}
}

// take waits for the caller's turn. After nil it must be given back with give.
func (t *turns) take(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.waiting = append(t.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		t.leave(mine)
		return context.Cause(ctx)
	}
}

// tryTake takes the turn if nobody has it.
func (t *turns) tryTake() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		return false
	}
	t.taken = true
	return true
}

// leave gives up a place in the queue, or the turn itself if it came at the same moment.
func (t *turns) leave(mine chan struct{}) {
	t.mu.Lock()
	i := slices.Index(t.waiting, mine)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 {
		t.give()
	}
}

// give hands the turn to the next in the queue.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	close(t.waiting[0])
	t.waiting = t.waiting[1:]
}
