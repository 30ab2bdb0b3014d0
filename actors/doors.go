package actors

import (
	"context"
	"slices"
	"sync"
)

// doors keep the order in which calls on one guest came, on their way to its lane: that way takes time while the guest is opened or its
// lane restarts, and a later call must not find it shorter.
type doors struct {
	mu     sync.Mutex
	queues map[string][]chan struct{} // by guest; the first is open, the others open when they become the first
}

// enter waits until every earlier call on the guest has gone through. The error is that of ctx; leave must be called in any case.
func (d *doors) enter(ctx context.Context, name string) (leave func(), err error) {
	own := make(chan struct{})
	d.mu.Lock()
	d.queues[name] = append(d.queues[name], own)
	if len(d.queues[name]) == 1 {
		close(own)
	}
	d.mu.Unlock()
	leave = func() { d.leave(name, own) }
	select {
	case <-own:
		return leave, nil
	case <-ctx.Done():
		return leave, ctx.Err()
	}
}

func (d *doors) leave(name string, own chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	queue := d.queues[name]
	i := slices.Index(queue, own)
	queue = slices.Delete(queue, i, i+1)
	if len(queue) == 0 {
		delete(d.queues, name)
		return
	}
	d.queues[name] = queue
	if i == 0 {
		close(queue[0])
	}
}
