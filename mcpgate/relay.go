package mcpgate

import (
	"context"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// Relay is what the gateway needs from whoever does the work. Inputs are valid by their schema; everything else is the
// relay's to check. An error is told to the model by errors.go; a tool that failed in its own terms answers a Result with
// Failed set. Methods may be called side by side; ctx ends when the client cancels or goes.
type Relay interface {
	Search(ctx context.Context, in guest.SearchInput) (guest.Result, error)
	Probe(ctx context.Context, in guest.ProbeInput) (guest.Result, error)
	Acquire(ctx context.Context, in guest.AcquireInput) (guest.Result, error)
	Stage(ctx context.Context, in guest.StageInput) (guest.Result, error)
	Script(ctx context.Context, in guest.Script) (guest.Result, error)
	Image(ctx context.Context, in guest.ImageInput) (guest.Result, error)
	Extract(ctx context.Context, in guest.ExtractInput) (guest.Result, error)
	Finish(ctx context.Context, in guest.NamedInput) (guest.Result, error)
	Release(ctx context.Context, in guest.NamedInput) (guest.Result, error)
	// Status never waits for a guest, a lock or the backend.
	Status(ctx context.Context) (guest.Result, error)
}
