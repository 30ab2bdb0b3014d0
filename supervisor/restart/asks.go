package restart

// add takes in a further child.
func (c *Core) add(spec ChildSpec) {
	if c.exiting != nil {
		c.emit(Refused{spec.ID, ErrStopping})
		return
	}
	if c.find(spec.ID) != nil {
		c.emit(Refused{spec.ID, ErrExists})
		return
	}
	if err := spec.validate(c.options); err != nil {
		c.emit(Refused{spec.ID, err})
		return
	}
	c.children = append(c.children, &child{spec: spec, want: true, asked: true, added: true})
}

// terminate keeps a child from running, and drops it once it is down when forget is asked for or its kind calls for it.
func (c *Core) terminate(id string, forget bool) {
	k := c.find(id)
	switch {
	case c.exiting != nil:
		c.emit(Refused{id, ErrStopping})
	case k == nil:
		c.emit(Refused{id, ErrUnknown})
	default:
		k.unwant()
		k.forget = k.forget || forget
	}
}

// restart wants a child again that is down and unwanted.
func (c *Core) restart(id string) {
	k := c.find(id)
	switch {
	case c.exiting != nil:
		c.emit(Refused{id, ErrStopping})
	case k == nil:
		c.emit(Refused{id, ErrUnknown})
	case k.want || k.phase != Down:
		c.emit(Refused{id, ErrRunning})
	default:
		k.want, k.asked, k.row = true, true, 0
		k.restarts++
	}
}

// exit begins the end of the supervisor. The first reason stays.
func (c *Core) exit(reason error) {
	if c.exiting != nil {
		return
	}
	if reason == nil {
		reason = ErrShutdown
	}
	c.exiting = reason
	for _, k := range c.children {
		k.unwant()
	}
}
