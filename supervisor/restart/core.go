package restart

import (
	"slices"
	"time"
)

// Core is the state of one supervisor. It is not safe for use by several goroutines.
type Core struct {
	options      Options
	children     []*child // in the order of starting
	incarnations uint64
	history      []time.Time // of restarts, within the period
	began        bool
	ready        bool
	exiting      error
	exited       bool
	effects      []Effect
}

// New makes the core of a supervisor that does nothing until it is told that it Began. The error joins *SpecErrors.
func New(options Options, specs ...ChildSpec) (*Core, error) {
	if err := Validate(options, specs); err != nil {
		return nil, err
	}
	c := &Core{options: options}
	for _, spec := range specs {
		c.children = append(c.children, &child{spec: spec, want: true})
	}
	return c, nil
}

// Step takes in an event and answers what is to be done about it. After Exit it answers nothing.
func (c *Core) Step(now time.Time, event Event) []Effect {
	if c.exited {
		return nil
	}
	c.effects = nil
	switch ev := event.(type) {
	case Began:
		c.began = true
	case ChildStarted:
		c.started(now, ev)
	case ChildExited:
		if k := c.current(ev.ID, ev.Incarnation); k != nil {
			c.ended(now, k, ev.Reason)
		}
	case Ticked:
		c.ticked(now)
	case StopAsked:
		c.exit(ev.Reason)
	case AddAsked:
		c.add(ev.Spec)
	case TerminateAsked:
		c.terminate(ev.ID, false)
	case RemoveAsked:
		c.terminate(ev.ID, true)
	case RestartAsked:
		c.restart(ev.ID)
	}
	c.reconcile(now)
	return c.effects
}

// Next is when the core wants to be told that time has passed.
func (c *Core) Next() (at time.Time, ok bool) {
	if k := c.earliest(); k != nil {
		return k.deadline, true
	}
	return time.Time{}, false
}

// View tells about every child, in the order of starting.
func (c *Core) View() []ChildView {
	views := make([]ChildView, 0, len(c.children))
	for _, k := range c.children {
		views = append(views, k.view())
	}
	return views
}

// Child tells about one child.
func (c *Core) Child(id string) (view ChildView, ok bool) {
	if k := c.find(id); k != nil {
		return k.view(), true
	}
	return ChildView{}, false
}

// Ending says whether the supervisor is on its way out, and why.
func (c *Core) Ending() error { return c.exiting }

func (c *Core) emit(effects ...Effect) { c.effects = append(c.effects, effects...) }

func (c *Core) find(id string) *child {
	for _, k := range c.children {
		if k.spec.ID == id {
			return k
		}
	}
	return nil
}

// current finds the child of a living incarnation. What others report is stale.
func (c *Core) current(id string, incarnation uint64) *child {
	if k := c.find(id); k != nil && k.incarnation == incarnation && k.alive() {
		return k
	}
	return nil
}

func (c *Core) earliest() *child {
	var first *child
	for _, k := range c.children {
		if !k.deadline.IsZero() && (first == nil || k.deadline.Before(first.deadline)) {
			first = k
		}
	}
	return first
}

func (c *Core) drop(gone func(*child) bool) { c.children = slices.DeleteFunc(c.children, gone) }
