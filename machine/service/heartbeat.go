package service

import (
	"context"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// heartbeat makes the lease end ttl from now; ttl 0 means the window it began with. The new end is on disk before it is
// answered, and it waits for no command or transfer.
func (s *Service) heartbeat(name string, ttl time.Duration) (wireLease, error) {
	r, ok := s.store.get(name)
	if !ok {
		return wireLease{}, unknownMachine(name)
	}
	if guest := s.knownGuest(name); r.State == machine.StateRunning && guest != nil && !guest.Alive() {
		return wireLease{}, refuse(machine.CodeMachineGone, "%s is not running on the host; its lease is not renewed", name)
	}
	now := wallClock()
	r, err := s.store.update(name, func(r *record) error {
		if r.State == machine.StateReleasing {
			return refuse(machine.CodeReleasing, "%s is releasing", name)
		}
		if ttl == 0 {
			ttl = r.InitTTL
		}
		r.renew(now, ttl)
		return nil
	})
	if err != nil {
		return wireLease{}, err
	}
	s.tellGuest(name)
	return r.snapshot(name, now), nil
}

// tellGuest lets the machine know the end of its lease, beside whatever else goes on. One that cannot be told keeps the end
// it knows, which is no later than its grace allows; the next renewal tells it.
func (s *Service) tellGuest(name string) {
	guest := s.knownGuest(name)
	if guest == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.base, renewLimit)
	s.work.Go(func() {
		defer cancel()
		s.tell(ctx, name, guest)
	})
}

// tell says the end as recorded, again if it changed while it was being said: of two renewals at once the guest ends up
// with the one that was written last.
func (s *Service) tell(ctx context.Context, name string, guest driver.Guest) {
	r, ok := s.store.get(name)
	for ok {
		told := r.Expires
		if err := guest.Renew(ctx, told); err != nil {
			s.log.Warn().Err(err).Str("machine", name).Msg("cannot tell the guest its lease's new end")
			return
		}
		if r, ok = s.store.get(name); r.Expires.Equal(told) {
			return
		}
	}
}
