package proptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/commands"
	"github.com/leanovate/gopter/gen"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/actors/actorstest"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// Layer B of the supervisor: the real engine, in a bubble, against a model of what is to be seen whenever all is quiet.
func TestSupervisedTree(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.OneForAll, supervisor.RestForOne, supervisor.SimpleOneForOne} {
		t.Run(strategy.String(), func(t *testing.T) {
			inner := commands.Prop(treeSuite(t, strategy))
			check(t, 1000, 40, func(g *gopter.GenParameters) (result *gopter.PropResult) {
				synctest.Test(t, func(*testing.T) { result = inner(g) })
				return result
			})
		})
	}
}

// model is what a user of a supervisor expects to see.
type model struct {
	options  supervisor.Options
	children []modelChild
	now      time.Duration
	history  []time.Duration
	added    int
	exit     error
	answer   error // that the last request gets
}

type modelChild struct {
	id      string
	restart supervisor.Restart
	starts  int
	up      bool
}

func (m *model) String() string {
	return fmt.Sprintf("{%v %d/%v %+v exit=%v}", m.options.Strategy, m.options.Intensity.MaxRestarts, m.options.Intensity.Period, m.children, m.exit)
}

func (m *model) clone() *model {
	n := *m
	n.children, n.history = slices.Clone(m.children), slices.Clone(m.history)
	return &n
}

func (m *model) simple() bool { return m.options.Strategy == supervisor.SimpleOneForOne }

// at finds the child that k stands for; nil for nobody.
func (m *model) at(k int) *modelChild {
	if len(m.children) == 0 {
		return nil
	}
	return &m.children[k%len(m.children)]
}

// drop forgets those of whom a supervisor keeps nothing.
func (m *model) drop() {
	m.children = slices.DeleteFunc(m.children, func(c modelChild) bool {
		return !c.up && (c.restart == supervisor.Temporary || m.simple())
	})
}

func (m *model) ends(k int, normal bool) {
	failed := m.at(k)
	if m.exit != nil || failed == nil || !failed.up {
		return
	}
	defer m.drop()
	failed.up = false
	if failed.restart == supervisor.Temporary || failed.restart == supervisor.Transient && normal {
		return
	}
	recent := 1
	for _, at := range m.history {
		if m.now-at < m.options.Intensity.Period {
			recent++
		}
	}
	m.history = append(m.history, m.now)
	if recent > m.options.Intensity.MaxRestarts {
		m.stop(supervisor.ErrIntensity)
		return
	}
	younger := false
	for i := range m.children {
		c := &m.children[i]
		switch {
		case c == failed:
			younger, c.up = true, true
			c.starts++
		case c.up && (m.options.Strategy == supervisor.OneForAll || m.options.Strategy == supervisor.RestForOne && younger):
			c.up = c.restart != supervisor.Temporary
			if c.up {
				c.starts++
			}
		}
	}
}

func (m *model) stop(reason error) {
	if m.exit != nil {
		return
	}
	m.exit = reason
	for i := range m.children {
		m.children[i].up = false
	}
}

// rig is the real thing.
type rig struct {
	bench    *actorstest.Bench
	strategy supervisor.Strategy
	root     actors.Ref
	over     <-chan error
	exit     error
	answer   error
	added    int

	mu     sync.Mutex
	starts map[string]int
	ended  []actors.Ref // incarnations that were up once
}

// seen is what is seen once all is quiet.
type seen struct {
	up      []string
	starts  map[string]int
	exit    error
	answer  error
	problem string
}

func (r *rig) make(id string, restart supervisor.Restart) actors.Child {
	spec := supervisor.ChildSpec{ID: id, Restart: restart, Start: time.Second, Shutdown: time.Second}
	return actors.Child{Spec: spec, New: func() actors.Behaviour {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.starts[id]++
		return &actorstest.Probe{Name: id}
	}}
}

// children asks for them; nobody if the supervisor has ended.
func (r *rig) children() []actors.ChildInfo {
	children, err := actors.WhichChildren(context.Background(), r.root)
	if err != nil && !errors.Is(err, actors.ErrDown) {
		panic(err)
	}
	return children
}

func (r *rig) tell(k int, msg any) {
	if children := r.children(); len(children) > 0 {
		children[k%len(children)].Ref.Tell(msg)
	}
}

func (r *rig) look() seen {
	synctest.Wait()
	began := time.Now()
	s := seen{answer: r.answer}
	select {
	case r.exit = <-r.over:
	default:
	}
	s.exit = r.exit
	living := 1
	if r.exit != nil {
		living = 0
	}
	for _, child := range r.children() {
		if child.State == "up" {
			s.up = append(s.up, child.Spec.ID)
			living++
			s.problem += r.askOne(child)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.starts = maps.Clone(r.starts)
	for _, ref := range r.ended {
		if _, err := askName(ref); !errors.Is(err, actors.ErrDown) && !ref.Alive() { // A2
			s.problem += fmt.Sprintf("; asking an ended %v: %v", ref, err)
		}
	}
	if got := r.bench.Engine.Living(); got != living {
		s.problem += fmt.Sprintf("; %d actors live, want %d", got, living)
	}
	if took := time.Since(began); took != 0 { // I13, A2
		s.problem += fmt.Sprintf("; looking took %v of virtual time", took)
	}
	return s
}

// askOne has a child that is up answer with its name (A5), and keeps it to be asked when it has ended.
func (r *rig) askOne(child actors.ChildInfo) string {
	r.mu.Lock()
	if !slices.Contains(r.ended, child.Ref) {
		r.ended = append(r.ended, child.Ref)
	}
	r.mu.Unlock()
	if name, err := askName(child.Ref); name != child.Spec.ID || err != nil {
		return fmt.Sprintf("; %s answers %q, %v", child.Spec.ID, name, err)
	}
	return ""
}

func askName(ref actors.Ref) (string, error) {
	return actors.Ask(context.Background(), ref, func(reply actors.Reply[string]) any { return actorstest.Echo{Reply: reply} })
}

// act is a command: what it does to the model and to the rig.
type act struct {
	name   string
	weight int
	k      int
	next   func(m *model, k int)
	run    func(r *rig, k int)
}

func (a act) String() string                   { return fmt.Sprintf("%s(%d)", a.name, a.k) }
func (a act) PreCondition(commands.State) bool { return true }

func (a act) Run(system commands.SystemUnderTest) commands.Result {
	r := system.(*rig)
	r.answer = nil
	a.run(r, a.k)
	return r.look()
}

func (a act) NextState(state commands.State) commands.State {
	m := state.(*model).clone()
	m.answer = nil
	a.next(m, a.k)
	return m
}

func (a act) PostCondition(state commands.State, result commands.Result) *gopter.PropResult {
	m, s := state.(*model), result.(seen)
	var up []string
	for _, c := range m.children {
		if c.up {
			up = append(up, c.id)
		}
		if s.starts[c.id] != c.starts {
			s.problem += fmt.Sprintf("; %s started %d times, want %d", c.id, s.starts[c.id], c.starts)
		}
	}
	if !slices.Equal(s.up, up) {
		s.problem += fmt.Sprintf("; up are %v, want %v", s.up, up)
	}
	if !errors.Is(s.exit, m.exit) {
		s.problem += fmt.Sprintf("; exit = %v, want %v", s.exit, m.exit)
	}
	if !errors.Is(s.answer, m.answer) {
		s.problem += fmt.Sprintf("; answer = %v, want %v", s.answer, m.answer)
	}
	return verdict(strings.TrimPrefix(s.problem, "; "))
}

func treeSuite(t *testing.T, strategy supervisor.Strategy) commands.Commands {
	var choices []gen.WeightedGen
	for _, a := range acts {
		choices = append(choices, gen.WeightedGen{Weight: a.weight, Gen: gen.IntRange(0, 999).Map(func(k int) commands.Command {
			a := a
			a.k = k
			return a
		})})
	}
	return &commands.ProtoCommands{
		InitialStateGen:        gen.IntRange(0, 999).Map(func(n int) *model { return newModel(strategy, n) }),
		NewSystemUnderTestFunc: func(state commands.State) commands.SystemUnderTest { return newRig(t, state.(*model)) },
		DestroySystemUnderTestFunc: func(system commands.SystemUnderTest) {
			system.(*rig).bench.Close()
		},
		GenCommandFunc: func(commands.State) gopter.Gen { return gen.Weighted(choices) },
	}
}

func newModel(strategy supervisor.Strategy, n int) *model {
	m := &model{options: supervisor.Options{Strategy: strategy,
		Intensity: supervisor.Intensity{MaxRestarts: n % 5, Period: time.Duration(6+n%4) * time.Second}}}
	for i := range n / 5 % 5 {
		if m.simple() {
			break
		}
		m.children = append(m.children, modelChild{fmt.Sprintf("c%d", i), supervisor.Restart((n/7 + i) % 3), 1, true})
	}
	return m
}

func newRig(t *testing.T, m *model) *rig {
	r := &rig{bench: actorstest.New(t), strategy: m.options.Strategy, starts: map[string]int{}}
	root := actors.NewDynamicSupervisor(m.options, supervisor.ChildSpec{Restart: supervisor.Transient, Start: time.Second, Shutdown: time.Second})
	if !m.simple() {
		var children []actors.Child
		for _, c := range m.children {
			children = append(children, r.make(c.id, c.restart))
		}
		root = actors.NewSupervisor(m.options, children...)
	}
	r.root, r.over = r.bench.Start(root)
	return r
}
