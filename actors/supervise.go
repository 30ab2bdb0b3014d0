package actors

import (
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// Child is a child of a supervisor: what is promised about it, and how to make one incarnation. New must only allocate; it is called on the
// child's own goroutine.
type Child struct {
	Spec supervisor.ChildSpec
	New  func() Behaviour
}

// Supervisor is a behaviour that keeps others running. It never waits: every wait is a state and a timer.
type Supervisor struct {
	options  supervisor.Options
	template *supervisor.ChildSpec // of the children of a dynamic supervisor
	initial  []Child

	c       *Ctx
	shell   *supervisor.Shell
	makers  map[string]func() Behaviour
	living  map[string]Ref // of the current incarnations
	waiting []waiter
}

// NewSupervisor makes the behaviour of a supervisor whose children start in this order. A description that is not valid fails its start,
// with joined *supervisor.SpecErrors. Its own spec needs a Start and a Shutdown that leave its children theirs; see supervisor.StartBound and
// supervisor.StopBound.
func NewSupervisor(options supervisor.Options, children ...Child) *Supervisor {
	return &Supervisor{options: options, initial: children}
}

// NewDynamicSupervisor makes the behaviour of a simple_one_for_one supervisor, which begins without children. Those added later have
// the template's spec, with an id of their own. The strategy in the options is not looked at.
func NewDynamicSupervisor(options supervisor.Options, template supervisor.ChildSpec) *Supervisor {
	options.Strategy = supervisor.SimpleOneForOne
	return &Supervisor{options: options, template: &template}
}

// Messages from the children.
type (
	childUp struct {
		id          string
		incarnation uint64
	}
	childDown struct {
		id          string
		incarnation uint64
		reason      error
	}
	wake struct{}
)

// Init starts the children. The supervisor is up when the last of them is.
func (s *Supervisor) Init(c *Ctx) error {
	s.c = c
	s.makers, s.living = map[string]func() Behaviour{}, map[string]Ref{}
	var specs []supervisor.ChildSpec
	for _, child := range s.initial {
		specs = append(specs, child.Spec)
		s.makers[child.Spec.ID] = child.New
	}
	shell, err := supervisor.NewShell(c.Self().Path(), s.options, specs, runtime{s}, c.cell.life.engine.emit)
	if err != nil {
		return err
	}
	if err := s.leaveTime(c.cell.spec, specs); err != nil {
		return err
	}
	s.shell = shell
	c.cell.late = true
	return s.after(s.shell.Begin(time.Now()))
}

// leaveTime says whether the supervisor's own spec leaves its children the time that theirs promise.
func (s *Supervisor) leaveTime(own supervisor.ChildSpec, children []supervisor.ChildSpec) error {
	if own.Start == 0 { // a root
		return nil
	}
	if s.template != nil {
		children = []supervisor.ChildSpec{*s.template}
	}
	if bound := supervisor.StartBound(s.options, children); s.template == nil && own.Start < bound {
		return &supervisor.SpecError{Child: own.ID, Why: fmt.Sprintf("Start is below the %v that its children may take", bound)}
	}
	if bound := supervisor.StopBound(s.options, children); own.Shutdown != supervisor.BrutalKill && own.Shutdown < bound {
		return &supervisor.SpecError{Child: own.ID, Why: fmt.Sprintf("Shutdown is below the %v that its children may take", bound)}
	}
	return nil
}

// Handle turns a message into a fact.
func (s *Supervisor) Handle(_ *Ctx, msg any) error {
	now := time.Now()
	switch m := msg.(type) {
	case childUp:
		return s.after(s.shell.Up(now, m.id, m.incarnation))
	case childDown:
		return s.after(s.shell.Down(now, m.id, m.incarnation, m.reason))
	case wake:
		return s.after(s.shell.Tick(now))
	case Stop:
		return s.after(s.shell.Stop(now, m.Err()))
	case Forward:
		s.forward(m)
	case whichAsked:
		m.Send(s.infos())
	case addAsked:
		return s.add(now, m)
	case childAsked:
		return s.change(now, m)
	}
	return nil
}

// Terminate has nothing to do: nobody lives. If the supervisor itself failed, its children end with its context.
func (s *Supervisor) Terminate(*Ctx, error) error { return nil }

// after follows every fact.
func (s *Supervisor) after(exit error) error {
	s.answer()
	s.tidy()
	s.c.cell.life.publish(s.infos())
	return exit
}

// tidy lets go of children that are forgotten.
func (s *Supervisor) tidy() {
	for id := range s.makers {
		if _, ok := s.shell.Child(id); !ok {
			delete(s.makers, id)
			delete(s.living, id)
		}
	}
}

// runtime carries out the orders of the shell.
type runtime struct{ s *Supervisor }

func (r runtime) StartChild(id string, incarnation uint64) {
	own := r.s.c.cell
	view, _ := r.s.shell.Child(id)
	r.s.living[id] = own.life.engine.spawn(r.s.c, own.life, view.Spec, r.s.makers[id], childReport{own.life, id, incarnation})
}

func (r runtime) StopChild(id string, _ uint64, reason error) { r.s.living[id].Tell(Stop{reason}) }

func (r runtime) KillChild(id string, _ uint64) {
	r.s.living[id].life.abandon()
	delete(r.s.living, id)
}

func (r runtime) Wake(after time.Duration) { r.s.c.After(wake{}, after, wake{}) }

func (r runtime) Rest() { r.s.c.Cancel(wake{}) }

func (r runtime) Ready() { r.s.c.cell.ready() }

// childReport tells the supervisor what becomes of one incarnation.
type childReport struct {
	to          *life
	id          string
	incarnation uint64
}

func (r childReport) up(Ref)                   { r.to.tell(childUp{r.id, r.incarnation}) }
func (r childReport) down(_ Ref, reason error) { r.to.tell(childDown{r.id, r.incarnation, reason}) }

func (childUp) signal()   {}
func (childDown) signal() {}
