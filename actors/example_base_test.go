package actors_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// counter counts, and cannot stand the number 13.
type counter struct{ total int }

type (
	add   struct{ n int }
	total struct{ actors.Reply[int] }
)

func (c *counter) Init(*actors.Ctx) error { return nil }

func (c *counter) Handle(_ *actors.Ctx, msg any) error {
	switch m := msg.(type) {
	case add:
		if m.n == 13 {
			panic("13")
		}
		c.total += m.n
	case total:
		m.Send(c.total)
	case actors.Stop:
		return m.Err()
	}
	return nil
}

func (c *counter) Terminate(*actors.Ctx, error) error { return nil }

// A supervised worker that crashes, and comes back with a fresh state.
func Example() {
	engine, err := actors.NewEngine(actors.EngineOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	root, over := actors.StartRoot(context.Background(), engine, "root", actors.NewSupervisor(
		supervisor.Options{Strategy: supervisor.OneForOne, Intensity: supervisor.Intensity{MaxRestarts: 3, Period: time.Minute}},
		actors.Child{
			Spec: supervisor.ChildSpec{ID: "counter", Start: time.Second, Shutdown: time.Second},
			New:  func() actors.Behaviour { return &counter{} },
		}))
	ask := func() {
		n, err := actors.Ask(context.Background(), root, func(r actors.Reply[int]) any {
			return actors.Forward{Child: "counter", Message: total{r}}
		})
		fmt.Println("total:", n, err)
	}
	for _, n := range []int{1, 2} {
		root.Tell(actors.Forward{Child: "counter", Message: add{n}})
	}
	ask()
	children, err := actors.WhichChildren(context.Background(), root)
	if err != nil {
		fmt.Println(err)
		return
	}
	children[0].Ref.Tell(add{13})
	<-children[0].Ref.Done() // this incarnation; the next has another Ref
	ask()
	root.Tell(actors.Stop{})
	fmt.Println("over:", <-over)
	// Output:
	// total: 3 <nil>
	// total: 0 <nil>
	// over: shutdown
}
