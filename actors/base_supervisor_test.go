package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/actors/actorstest"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

var often = supervisor.Intensity{MaxRestarts: 3, Period: time.Minute}

// probes makes children named by ids that write to one log; change may alter each.
func probes(log *actorstest.Log, ids string, change func(id string, spec *supervisor.ChildSpec, p *actorstest.Probe)) []actors.Child {
	var children []actors.Child
	for _, id := range strings.Fields(ids) {
		spec := supervisor.ChildSpec{ID: id, Start: 5 * time.Second, Shutdown: 5 * time.Second}
		if change != nil {
			change(id, &spec, &actorstest.Probe{})
		}
		children = append(children, actors.Child{Spec: spec, New: func() actors.Behaviour {
			p := &actorstest.Probe{Name: id, Log: log}
			if change != nil {
				change(id, &supervisor.ChildSpec{}, p)
			}
			return p
		}})
	}
	return children
}

// I2, I3
func TestChildrenStartInOrderAndStopInReverse(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.OneForAll, supervisor.RestForOne} {
		t.Run(strategy.String(), func(t *testing.T) {
			actorstest.Run(t, func(b *actorstest.Bench) {
				log := &actorstest.Log{}
				slow := func(id string, _ *supervisor.ChildSpec, p *actorstest.Probe) {
					p.StopTime = time.Second
					if id == "a" {
						p.InitTime = time.Second
					}
				}
				root, over := b.Start(actors.NewSupervisor(supervisor.Options{Strategy: strategy, Intensity: often}, probes(log, "a b c", slow)...))
				expect(b, log)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				expect(b, log, "a init", "b init", "c init")
				before := time.Now()
				root.Tell(actors.Stop{})
				if reason := <-over; !errors.Is(reason, actors.ErrShutdown) || time.Since(before) != 3*time.Second {
					b.Errorf("reason = %v after %v, want shutdown after 3s", reason, time.Since(before))
				}
				expect(b, log, "c stop", "c end: shutdown", "b stop", "b end: shutdown", "a stop", "a end: shutdown")
			})
		})
	}
}

// I4
func TestStrategyChoosesWhoIsRestarted(t *testing.T) {
	for _, tt := range []struct {
		strategy supervisor.Strategy
		want     []string
	}{
		{supervisor.OneForOne, []string{"b end: crash", "b init"}},
		{supervisor.OneForAll, []string{"b end: crash", "c stop", "c end: shutdown", "a stop", "a end: shutdown", "a init", "b init", "c init"}},
		{supervisor.RestForOne, []string{"b end: crash", "c stop", "c end: shutdown", "b init", "c init"}},
	} {
		t.Run(tt.strategy.String(), func(t *testing.T) {
			actorstest.Run(t, func(b *actorstest.Bench) {
				log := &actorstest.Log{}
				root, _ := b.Start(actors.NewSupervisor(supervisor.Options{Strategy: tt.strategy, Intensity: often}, probes(log, "a b c", nil)...))
				log.Take()
				b.Tell(root, actors.Forward{Child: "b", Message: actorstest.End{Reason: errCrash}})
				expect(b, log, tt.want...)
			})
		})
	}
}

// I6: one restart too many ends the supervisor, in order, and its own supervisor decides.
func TestTooManyRestartsEscalate(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		inner := actors.Child{
			Spec: supervisor.ChildSpec{ID: "inner", Start: time.Minute, Shutdown: supervisor.Infinity, Type: supervisor.TypeSupervisor},
			New: func() actors.Behaviour {
				return actors.NewSupervisor(supervisor.Options{Intensity: supervisor.Intensity{MaxRestarts: 1, Period: time.Minute}}, probes(log, "a b", nil)...)
			},
		}
		root, _ := b.Start(actors.NewSupervisor(supervisor.Options{Intensity: often}, inner))
		crash := func() {
			b.Tell(root, actors.Forward{Child: "inner", Message: actors.Forward{Child: "b", Message: actorstest.Panic{Value: "boo"}}})
		}
		log.Take()
		crash()
		expect(b, log, "b end: panic: boo", "b init")
		crash()
		expect(b, log, "b end: panic: boo", "a stop", "a end: shutdown", "a init", "b init")
		if !slices.ContainsFunc(b.Events(), func(e supervisor.Event) bool { return e.Name() == "supervisor.escalated" }) {
			b.Errorf("events = %v, want one of an escalation", b.Events())
		}
		tree := actors.Inspect(root)
		if tree.State != "up" || tree.Children[0].Restarts != 1 || !errors.Is(tree.Children[0].LastExit, supervisor.ErrIntensity) {
			b.Errorf("tree = %+v", tree)
		}
		if got := tree.Children[0].Children; len(got) != 2 || got[1].Path != "root/inner/b" || got[1].State != "up" {
			b.Errorf("children of inner = %+v", got)
		}
	})
}

// A nested supervisor is up when its children are: what comes after it starts after them.
func TestASupervisorIsUpWhenItsChildrenAre(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		inner := actors.Child{
			Spec: supervisor.ChildSpec{ID: "inner", Start: time.Minute, Shutdown: supervisor.Infinity, Type: supervisor.TypeSupervisor},
			New: func() actors.Behaviour {
				return actors.NewSupervisor(supervisor.Options{}, probes(log, "a", func(_ string, _ *supervisor.ChildSpec, p *actorstest.Probe) { p.InitTime = time.Second })...)
			},
		}
		b.Start(actors.NewSupervisor(supervisor.Options{}, append([]actors.Child{inner}, probes(log, "last", nil)...)...))
		expect(b, log)
		time.Sleep(time.Second)
		synctest.Wait()
		expect(b, log, "a init", "last init")
	})
}

// I8: a child that ignores its stop is abandoned on time, and what is left goes down in order.
func TestAChildThatIgnoresItsStopIsAbandonedOnTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		hang func(b *actorstest.Bench, root actors.Ref)
		p    actorstest.Probe
	}{
		{"ignoring", func(*actorstest.Bench, actors.Ref) {}, actorstest.Probe{Ignore: true}},
		{"stuck", func(b *actorstest.Bench, root actors.Ref) {
			b.Tell(root, actors.Forward{Child: "b", Message: actorstest.Block{For: time.Hour}})
		}, actorstest.Probe{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			actorstest.Run(t, func(b *actorstest.Bench) {
				log := &actorstest.Log{}
				root, over := b.Start(actors.NewSupervisor(supervisor.Options{Intensity: often},
					probes(log, "a b", func(id string, _ *supervisor.ChildSpec, p *actorstest.Probe) { p.Ignore = tt.p.Ignore && id == "b" })...))
				tt.hang(b, root)
				stuck := b.Child(root, "b")
				before := time.Now()
				root.Tell(actors.Stop{})
				<-over
				if took := time.Since(before); took != 5*time.Second {
					b.Errorf("stopping took %v, want the 5s of the child that hangs", took)
				}
				if tt.name == "stuck" && (b.Engine.Abandoned() != 1 || !stuck.Alive()) {
					b.Errorf("abandoned = %d, want 1", b.Engine.Abandoned())
				}
				<-stuck.Done() // it cleans up after itself when it wakes
				if !errors.Is(stuck.Err(), actors.ErrKilled) || b.Engine.Abandoned() != 0 {
					b.Errorf("it ended with %v, abandoned = %d", stuck.Err(), b.Engine.Abandoned())
				}
			})
		})
	}
}

func TestAnAbandonedChildCannotDisturbItsSuccessor(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		root, _ := b.Start(actors.NewSupervisor(supervisor.Options{Intensity: often}, probes(log, "a", nil)...))
		first := b.Child(root, "a")
		b.Tell(first, actorstest.Block{For: time.Hour})
		if err := actors.TerminateChild(context.Background(), root, "a"); err != nil {
			b.Fatal(err)
		}
		second, err := actors.RestartChild(context.Background(), root, "a")
		if err != nil || second == first {
			b.Fatalf("restarted as %v, %v", second, err)
		}
		log.Take()
		<-first.Done()
		synctest.Wait()
		expect(b, log, "a end: killed")
		if got := b.Child(root, "a"); got != second || !got.Alive() {
			b.Errorf("the successor is gone")
		}
	})
}

func TestAStartThatTakesTooLongIsTriedAgainAndThenGivenUp(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		_, over := b.Start(actors.NewSupervisor(supervisor.Options{Intensity: supervisor.Intensity{MaxRestarts: 2, Period: time.Minute}},
			probes(log, "a", func(_ string, _ *supervisor.ChildSpec, p *actorstest.Probe) { p.InitTime = time.Hour })...))
		before := time.Now()
		if reason := <-over; !errors.Is(reason, supervisor.ErrIntensity) || time.Since(before) != 15*time.Second {
			b.Errorf("reason = %v after %v, want the intensity after 3 starts of 5s", reason, time.Since(before))
		}
		time.Sleep(time.Hour)
	})
}

func TestBackoffBlocksNobody(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		options := supervisor.Options{Intensity: often, Backoff: supervisor.Exponential(time.Second, 10*time.Second)}
		root, _ := b.Start(actors.NewSupervisor(options, probes(log, "a b", nil)...))
		log.Take()
		b.Tell(root, actors.Forward{Child: "a", Message: actorstest.End{Reason: errCrash}})
		b.Tell(root, actors.Forward{Child: "b", Message: "still here"})
		before := time.Now()
		children, err := actors.WhichChildren(context.Background(), root)
		if err != nil || children[0].State != "waiting" || time.Since(before) != 0 { // I13
			b.Errorf("children = %+v, %v, after %v", children, err, time.Since(before))
		}
		expect(b, log, "a end: crash", "b got still here")
		time.Sleep(time.Second)
		synctest.Wait()
		expect(b, log, "a init")
	})
}

func TestDynamicChildrenComeGoAndStopAllAtOnce(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ctx := context.Background()
		log := &actorstest.Log{}
		template := supervisor.ChildSpec{Restart: supervisor.Temporary, Start: time.Second, Shutdown: 10 * time.Second}
		root, over := b.Start(actors.NewDynamicSupervisor(supervisor.Options{}, template))
		add := func(id string, p actorstest.Probe) (actors.Ref, error) {
			p.Name, p.Log = id, log
			return actors.AddChild(ctx, root, actors.Child{Spec: supervisor.ChildSpec{ID: id}, New: func() actors.Behaviour { return &p }})
		}
		for n := range 5 {
			if ref, err := add(fmt.Sprint("g", n), actorstest.Probe{StopTime: 3 * time.Second}); err != nil || ref.Path() != fmt.Sprint("root/g", n) {
				b.Fatalf("added %v, %v", ref, err)
			}
		}
		if _, err := add("g1", actorstest.Probe{}); !errors.Is(err, supervisor.ErrExists) {
			b.Errorf("a second g1: %v", err)
		}
		if _, err := add("bad", actorstest.Probe{InitError: errCrash}); !errors.Is(err, errCrash) {
			b.Errorf("a child that cannot start: %v", err)
		}
		if _, err := add("slow", actorstest.Probe{InitTime: time.Minute}); !errors.Is(err, supervisor.ErrStartTimeout) {
			b.Errorf("a child that starts too slowly: %v", err)
		}
		b.Tell(root, actors.Forward{Child: "g0", Message: actorstest.End{Reason: errCrash}})
		if err := actors.RemoveChild(ctx, root, "g1"); err != nil {
			b.Error(err)
		}
		if err := actors.RemoveChild(ctx, root, "g1"); !errors.Is(err, supervisor.ErrUnknown) {
			b.Errorf("removing what is gone: %v", err)
		}
		children, _ := actors.WhichChildren(ctx, root)
		if len(children) != 3 {
			b.Errorf("children = %+v, want g2 g3 g4", children)
		}
		before := time.Now()
		root.Tell(actors.Stop{})
		<-over
		if took := time.Since(before); took != 3*time.Second {
			b.Errorf("stopping took %v, want 3s for all at once", took)
		}
		if _, err := add("g9", actorstest.Probe{}); !errors.Is(err, actors.ErrDown) {
			b.Errorf("adding to what has ended: %v", err)
		}
		time.Sleep(time.Hour)
	})
}

func TestAddingToASupervisorThatStopsIsRefused(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		root, _ := b.Start(actors.NewSupervisor(supervisor.Options{}, probes(log, "a", func(_ string, _ *supervisor.ChildSpec, p *actorstest.Probe) { p.StopTime = time.Second })...))
		b.Tell(root, actors.Stop{})
		_, err := actors.AddChild(context.Background(), root, probes(log, "b", nil)[0])
		if !errors.Is(err, supervisor.ErrStopping) {
			b.Errorf("error = %v", err)
		}
	})
}

func TestTheDeathOfASupervisorEndsItsChildren(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		inner := actors.Child{
			Spec: supervisor.ChildSpec{ID: "inner", Start: time.Minute, Shutdown: supervisor.BrutalKill, Type: supervisor.TypeSupervisor},
			New:  func() actors.Behaviour { return actors.NewSupervisor(supervisor.Options{}, probes(log, "a b", nil)...) },
		}
		root, _ := b.Start(actors.NewSupervisor(supervisor.Options{}, inner))
		log.Take()
		if err := actors.TerminateChild(context.Background(), root, "inner"); err != nil {
			b.Error(err)
		}
		synctest.Wait()
		ends := log.Take()
		slices.Sort(ends)
		if want := []string{"a end: killed", "b end: killed"}; !slices.Equal(ends, want) {
			b.Errorf("log = %q, want %q", ends, want)
		}
	})
}

func TestADescriptionThatIsNotValidFailsTheStart(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		_, over := b.Start(actors.NewSupervisor(supervisor.Options{}, probes(log, "a a", nil)...))
		if spec := (*supervisor.SpecError)(nil); !errors.As(<-over, &spec) || spec.Child != "a" {
			b.Error("the supervisor did not end with a SpecError")
		}
	})
}

func TestASupervisorThatLeavesItsChildrenTooLittleTimeDoesNotStart(t *testing.T) {
	for _, tt := range []struct {
		name            string
		start, shutdown time.Duration
		want            string
	}{
		{"start", 9 * time.Second, supervisor.Infinity, "Start is below the 10s"},
		{"shutdown", supervisor.Infinity, 9 * time.Second, "Shutdown is below the 10s"},
		{"enough", 10 * time.Second, 10 * time.Second, ""},
		{"killed", 10 * time.Second, supervisor.BrutalKill, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			actorstest.Run(t, func(b *actorstest.Bench) {
				inner := actors.Child{
					Spec: supervisor.ChildSpec{ID: "inner", Start: tt.start, Shutdown: tt.shutdown, Restart: supervisor.Temporary},
					New: func() actors.Behaviour {
						return actors.NewSupervisor(supervisor.Options{}, probes(&actorstest.Log{}, "a b", nil)...)
					},
				}
				root, _ := b.Start(actors.NewSupervisor(supervisor.Options{}))
				_, err := actors.AddChild(context.Background(), root, inner)
				if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
					b.Errorf("error = %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// Tells of a goroutine through the supervisor keep their order, across the death of the child they are for.
func TestForwardKeepsOrderAndCountsWhatHasNoReceiver(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		root, _ := b.Start(actors.NewSupervisor(supervisor.Options{Intensity: often}, probes(log, "a", nil)...))
		log.Take()
		for n := range 3 {
			root.Tell(actors.Forward{Child: "a", Message: n})
		}
		var outcome []error
		b.Tell(root, actors.Forward{Child: "nobody", Message: failing{&outcome}})
		expect(b, log, "a got 0", "a got 1", "a got 2")
		if len(outcome) != 1 || b.Engine.DeadLetters() != 1 {
			b.Errorf("failed %d times, %d dead letters", len(outcome), b.Engine.DeadLetters())
		}
	})
}
