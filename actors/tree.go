package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// Names of the children. Guests go by their own names.
const (
	rootID     = "relay"
	boardID    = "board"
	machinesID = "machines"
	sessionsID = "sessions"
	gatewayID  = "gateway"
	sessionID  = "session"
	deskID     = "desk"
	guestsID   = "guests"
	laneID     = "lane"
	leaseID    = "lease"
)

// Times of the workers. None of them does anything in its Init or at its stop that could take longer.
const (
	workerStart = 5 * time.Second
	workerStop  = time.Second
)

// bearable is how often the parts of a subtree may fail before the subtree gives up.
var bearable = supervisor.Intensity{MaxRestarts: 5, Period: time.Minute}

// The whole tree:
//
//	relay (one_for_one)
//	├─ board
//	├─ machines
//	├─ sessions (simple_one_for_one, temporary)
//	│  └─ session (one_for_one)
//	│     ├─ guests (simple_one_for_one, temporary)
//	│     │  └─ <guest> (one_for_one)
//	│     │     ├─ lane
//	│     │     └─ lease
//	│     └─ desk
//	└─ gateway
//
// The owner locks are in the session's roster, which outlives every actor below the session.

// rootTree is everything.
func rootTree(p *sessionParts, over func(reason error)) Behaviour {
	return told{over: over, Behaviour: NewSupervisor(options(),
		workerChild(boardID, func() Behaviour { return &board{p} }),
		workerChild(machinesID, func() Behaviour { return &machines{session: p} }),
		treeChild(sessionsID, supervisor.Permanent, func() Behaviour { return sessionsTree(p, over) }),
		workerChild(gatewayID, func() Behaviour { return &gateway{session: p} }),
	)}
}

// sessionsTree begins with the one session of this process.
func sessionsTree(p *sessionParts, over func(reason error)) Behaviour {
	return NewSupervisor(supervisor.Options{Strategy: supervisor.SimpleOneForOne},
		treeChild(sessionID, supervisor.Temporary, func() Behaviour { return sessionTree(p, over) }),
	)
}

// sessionTree is one session. Its guests come before what decides about them, and outlive it when it restarts.
func sessionTree(p *sessionParts, over func(reason error)) Behaviour {
	return told{over: over, Behaviour: NewSupervisor(options(),
		treeChild(guestsID, supervisor.Permanent, func() Behaviour {
			return NewDynamicSupervisor(supervisor.Options{}, treeChild("guest", supervisor.Temporary, nil).Spec)
		}),
		workerChild(deskID, func() Behaviour { return newSession(p) }),
	)}
}

// guestTree is what works for one guest. The place of the downloads is behind the lease.
func guestTree(p *sessionParts, name string) Child {
	return treeChild(name, supervisor.Temporary, func() Behaviour {
		return NewSupervisor(options(),
			workerChild(laneID, func() Behaviour { return newLane(p, name) }),
			workerChild(leaseID, func() Behaviour { return newLease(p, name) }),
		)
	})
}

func options() supervisor.Options {
	return supervisor.Options{
		Strategy: supervisor.OneForOne, Intensity: bearable, Backoff: supervisor.Exponential(10*time.Millisecond, time.Second),
	}
}

func workerChild(id string, make func() Behaviour) Child {
	return Child{Spec: supervisor.ChildSpec{ID: id, Restart: supervisor.Permanent, Start: workerStart, Shutdown: workerStop}, New: make}
}

func treeChild(id string, restart supervisor.Restart, make func() Behaviour) Child {
	return Child{
		Spec: supervisor.ChildSpec{
			ID: id, Restart: restart, Start: supervisor.Infinity, Shutdown: supervisor.Infinity, Type: supervisor.TypeSupervisor,
		},
		New: make,
	}
}

// told is a behaviour whose end somebody outside of the tree wants to know of.
type told struct {
	Behaviour
	over func(reason error)
}

func (t told) Terminate(c *Ctx, reason error) error {
	t.over(reason)
	return t.Behaviour.Terminate(c, reason)
}

// childOf finds the incarnation of a child that lives now.
func childOf(ctx context.Context, of Ref, id string) (Ref, error) {
	children, err := WhichChildren(ctx, of)
	if err != nil {
		return Ref{}, err
	}
	for _, child := range children {
		if child.Spec.ID == id && child.Ref.Alive() {
			return child.Ref, nil
		}
	}
	return Ref{}, fmt.Errorf("cannot find child %q of %s: %w", id, of.Path(), supervisor.ErrUnknown)
}
