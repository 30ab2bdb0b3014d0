package actors

import (
	"context"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// Host is the guest library as the cast uses it: what one session identity can do. Its methods may be called side by side.
type Host interface {
	Records() ([]guest.Stored, error)
	NextName(task string) (string, error)
	Search(ctx context.Context, in guest.SearchInput) (guest.Result, error)
	ProbeHost(ctx context.Context, held []any) (guest.Result, error)
	Create(ctx context.Context, name string, in guest.AcquireInput) (Held, error)
	Open(ctx context.Context, name string) (Held, error)
}

// Held is a guest whose owner lock this process has. One operation at a time; Beat, Lease, SetActive, Note, Status, HasTarget and
// Gone may come beside it.
type Held interface {
	Acquire(ctx context.Context) (guest.Result, error)
	Reconcile(ctx context.Context) error
	Probe(ctx context.Context) (guest.Result, error)
	Stage(ctx context.Context, in guest.StageInput) (guest.Result, error)
	Script(ctx context.Context, in guest.Script) (guest.Result, error)
	Image(ctx context.Context, in guest.ImageInput) (guest.Result, error)
	Extract(ctx context.Context, in guest.ExtractInput) (guest.Result, error)
	Finish(ctx context.Context) (guest.Result, error)
	Release(ctx context.Context) (guest.Result, error)

	Beat(ctx context.Context, ttl time.Duration) (time.Time, error)
	Lease() guest.LeaseView
	SetActive(active bool, reason string) error
	Note(kind, because string, details map[string]any) error
	Status() guest.Status
	HasTarget(target guest.ImageTarget) bool
	Gone() bool
	Close() error
}

var _ Held = (*guest.Guest)(nil)

// library makes a Host of the guest library.
type library struct{ *guest.Session }

func (l library) Create(ctx context.Context, name string, in guest.AcquireInput) (Held, error) {
	return held(l.Session.Create(ctx, name, in))
}

func (l library) Open(ctx context.Context, name string) (Held, error) {
	return held(l.Session.Open(ctx, name))
}

// held keeps a nil guest from becoming an interface that is not nil.
func held(g *guest.Guest, err error) (Held, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}
