package mcpgate

import (
	"context"
	"encoding/json"
	"sync"
)

// call is one request that was read and not yet answered.
type call struct {
	number int64           // the server's own id for it
	id     json.RawMessage // the client's
	early  bool            // came before initialize
	tool   bool            // is a tool's
	parked bool            // stays open by its nature: nothing waits for it
	turn   *turn
}

// calls are all open calls of a server, over all its connections.
type calls struct {
	mu   sync.Mutex
	last int64
	open map[int64]*call
	busy int           // open calls that are waited for
	idle chan struct{} // closed when busy falls to 0
}

func newCalls() *calls {
	idle := make(chan struct{})
	close(idle)
	return &calls{open: map[int64]*call{}, idle: idle}
}

// add opens a call and numbers it.
func (c *calls) add(opened *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	opened.number = c.last
	c.open[opened.number] = opened
	if opened.parked {
		return
	}
	if c.busy == 0 {
		c.idle = make(chan struct{})
	}
	c.busy++
}

// get finds an open call by its number.
func (c *calls) get(number int64) (*call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.open[number]
	return found, ok
}

// remove closes a call that has been answered, and gives up its turn.
func (c *calls) remove(answered *call) {
	answered.turn.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[answered.number] == nil {
		return
	}
	delete(c.open, answered.number)
	if answered.parked {
		return
	}
	c.busy--
	if c.busy == 0 {
		close(c.idle)
	}
}

// wait returns when no call is open, or with ctx's error.
func (c *calls) wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		busy, idle := c.busy, c.idle
		c.mu.Unlock()
		if busy == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
