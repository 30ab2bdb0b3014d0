package proptest

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/actors/actorstest"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// acts are what may happen to a tree.
var acts = []act{
	{name: "panic", weight: 3, next: func(m *model, k int) { m.ends(k, false) }, run: func(r *rig, k int) { r.tell(k, actorstest.Panic{Value: "boo"}) }},
	{name: "normal", weight: 3, next: func(m *model, k int) { m.ends(k, true) }, run: func(r *rig, k int) { r.tell(k, actorstest.End{Reason: actors.ErrNormal}) }},
	{name: "sleep", weight: 3, next: func(m *model, k int) { m.now += nap(k) }, run: func(_ *rig, k int) { time.Sleep(nap(k)) }},
	{name: "add", weight: 3, next: (*model).add, run: (*rig).add},
	{name: "goexit", weight: 2, next: func(m *model, k int) { m.ends(k, false) }, run: func(r *rig, k int) { r.tell(k, actorstest.Goexit{}) }},
	{name: "terminate", weight: 2, next: (*model).terminate, run: func(r *rig, k int) {
		r.ask(k, func(id string) error { return actors.TerminateChild(context.Background(), r.root, id) })
	}},
	{name: "restart", weight: 2, next: (*model).again, run: func(r *rig, k int) {
		r.ask(k, func(id string) error {
			_, err := actors.RestartChild(context.Background(), r.root, id)
			return err
		})
	}},
	{name: "remove", weight: 1, next: (*model).remove, run: func(r *rig, k int) {
		r.ask(k, func(id string) error { return actors.RemoveChild(context.Background(), r.root, id) })
	}},
	{name: "stop", weight: 1, next: func(m *model, k int) {
		if k%8 == 0 {
			m.stop(supervisor.ErrShutdown)
		}
	}, run: func(r *rig, k int) {
		if k%8 == 0 {
			r.root.Tell(actors.Stop{})
		}
	}},
}

func nap(k int) time.Duration { return time.Duration(k%50) * 100 * time.Millisecond }

// ask asks about the child that k stands for.
func (r *rig) ask(k int, do func(id string) error) {
	if children := r.children(); len(children) > 0 {
		r.answer = do(children[k%len(children)].Spec.ID)
	}
}

func (m *model) add(k int) {
	m.added++
	if m.exit != nil {
		m.answer = actors.ErrDown
		return
	}
	if taken := m.at(k); k%6 == 0 && taken != nil {
		m.answer = supervisor.ErrExists
		return
	}
	c := modelChild{fmt.Sprintf("x%d", m.added), supervisor.Restart(k % 3), 1, true}
	if m.simple() {
		c.restart = supervisor.Transient // the template's
	}
	m.children = append(m.children, c)
}

func (r *rig) add(k int) {
	r.added++
	id := fmt.Sprintf("x%d", r.added)
	if children := r.children(); k%6 == 0 && len(children) > 0 {
		id = children[k%len(children)].Spec.ID
	}
	_, r.answer = actors.AddChild(context.Background(), r.root, r.make(id, supervisor.Restart(k%3)))
}

func (m *model) terminate(k int) {
	if c := m.at(k); m.exit == nil && c != nil {
		c.up = false
		m.drop()
	}
}

func (m *model) remove(k int) {
	if m.exit == nil && len(m.children) > 0 {
		i := k % len(m.children)
		m.children = append(m.children[:i:i], m.children[i+1:]...)
	}
}

func (m *model) again(k int) {
	c := m.at(k)
	switch {
	case m.exit != nil || c == nil:
	case c.up:
		m.answer = supervisor.ErrRunning
	default:
		c.up = true
		c.starts++
	}
}
