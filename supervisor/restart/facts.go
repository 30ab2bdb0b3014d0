package restart

import "time"

// started takes in that an incarnation came up.
func (c *Core) started(now time.Time, ev ChildStarted) {
	k := c.current(ev.ID, ev.Incarnation)
	if k == nil || k.phase != Starting {
		return
	}
	k.phase, k.deadline, k.upSince = Up, time.Time{}, now
	k.asked, k.added = false, false
}

// ticked handles every deadline that has passed, in the order in which they fell due.
func (c *Core) ticked(now time.Time) {
	for !c.exited {
		k := c.earliest()
		if k == nil || k.deadline.After(now) {
			return
		}
		c.overdue(now, k)
		c.reconcile(now)
	}
}

func (c *Core) overdue(now time.Time, k *child) {
	reason := ErrKilled
	switch k.phase {
	case Waiting:
		k.setDown()
		return
	case Starting:
		reason = ErrStartTimeout
	}
	doing := k.phase.String()
	c.emit(KillChild{k.spec.ID, k.incarnation}, Abandoned{k.spec.ID, k.incarnation, doing})
	c.ended(now, k, reason)
}

// ended handles the end of an incarnation, whichever way it came about: an exit, a failed start, or being abandoned.
func (c *Core) ended(now time.Time, k *child, reason error) {
	expected := c.exiting != nil || !k.want || k.recycle
	stayed := k.phase == Up && now.Sub(k.upSince) >= c.options.Intensity.Period
	k.setDown()
	k.lastExit = reason
	switch {
	case k.recycle:
		c.recycled(k)
	case expected:
	case k.asked:
		c.answered(k)
	case k.spec.Restart == Temporary, k.spec.Restart == Transient && IsNormal(reason):
		k.want = false
		c.autoShutdown(k)
	default:
		if stayed {
			k.row = 0
		}
		c.failed(now, k, reason)
	}
}

// recycled: a child that ends by itself while it is due for recycling ends as part of that restart.
func (c *Core) recycled(k *child) {
	k.recycle = false
	if k.spec.Restart == Temporary {
		k.want = false
	}
	if k.want && c.exiting == nil {
		k.restarts++
	}
}

// answered: a start that was asked for at run time failed. Whoever asked learns it; nothing is tried again.
func (c *Core) answered(k *child) {
	k.want, k.asked = false, false
	k.forget = k.forget || k.added
}

// failed handles a failure that asks for a restart.
func (c *Core) failed(now time.Time, k *child, reason error) {
	if !c.allow(now) {
		c.exit(&IntensityError{Child: k.spec.ID, Reason: reason, Intensity: c.options.Intensity})
		return
	}
	k.row++
	k.restarts++
	wait := c.backoff(k.row)
	if wait > 0 {
		k.phase, k.deadline = Waiting, now.Add(wait)
	}
	c.emit(Restarting{ID: k.spec.ID, Incarnation: k.incarnation, Reason: reason, Row: k.row, Waiting: wait})
	c.recycle(k)
}

// allow notes a restart and says whether the intensity has room for it.
func (c *Core) allow(now time.Time) bool {
	kept := c.history[:0]
	for _, t := range c.history {
		if now.Sub(t) < c.options.Intensity.Period {
			kept = append(kept, t)
		}
	}
	c.history = append(kept, now)
	return len(c.history) <= c.options.Intensity.MaxRestarts
}

func (c *Core) backoff(row int) time.Duration {
	if c.options.Backoff == nil {
		return 0
	}
	return c.options.Backoff(row)
}

// recycle marks those that the strategy restarts together with a failed child.
func (c *Core) recycle(failed *child) {
	younger := false
	for _, k := range c.children {
		if k == failed {
			younger = true
			continue
		}
		together := c.options.Strategy == OneForAll || c.options.Strategy == RestForOne && younger
		if together && k.want && (k.phase == Starting || k.phase == Up) {
			k.recycle = true
		}
	}
}

// autoShutdown ends the supervisor when the significant child that ended for good calls for it.
func (c *Core) autoShutdown(ended *child) {
	if !ended.spec.Significant {
		return
	}
	switch c.options.AutoShutdown {
	case AnySignificant:
		c.exit(ErrShutdown)
	case AllSignificant:
		for _, k := range c.children {
			if k.spec.Significant && k.want {
				return
			}
		}
		c.exit(ErrShutdown)
	}
}
