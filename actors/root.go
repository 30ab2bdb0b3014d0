package actors

import (
	"context"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// StartRoot makes an actor without a supervisor, most often the supervisor of everything. The channel yields its exit reason, once, after
// everything below it has ended or been abandoned. When ctx ends the root is asked to stop with ErrShutdown; how long that may take
// is up to it.
//
// The values of ctx, but not its end, are seen by every actor below.
func StartRoot(ctx context.Context, engine *Engine, id string, root Behaviour) (Ref, <-chan error) {
	over := make(chan error, 1)
	ref := engine.spawn(context.WithoutCancel(ctx), nil, supervisor.ChildSpec{ID: id}, func() Behaviour { return root }, rootReport{over})
	unhook := context.AfterFunc(ctx, func() { ref.Tell(Stop{ErrShutdown}) })
	context.AfterFunc(ref.life.ctx, func() { unhook() })
	return ref, over
}

// rootReport hands out the reason of a root.
type rootReport struct{ over chan<- error }

func (rootReport) up(Ref)                     {}
func (r rootReport) down(_ Ref, reason error) { r.over <- reason }
