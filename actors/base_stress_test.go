package actors_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/actors/actorstest"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// Layer C: real time and hostile goroutines. Whatever they do, nothing is left: no actor, no goroutine, nothing on hollywood's books.
func TestNothingIsLeftOfCrashedActors(t *testing.T) {
	hostile, each, children := 8, 3000, 50
	if testing.Short() {
		each = 300
	}
	before := runtime.NumGoroutine()
	engine, err := actors.NewEngine(actors.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var specs []actors.Child
	for n := range children {
		specs = append(specs, actors.Child{
			Spec: supervisor.ChildSpec{ID: fmt.Sprint("c", n), Start: time.Minute, Shutdown: time.Minute},
			New:  func() actors.Behaviour { return &actorstest.Probe{} },
		})
	}
	root, over := actors.StartRoot(context.Background(), engine, "stress",
		actors.NewSupervisor(supervisor.Options{Intensity: supervisor.Intensity{MaxRestarts: 1 << 30, Period: time.Second}}, specs...))
	seen := &sync.Map{} // every incarnation that anybody got hold of
	var running sync.WaitGroup
	for n := range hostile {
		running.Go(func() { harass(t, root, rand.New(rand.NewPCG(uint64(n), 0)), each, children, seen) })
	}
	running.Wait()
	root.Tell(actors.Stop{})
	<-over
	if n := engine.Living(); n != 0 {
		t.Errorf("%d actors still live", n)
	}
	eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
	seen.Range(func(ref, _ any) bool {
		if actors.Registered(engine, ref.(actors.Ref)) {
			t.Errorf("%v is still on the books", ref)
		}
		return true
	})
}

// harass tells, asks, crashes and looks at children at random.
func harass(t *testing.T, root actors.Ref, random *rand.Rand, times, children int, seen *sync.Map) {
	for range times {
		child := fmt.Sprint("c", random.IntN(children))
		switch random.IntN(8) {
		case 0:
			root.Tell(actors.Forward{Child: child, Message: actorstest.Panic{Value: "boo"}})
		case 1:
			root.Tell(actors.Forward{Child: child, Message: actorstest.Goexit{}})
		case 2:
			root.Tell(actors.Forward{Child: child, Message: actorstest.End{Reason: errCrash}})
		case 3:
			infos, err := actors.WhichChildren(context.Background(), root)
			if err != nil {
				t.Error(err)
			}
			for _, info := range infos {
				if info.Ref != (actors.Ref{}) {
					seen.Store(info.Ref, true)
				}
			}
		case 4:
			actors.Inspect(root)
		default:
			_, _ = actors.Ask(context.Background(), root, func(r actors.Reply[string]) any {
				return actors.Forward{Child: child, Message: actorstest.Echo{Reply: r}}
			})
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}
