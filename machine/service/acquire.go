package service

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// reasonUndelivered ends a lease that nobody learned of.
const reasonUndelivered = "acquire-response-undelivered"

// acquire makes a machine and answers when it can be used. Whatever fails, nothing is left, or the lease stays "releasing"
// and the reaper goes on.
func (s *Service) acquire(ctx context.Context, order acquireOrder) (string, wireLease, error) {
	if err := s.checkImage(ctx, &order); err != nil {
		return "", wireLease{}, err
	}
	name, l, err := s.reserve(order)
	if err != nil {
		return "", wireLease{}, err
	}
	r, err := s.provision(name, l)
	if err != nil {
		return "", wireLease{}, err
	}
	s.log.Info().Str("machine", name).Str("purpose", r.Purpose).Str("image", r.Image).Str("network", r.Network).Msg("machine acquired")
	return name, r.wire(name), nil
}

// checkImage settles which image is meant and that it can be used.
func (s *Service) checkImage(ctx context.Context, order *acquireOrder) error {
	images, err := s.cfg.Driver.Images(ctx)
	if err != nil {
		return refuse(machine.CodeImageUnavailable, "cannot list the images: %v", err)
	}
	var names []string
	for _, image := range images {
		names = append(names, image.Name)
		if order.image == "" {
			order.image = image.Name
		}
		if image.Name != order.image {
			continue
		}
		if image.Unavailable != "" {
			return refuse(machine.CodeImageUnavailable, "image %q cannot be used: %s", image.Name, image.Unavailable)
		}
		return nil
	}
	return refuse(machine.CodeUnknownImage, "unknown image %q; available: %q", order.image, names)
}

// reserve writes the lease down, pending, if there is room for it. Room and record are one step.
func (s *Service) reserve(order acquireOrder) (string, *live, error) {
	now := wallClock()
	r := record{
		Purpose: order.purpose, Image: order.image, LeaseID: randomHex(16), Nonce: randomHex(16), State: machine.StatePending,
		Network: order.network, Created: now, Expires: now.Add(order.ttl), InitTTL: order.ttl, Wait: order.wait,
		Requested: order.resources, Effective: s.effective(order.resources),
	}
	name, l := "", newLive(s.base)
	err := s.store.change(func(all map[string]record) error {
		if s.activity.isLeaving() {
			return leaving()
		}
		if err := s.room(all, r); err != nil {
			return err
		}
		for name = ""; name == "" || all[name].Purpose != ""; {
			name = order.purpose + "-" + randomHex(3)
		}
		all[name] = r
		s.remember(name, l)
		return nil
	})
	if err != nil {
		s.forget(name)
		return "", nil, definite(err)
	}
	return name, l, nil
}

// definite makes a refusal of an error that came before anything was allocated.
func definite(err error) error {
	r := asRefusal(err)
	if r.Status >= http.StatusInternalServerError {
		r = refuse(machine.CodeInternal, "no machine was made: %v", err)
		r.cause = err
	}
	return r
}

func (s *Service) effective(requested resources) resources {
	configured := func(asked *int, def int) *int {
		if asked == nil && def > 0 {
			return &def
		}
		return asked
	}
	return resources{CPU: configured(requested.CPU, s.cfg.CPU), MemoryMB: configured(requested.MemoryMB, s.cfg.MemoryMB), DiskGB: requested.DiskGB}
}

// room refuses a purpose that is taken and a machine too many. Every state counts.
func (s *Service) room(all map[string]record, want record) error {
	memory := 0
	for name, r := range all {
		if r.Purpose == want.Purpose && r.Image == want.Image {
			return refuse(machine.CodeDuplicatePurpose, "purpose %q is already leased by %s", want.Purpose, name)
		}
		memory += amount(r.Effective.MemoryMB)
	}
	if limit := s.cfg.MaxMachines; limit > 0 && len(all) >= limit {
		return refuse(machine.CodeCapacity, "Linux VM limit reached (%d active); release one first", len(all))
	}
	if limit := s.cfg.TotalMemoryMB; limit > 0 && memory+amount(want.Effective.MemoryMB) > limit {
		return refuse(machine.CodeCapacity, "memory limit reached (%d of %d MiB promised, %d more wanted); release a machine first",
			memory, limit, amount(want.Effective.MemoryMB))
	}
	return nil
}

func amount(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// provision makes the machine of a pending lease. From here on only its own goroutine and a release decide about it.
func (s *Service) provision(name string, l *live) (record, error) {
	guest, facts, err := s.build(name, l)
	if guest != nil {
		l.setGuest(guest)
	}
	close(l.made) // a release that came meanwhile may tear down now
	if err == nil {
		var r record
		if r, err = s.commission(name, facts); err == nil {
			return r, nil
		}
	}
	if released := context.Cause(l.ctx); errors.Is(released, errReleased) {
		// The release tears down; this request only answers.
		return record{}, refuse(machine.CodePreempted, "acquire of %s was cancelled by release", name)
	}
	return record{}, s.rollBack(name, l, err)
}

// build takes the lease through provisioning.
func (s *Service) build(name string, l *live) (driver.Guest, driver.Facts, error) {
	r, err := s.store.update(name, func(r *record) error {
		if r.State != machine.StatePending {
			return refuse(machine.CodePreempted, "acquire of %s was cancelled by release", name)
		}
		r.State = machine.StateProvisioning
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if err := os.Mkdir(s.store.folder(name), 0o700); err != nil {
		return nil, nil, fmt.Errorf("cannot make the folder of the machine: %w", err)
	}
	ctx, cancel := context.WithTimeout(l.ctx, provisionLimit)
	defer cancel()
	return s.cfg.Driver.Create(ctx, s.spec(name, r))
}

// commission makes the lease running. Its first window begins now, so that a slow start does not eat it.
func (s *Service) commission(name string, facts driver.Facts) (record, error) {
	r, err := s.store.update(name, func(r *record) error {
		if r.State != machine.StateProvisioning {
			return refuse(machine.CodePreempted, "acquire of %s was cancelled by release", name)
		}
		now := wallClock()
		r.State, r.Applied, r.Facts = machine.StateRunning, &now, facts
		r.renew(now, r.InitTTL)
		return nil
	})
	if err == nil {
		s.tellGuest(name)
	}
	return r, err
}

// rollBack clears what a failed acquire left and words its answer.
func (s *Service) rollBack(name string, l *live, cause error) error {
	answer := failedAcquire(cause)
	if err := s.end(name, "acquire-failed"); err != nil {
		answer.Text += fmt.Sprintf("; %s is retained for cleanup: %v", name, err)
		answer.cause = errors.Join(cause, err)
	}
	s.log.Warn().Err(cause).Str("machine", name).Msg("acquire failed")
	return answer
}

func failedAcquire(cause error) *refusal {
	var ours *refusal
	var drivers *driver.Refusal
	switch {
	case errors.As(cause, &ours), errors.As(cause, &drivers):
		return asRefusal(cause)
	}
	r := refuse(machine.CodeBootFailed, "the machine refused to start: %v", cause)
	r.cause = cause
	return r
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
