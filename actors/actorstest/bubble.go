package actorstest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// Bench is an engine in a bubble.
type Bench struct {
	*testing.T
	Engine *actors.Engine

	mu     sync.Mutex
	events []supervisor.Event
	roots  []actors.Ref
}

// Run runs f in a bubble with an engine of its own. When f has returned, every root that it started is stopped and waited for, and the
// test fails if an actor still lives.
func Run(t *testing.T, f func(b *Bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := New(t)
		defer b.Close()
		f(b)
	})
}

// New makes a bench within a bubble that runs. Close ends it.
func New(t *testing.T) *Bench {
	b := &Bench{T: t}
	engine, err := actors.NewEngine(actors.EngineOptions{Emit: b.emit})
	if err != nil {
		t.Fatal(err)
	}
	b.Engine = engine
	return b
}

// Close stops every root and waits until all is quiet.
func (b *Bench) Close() {
	b.Helper()
	for _, root := range b.roots {
		root.Tell(actors.Stop{})
		<-root.Done()
	}
	synctest.Wait()
	if n := b.Engine.Living(); n != 0 {
		b.Errorf("%d actors still live", n)
	}
}

// Start makes a root and waits until all is quiet: as a rule until it is up.
func (b *Bench) Start(root actors.Behaviour) (actors.Ref, <-chan error) {
	ref, over := actors.StartRoot(context.Background(), b.Engine, "root", root)
	b.roots = append(b.roots, ref)
	synctest.Wait()
	return ref, over
}

// Tell tells a message and waits until all is quiet.
func (b *Bench) Tell(to actors.Ref, msg any) {
	to.Tell(msg)
	synctest.Wait()
}

// Child finds the living incarnation of a supervisor's child; the zero Ref when none lives.
func (b *Bench) Child(of actors.Ref, id string) actors.Ref {
	b.Helper()
	children, err := actors.WhichChildren(context.Background(), of)
	if err != nil {
		b.Fatalf("cannot ask %v for its children: %v", of, err)
	}
	for _, child := range children {
		if child.Spec.ID == id {
			return child.Ref
		}
	}
	return actors.Ref{}
}

// Events lists what was told about supervision so far.
func (b *Bench) Events() []supervisor.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]supervisor.Event(nil), b.events...)
}

func (b *Bench) emit(e supervisor.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}
