package fake

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Origin is what a Service calls its address.
const Origin = "http://localhost:6240"

// Service is the fake. Make one with New; its methods may be called from any goroutine.
type Service struct {
	faults

	mu        sync.Mutex
	now       func() time.Time
	made      int
	limit     int // machines at once; 0: no limit
	images    machine.Images
	catalogue machine.Catalogue
	leases    map[string]machine.Lease
	preempt   map[string]context.CancelFunc
	contexts  map[string]context.Context
	remnants  map[string]bool // names the witness goes on listing
	instance  string
	folder    string
}

var _ machine.API = (*Service)(nil)

// New makes a service with one image, "host", of this architecture, without a display.
func New() *Service {
	return &Service{
		now: time.Now,
		images: machine.Images{
			Images:   map[string]machine.Image{"host": {Kind: "linux", BaseAvailable: true}},
			Capacity: map[string]any{},
		},
		catalogue: machine.Catalogue{SchemaVersion: 1, Images: []machine.ImageInventory{
			{Image: "host", OS: "linux", Architecture: "x86_64", Applications: []machine.Application{}},
		}},
		leases:   map[string]machine.Lease{},
		preempt:  map[string]context.CancelFunc{},
		contexts: map[string]context.Context{},
		remnants: map[string]bool{},
	}
}

// SetImages replaces what Images answers.
func (s *Service) SetImages(images machine.Images) { s.locked(func() { s.images = images }) }

// SetProcess makes Health answer as this process of a service on this state folder.
func (s *Service) SetProcess(instance, folder string) {
	s.locked(func() { s.instance, s.folder = instance, folder })
}

// SetCatalogue replaces what Applications answers.
func (s *Service) SetCatalogue(c machine.Catalogue) { s.locked(func() { s.catalogue = c }) }

// SetLimit bounds the machines held at once; 0 takes the bound away.
func (s *Service) SetLimit(machines int) { s.locked(func() { s.limit = machines }) }

// SetClock replaces the clock that stamps leases.
func (s *Service) SetClock(now func() time.Time) { s.locked(func() { s.now = now }) }

// Vanish makes the service forget the machine without a release, as after its reaper or another caller took it. Running
// commands of it end as preempted.
func (s *Service) Vanish(name string) { s.locked(func() { s.drop(name) }) }

// Remain makes the witness list name although no lease holds it.
func (s *Service) Remain(name string) { s.locked(func() { s.remnants[name] = true }) }

// Edit changes the record of a lease in place, to play another service's answers.
func (s *Service) Edit(name string, change func(*machine.Lease)) {
	s.locked(func() {
		if lease, ok := s.leases[name]; ok {
			change(&lease)
			s.leases[name] = lease
		}
	})
}

func (s *Service) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Origin is the constant of this package.
func (s *Service) Origin() string { return Origin }

// Health says machine-service.
func (s *Service) Health(ctx context.Context) (machine.Health, error) {
	return call(ctx, s, machine.OpHealth, func(context.Context) (machine.Health, error) {
		h := machine.Health{OK: true, Service: machine.ServiceName}
		s.locked(func() { h.Instance, h.Folder = s.instance, s.folder })
		return h, nil
	})
}

// Images answers what SetImages gave.
func (s *Service) Images(ctx context.Context) (machine.Images, error) {
	return call(ctx, s, machine.OpImages, func(context.Context) (machine.Images, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return machine.Images{Images: maps.Clone(s.images.Images), Capacity: maps.Clone(s.images.Capacity)}, nil
	})
}

// Applications answers what SetCatalogue gave.
func (s *Service) Applications(ctx context.Context) (machine.Catalogue, error) {
	return call(ctx, s, machine.OpApplications, func(context.Context) (machine.Catalogue, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.catalogue, nil
	})
}

var purposeGrammar = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Acquire makes a lease, or refuses as the service does: unknown image, purpose taken, limit reached.
func (s *Service) Acquire(ctx context.Context, req machine.AcquireRequest) (machine.Lease, error) {
	if err := ctx.Err(); err != nil {
		return machine.Lease{}, fmt.Errorf("cannot acquire: %w: %w", machine.ErrNotSent, err)
	}
	return call(context.WithoutCancel(ctx), s, machine.OpAcquire, func(context.Context) (machine.Lease, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.admit(req); err != nil {
			return machine.Lease{}, err
		}
		return s.make(req), nil
	})
}

// admit runs under mu.
func (s *Service) admit(req machine.AcquireRequest) error {
	image, known := s.images.Images[req.Image]
	switch {
	case req.Instance != "" && req.Instance != s.instance:
		return refuse(machine.OpAcquire, machine.CodeOtherInstance, "the request was meant for another process; nothing was begun")
	case !purposeGrammar.MatchString(req.Purpose):
		return refuse(machine.OpAcquire, machine.CodeInvalidRequest, "purpose %q must be 1-64 of a-z, 0-9 and -", req.Purpose)
	case !known:
		return refuse(machine.OpAcquire, machine.CodeUnknownImage, "unknown image %q", req.Image)
	case !image.BaseAvailable:
		return refuse(machine.OpAcquire, machine.CodeImageUnavailable, "image %q is not built yet", req.Image)
	case req.VNC != nil && *req.VNC:
		return refuse(machine.OpAcquire, machine.CodeConsoleUnavailable, "VNC unavailable")
	}
	for name, lease := range s.leases {
		if lease.Purpose == req.Purpose && lease.Image == req.Image {
			return refuse(machine.OpAcquire, machine.CodeDuplicatePurpose, "purpose %q is already leased by %s", req.Purpose, name)
		}
	}
	if s.limit > 0 && len(s.leases) >= s.limit {
		return refuse(machine.OpAcquire, machine.CodeCapacity, "VM limit reached (%d active); release one first", len(s.leases))
	}
	return nil
}

// make runs under mu. Names count up, so that a test can say them beforehand.
func (s *Service) make(req machine.AcquireRequest) machine.Lease {
	s.made++
	network := req.Network
	if network == "" {
		network = "nat"
	}
	now := float64(s.now().UnixNano()) / 1e9
	lease := machine.Lease{
		Name: fmt.Sprintf("fake-%s-%06x", req.Purpose, s.made), Purpose: req.Purpose, Image: req.Image,
		ImageKind: s.images.Images[req.Image].Kind, LeaseID: fmt.Sprintf("%032x", s.made), State: machine.StateRunning,
		CreatedAt: now, TTLExpiresAt: now + req.TTL.Seconds(), Network: network,
	}
	if req.Env != "" && req.Env != "none" {
		lease.Env = &req.Env
	}
	s.leases[lease.Name] = lease
	s.contexts[lease.Name], s.preempt[lease.Name] = context.WithCancel(context.Background())
	return lease
}

// drop runs under mu.
func (s *Service) drop(name string) {
	if cancel, ok := s.preempt[name]; ok {
		cancel()
	}
	delete(s.leases, name)
	delete(s.preempt, name)
	delete(s.contexts, name)
}

// List returns every lease.
func (s *Service) List(ctx context.Context) (map[string]machine.Lease, error) {
	return call(ctx, s, machine.OpList, func(context.Context) (map[string]machine.Lease, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return maps.Clone(s.leases), nil
	})
}

// Get reads one lease.
func (s *Service) Get(ctx context.Context, name string) (machine.Lease, error) {
	return call(ctx, s, machine.OpGet, func(context.Context) (machine.Lease, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		lease, ok := s.leases[name]
		if !ok {
			return lease, &machine.Error{Op: machine.OpGet, Status: 404, Code: machine.CodeUnknownMachine, Message: "unknown VM"}
		}
		return lease, nil
	})
}

// Heartbeat makes the lease end ttl from now.
func (s *Service) Heartbeat(ctx context.Context, name string, ttl time.Duration) (machine.Lease, error) {
	return call(ctx, s, machine.OpHeartbeat, func(context.Context) (machine.Lease, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		lease, ok := s.leases[name]
		switch {
		case !ok:
			return lease, unknown(machine.OpHeartbeat, name)
		case ttl <= 0 || ttl > machine.MaxTTL:
			return lease, refuse(machine.OpHeartbeat, machine.CodeInvalidRequest, "ttl_hours must be within bounds")
		case lease.State == machine.StateReleasing:
			return lease, refuse(machine.OpHeartbeat, machine.CodeReleasing, "%s is releasing", name)
		}
		lease.TTLExpiresAt = float64(s.now().Add(ttl).UnixNano()) / 1e9
		lease.GraceUntil, lease.Warned = nil, false
		s.leases[name] = lease
		return lease, nil
	})
}

// Release forgets the lease and preempts its commands.
func (s *Service) Release(ctx context.Context, name, _ string) error {
	_, err := call(ctx, s, machine.OpRelease, func(context.Context) (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.leases[name]; !ok {
			return struct{}{}, unknown(machine.OpRelease, name)
		}
		s.drop(name)
		return struct{}{}, nil
	})
	return err
}

// Witness lists the leases held, and what Remain added.
func (s *Service) Witness() machine.Witness { return witness{s} }

type witness struct{ service *Service }

func (w witness) Machines(ctx context.Context) ([]string, error) {
	return call(ctx, w.service, OpWitness, func(context.Context) ([]string, error) {
		w.service.mu.Lock()
		defer w.service.mu.Unlock()
		names := maps.Clone(w.service.remnants)
		for name := range w.service.leases {
			names[name] = true
		}
		return slices.Sorted(maps.Keys(names)), nil
	})
}

func refuse(op, code, format string, args ...any) error {
	return &machine.Error{Op: op, Status: 409, Code: code, Message: fmt.Sprintf(format, args...)}
}

func unknown(op, name string) error {
	return refuse(op, machine.CodeUnknownMachine, "unknown VM %q", name)
}
