package service

import (
	"context"
	"errors"
	"sync"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// errReleased is why commands of a machine end early: its lease did.
var errReleased = errors.New("the lease ended")

// errStopping is why commands end early when the service itself does.
var errStopping = errors.New("machine-service is stopping")

// live is what this process knows of a machine beside its record.
type live struct {
	ctx     context.Context // ends with errReleased or errStopping
	preempt context.CancelCauseFunc

	commands  turns // exec: one at a time, in order
	transfers turns // push and pull: the same, beside a command

	tearing chan struct{} // token of the one teardown at work
	made    chan struct{} // closed when provisioning is over, however it went

	mu     sync.Mutex
	guest  driver.Guest // nil: not made, not adopted yet, or gone
	absent int          // consecutive reaper passes that saw it not running
}

func newLive(ctx context.Context) *live {
	l := &live{tearing: make(chan struct{}, 1), made: make(chan struct{})}
	l.ctx, l.preempt = context.WithCancelCause(ctx)
	return l
}

func (l *live) currentGuest() driver.Guest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guest
}

// knownGuest is the handle of a machine if this process has one.
func (s *Service) knownGuest(name string) driver.Guest {
	if l := s.live(name); l != nil {
		return l.currentGuest()
	}
	return nil
}

// setGuest keeps the first guest it is given; a second one is another handle of the same machine.
func (l *live) setGuest(g driver.Guest) driver.Guest {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guest == nil {
		l.guest = g
	}
	return l.guest
}

// sawRunning counts the passes that found the machine not running, and returns how many in a row there are now.
func (l *live) sawRunning(running bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if running {
		l.absent = 0
	} else {
		l.absent++
	}
	return l.absent
}

// live returns what is known of a machine; nil when it has just been forgotten. Every record has one before it can be seen.
func (s *Service) live(name string) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machines[name]
}

func (s *Service) remember(name string, l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines[name] = l
}

func (s *Service) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.machines, name)
}

// guest returns the handle of a machine, adopting it if no process of ours has asked since the service started.
func (s *Service) guest(ctx context.Context, name string, r record, l *live) (driver.Guest, error) {
	if g := l.currentGuest(); g != nil {
		return g, nil
	}
	g, err := s.cfg.Driver.Adopt(ctx, s.spec(name, r))
	if err != nil {
		return nil, err
	}
	return l.setGuest(g), nil
}

// running returns the handle of a machine that can take commands.
func (s *Service) running(name string) (driver.Guest, *live, error) {
	r, ok := s.store.get(name)
	if !ok {
		return nil, nil, unknownMachine(name)
	}
	if r.State != machine.StateRunning {
		return nil, nil, refuse(machine.CodeNotRunning, "%s is not running (state=%s)", name, r.State)
	}
	l := s.live(name)
	if l == nil {
		return nil, nil, unknownMachine(name)
	}
	ctx, cancel := context.WithTimeout(l.ctx, adoptLimit)
	defer cancel()
	g, err := s.guest(ctx, name, r, l)
	switch {
	case errors.Is(err, driver.ErrGone):
		return nil, nil, refuse(machine.CodeMachineGone, "%s is not running on the host", name)
	case err != nil:
		return nil, nil, uncertain(machine.CodeExecTransport, err, "%s cannot be reached: %v", name, err)
	}
	return g, l, nil
}

// spec is what a driver needs to find the machine again.
func (s *Service) spec(name string, r record) driver.Spec {
	spec := driver.Spec{
		Name: name, Image: r.Image, Folder: s.store.folder(name), Nonce: r.Nonce, Network: r.Network,
		Until: r.Expires, Grace: s.cfg.Grace, DiskMB: s.cfg.DiskMB,
	}
	if r.Effective.CPU != nil {
		spec.CPU = *r.Effective.CPU
	}
	if r.Effective.MemoryMB != nil {
		spec.MemoryMB = *r.Effective.MemoryMB
	}
	if r.Effective.DiskGB != nil {
		spec.DiskMB = *r.Effective.DiskGB * 1024
	}
	return spec
}
