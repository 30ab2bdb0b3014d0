package proptest

import (
	"fmt"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/commands"
	"github.com/leanovate/gopter/gen"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor/restart"
)

// Layer A of the supervisor: I1-I12 of the pure core, for each strategy.
func TestRestartCore(t *testing.T) {
	for _, strategy := range []restart.Strategy{restart.OneForOne, restart.OneForAll, restart.RestForOne, restart.SimpleOneForOne} {
		t.Run(strategy.String(), func(t *testing.T) { check(t, 1000, 60, commands.Prop(restartSuite(strategy))) })
	}
}

// move is a command: one of the moves, with its number.
type move struct {
	name string
	k    int
	run  func(w *world, k int) string
}

func (m move) Run(system commands.SystemUnderTest) commands.Result {
	w := system.(*world)
	if w.exited {
		return ""
	}
	return m.run(w, m.k)
}

func (m move) NextState(s commands.State) commands.State { return s }
func (m move) PreCondition(commands.State) bool          { return true }
func (m move) String() string                            { return fmt.Sprintf("%s(%d)", m.name, m.k) }

func (m move) PostCondition(_ commands.State, result commands.Result) *gopter.PropResult {
	return verdict(result.(string))
}

// verdict is the result of a property that names what was violated, or nothing.
func verdict(violation string) *gopter.PropResult {
	if violation != "" {
		return &gopter.PropResult{Status: gopter.PropFalse, Labels: []string{violation}}
	}
	return &gopter.PropResult{Status: gopter.PropTrue}
}

func restartSuite(strategy restart.Strategy) commands.Commands {
	var choices []gen.WeightedGen
	for _, m := range moves {
		choices = append(choices, gen.WeightedGen{Weight: m.weight, Gen: gen.IntRange(0, 9999).Map(func(k int) commands.Command { return move{m.name, k, m.run} })})
	}
	return &commands.ProtoCommands{
		InitialStateGen:        gen.IntRange(0, 9999),
		NewSystemUnderTestFunc: func(s commands.State) commands.SystemUnderTest { return begin(strategy, s.(int)) },
		GenCommandFunc:         func(commands.State) gopter.Gen { return gen.Weighted(choices) },
	}
}

// begin makes the world that a number stands for.
func begin(strategy restart.Strategy, n int) *world {
	options := restart.Options{
		Strategy:     strategy,
		Intensity:    restart.Intensity{MaxRestarts: n % 5, Period: time.Duration(20+n%7) * time.Second},
		AutoShutdown: restart.AutoShutdown(n / 3 % 3),
	}
	if n%2 == 0 {
		options.Backoff = func(n int) time.Duration { return time.Duration(100<<min(n, 4)) * time.Millisecond }
	}
	var specs []restart.ChildSpec
	if strategy != restart.SimpleOneForOne {
		for i := range n / 11 % 5 {
			specs = append(specs, randomSpec(options, fmt.Sprintf("c%d", i), n/5+7*i))
		}
	}
	w, err := newWorld(options, specs)
	if err != nil {
		panic(err) // the generator is wrong
	}
	if v := w.step(restart.Began{}); v != "" {
		panic(v)
	}
	return w
}

// randomSpec makes the spec that a number stands for.
func randomSpec(options restart.Options, id string, k int) restart.ChildSpec {
	spec := restart.ChildSpec{ID: id, Restart: restart.Restart(k % 3), Shutdown: time.Duration(1+k%4) * time.Second, Start: 2 * time.Second}
	switch k / 3 % 8 {
	case 0:
		spec.Shutdown = restart.BrutalKill
	case 1:
		spec.Shutdown = restart.Infinity
	}
	spec.Significant = options.AutoShutdown != restart.Never && spec.Restart != restart.Permanent && k/5%2 == 0
	return spec
}
