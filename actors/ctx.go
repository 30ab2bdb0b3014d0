package actors

import (
	"context"
	"time"
)

// Ctx is what a behaviour sees of the system. It may be kept. As a context it ends when the actor has ended or is abandoned, and with it
// the work the actor offloaded and, for a supervisor, its children. All methods but Self, and those of the context, are for the
// actor's own goroutine only.
type Ctx struct {
	context.Context
	cell *cell
}

// Self is the actor's own Ref.
func (c *Ctx) Self() Ref { return Ref{c.cell.life} }

// Parent is the supervisor's Ref; the zero Ref for a root.
func (c *Ctx) Parent() Ref { return Ref{c.cell.parent} }

// After tells the actor msg when d has passed. The key, any comparable value, names the timer: a later After with the same key takes
// its place, and no tick of the one before is seen any more.
func (c *Ctx) After(key any, d time.Duration, msg any) { c.cell.timers.arm(c.cell.life, key, d, msg) }

// Cancel stops a timer. No tick of it is seen any more, even if it has run out already.
func (c *Ctx) Cancel(key any) { c.cell.timers.cancel(key) }

// Watch has the actor told Down, exactly once, when the other one ends; at once if it has ended. Watching twice is watching once.
func (c *Ctx) Watch(other Ref) {
	if other.life == nil {
		c.Self().Tell(Down{other, ErrDown})
		return
	}
	if c.cell.watched[other.life] {
		return
	}
	if c.cell.watched == nil {
		c.cell.watched = map[*life]bool{}
	}
	c.cell.watched[other.life] = true
	other.life.watch(c.cell.life)
}

// Unwatch ends a Watch. A Down that is on its way is not seen any more.
func (c *Ctx) Unwatch(other Ref) {
	if other.life == nil || !c.cell.watched[other.life] {
		return
	}
	delete(c.cell.watched, other.life)
	other.life.unwatch(c.cell.life)
}
