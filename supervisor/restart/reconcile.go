package restart

import "time"

// reconcile orders the steps that bring every child nearer to what is wanted of it.
func (c *Core) reconcile(now time.Time) {
	if !c.began && c.exiting == nil || c.exited {
		return
	}
	stopping := c.stopUnwanted(now)
	c.drop(func(k *child) bool { return c.exiting == nil && c.forgotten(k) })
	switch {
	case stopping && c.orderMatters():
	case c.exiting != nil:
		c.leave()
	default:
		c.startWanted(now)
	}
}

// orderMatters says whether children start and stop one after another. Manual removals where children live on their own are not
// ordered; the end of a supervisor is, unless its children are dynamic.
func (c *Core) orderMatters() bool {
	return c.options.Strategy.inGroups() || c.exiting != nil && c.options.Strategy != SimpleOneForOne
}

// stopUnwanted orders the next stops and says whether something is stopping.
func (c *Core) stopUnwanted(now time.Time) (stopping bool) {
	for i := len(c.children) - 1; i >= 0; i-- {
		k := c.children[i]
		if (k.phase == Starting || k.phase == Up) && (!k.want || k.recycle) {
			c.stop(now, k)
		}
		if k.phase != Stopping {
			continue
		}
		stopping = true
		if c.orderMatters() {
			return true
		}
	}
	return stopping
}

func (c *Core) stop(now time.Time, k *child) {
	if k.spec.Shutdown == BrutalKill {
		c.emit(KillChild{k.spec.ID, k.incarnation})
		c.ended(now, k, ErrKilled)
		return
	}
	k.phase, k.deadline = Stopping, until(now, k.spec.Shutdown)
	c.emit(StopChild{k.spec.ID, k.incarnation, ErrShutdown})
}

// forgotten says whether nothing of a child is kept: it was removed, or it is of a kind that is never started a second time.
func (c *Core) forgotten(k *child) bool {
	return k.phase == Down && !k.want && (k.forget || k.spec.Restart == Temporary || c.options.Strategy == SimpleOneForOne)
}

// leave ends the supervisor once nobody lives.
func (c *Core) leave() {
	for _, k := range c.children {
		if k.alive() {
			return
		}
	}
	c.exited = true
	c.emit(Exit{c.exiting})
}

// startWanted orders the next starts: of one child at a time where order matters and while the supervisor starts, of all otherwise.
func (c *Core) startWanted(now time.Time) {
	oneByOne := c.options.Strategy.inGroups() || !c.ready && c.options.Strategy != SimpleOneForOne
	for _, k := range c.children {
		if k.want && k.phase == Down {
			c.start(now, k)
		}
		if oneByOne && k.want && k.phase != Up {
			return
		}
	}
	if !c.ready {
		c.ready = true
		c.emit(Ready{})
	}
}

func (c *Core) start(now time.Time, k *child) {
	c.incarnations++
	k.incarnation = c.incarnations
	k.phase, k.deadline = Starting, until(now, k.spec.Start)
	c.emit(StartChild{k.spec.ID, k.incarnation})
}
