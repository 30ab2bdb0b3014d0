package guest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// LeaseView is what the lease clock needs.
type LeaseView struct {
	Start    time.Time // when the acquisition was sent
	Deadline time.Time // end of the caller's whole time; no renewal reaches past it
	Expires  time.Time // last confirmed end of the lease; zero when none was
	Active   bool      // it is being renewed
}

// Lease as it is durable now.
func (g *Guest) Lease() LeaseView {
	r := g.rec()
	return LeaseView{Start: r.startedAt(), Deadline: r.deadline(), Expires: unixTime(r.ExpiresAt), Active: r.Active}
}

// Beat renews the lease once, for ttl from now, and records the end that the service confirmed. It may run beside an
// operation. An answer for a guest that has gone meanwhile changes nothing. A failure is recorded and destroys nothing.
func (g *Guest) Beat(ctx context.Context, ttl time.Duration) (time.Time, error) {
	name, err := g.machineName()
	if err != nil {
		return time.Time{}, err
	}
	if g.Gone() || g.rec().Released {
		return time.Time{}, fmt.Errorf("guest %q is gone", g.name)
	}
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	lease, err := g.s.opt.API.Heartbeat(ctx, name, ttl)
	if err == nil {
		err = g.checkLease(lease)
	}
	if err != nil {
		return time.Time{}, g.beatLost(err)
	}
	err = g.update(func(r *Record) {
		r.ExpiresAt = lease.TTLExpiresAt
		r.GuestState = lease.State
	})
	if errors.Is(err, errNoRecord) {
		return time.Time{}, fmt.Errorf("guest %q is gone", g.name)
	}
	return unixTime(lease.TTLExpiresAt), err
}

// beatLost records a renewal whose answer did not come; the end last confirmed stands.
func (g *Guest) beatLost(cause error) error {
	err := g.update(func(r *Record) {
		r.GuestState = "unknown"
		r.LastError = "heartbeat lost: " + cause.Error()
	})
	if errors.Is(err, errNoRecord) {
		err = nil
	}
	return errors.Join(fmt.Errorf("cannot renew the lease of guest %q: %w", g.name, cause), err)
}

// SetActive records whether the lease is being renewed. An end of renewals is also an event with its reason: what stopped at
// the deadline is written by the caller with Note instead, so reason may be empty.
func (g *Guest) SetActive(active bool, reason string) error {
	if g.rec().Active == active {
		return nil
	}
	if err := g.update(func(r *Record) { r.Active = active }); err != nil {
		return err
	}
	if active || reason == "" {
		return nil
	}
	return g.log(EventRenewalPaused, reason, map[string]any{"expiresAt": g.rec().ExpiresAt})
}
