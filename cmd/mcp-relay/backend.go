package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/background"
)

// newBackend is where machines come from: the configured service, or one of our own that is started when it is first needed.
func newBackend(cfg config.Config, log zerolog.Logger) (machine.API, error) {
	if cfg.Backend == config.BackendEmbedded && runtime.GOOS != "linux" {
		return nil, errors.New("MCP_RELAY_BACKEND=embedded needs Linux; start machine-service and leave MCP_RELAY_BACKEND unset")
	}
	if !ownMachines(cfg) {
		return machine.New(machine.Options{URL: cfg.URL})
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program's own file: %w", err)
	}
	start := backgroundOptions(cfg)
	start.Executable, start.Args, start.Env, start.Log = self, []string{"machines", "--background"}, config.Environ(nil), log
	return &ownService{
		origin: "embedded:" + cfg.MachinesDir(),
		ensure: func(ctx context.Context) (machine.API, error) {
			at, err := background.Ensure(ctx, start)
			if err != nil {
				return nil, err
			}
			if at.Started {
				log.Info().Str("event", "machines-started").Str("url", at.URL).Int("pid", at.PID).Msg("started a machine service in the background")
			}
			return machine.New(machine.Options{URL: at.URL})
		},
	}, nil
}

// ownMachines says whether a service of our own may be started: on Linux, unless another one was named.
func ownMachines(cfg config.Config) bool {
	switch cfg.Backend {
	case config.BackendService:
		return false
	case config.BackendEmbedded:
		return runtime.GOOS == "linux"
	}
	return runtime.GOOS == "linux" && !cfg.URLSet
}

// backgroundOptions say where a service of our own is found.
func backgroundOptions(cfg config.Config) background.Options {
	opt := background.Options{StateDir: cfg.MachinesDir(), RuntimeDir: cfg.RuntimeDir, Port: cfg.Port}
	if cfg.Port == 0 {
		opt.Port = background.AnyPort
	}
	return opt
}

// ownService is a machine.API over a service of our own. It finds or starts the service when it is first needed, and again
// when a request provably never reached it, since the service may have died; machines outlive it, and a new one takes them
// over. Its origin is its state folder, which stays when the port does not.
type ownService struct {
	origin string
	ensure func(context.Context) (machine.API, error)

	mu  sync.Mutex
	api machine.API
}

var _ machine.API = (*ownService)(nil)

func (o *ownService) Origin() string { return o.origin }

func (o *ownService) service(ctx context.Context) (machine.API, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.api != nil {
		return o.api, nil
	}
	api, err := o.ensure(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrNotSent, err)
	}
	o.api = api
	return api, nil
}

func (o *ownService) forget(api machine.API) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.api == api {
		o.api = nil
	}
}

// through makes one request; a request that was never sent is made again, once, on a service found anew. That may be another process
// than the caller asked before: an acquisition, which has to know, names the process that it is for, and another one refuses it.
func through[T any](ctx context.Context, o *ownService, request func(machine.API) (T, error)) (T, error) {
	return anew(ctx, o, neverBegun, request)
}

// read makes a request that changes nothing: one that was cut off is made again as well, for a service that is just dying may still
// take it.
func read[T any](ctx context.Context, o *ownService, request func(machine.API) (T, error)) (T, error) {
	return anew(ctx, o, func(err error) bool { return neverBegun(err) || unanswered(err) }, request)
}

// anew makes a request, and a second time on a service found anew when the first failed in a way that permits it.
func anew[T any](ctx context.Context, o *ownService, permitted func(error) bool, request func(machine.API) (T, error)) (T, error) {
	api, err := o.service(ctx)
	if err != nil {
		var none T
		return none, err
	}
	v, err := request(api)
	if err == nil || !permitted(err) || ctx.Err() != nil {
		return v, err
	}
	o.forget(api)
	again, ensureErr := o.service(ctx)
	if ensureErr != nil {
		return v, ensureErr
	}
	return request(again)
}

// neverBegun: the request did not reach the service, or reached one that is leaving and begins nothing any more.
func neverBegun(err error) bool {
	var answer *machine.Error
	return errors.Is(err, machine.ErrNotSent) || (errors.As(err, &answer) && answer.Code == machine.CodeLeaving)
}

// unanswered: neither the service nor anybody in its place said anything.
func unanswered(err error) bool {
	var answer *machine.Error
	return !errors.As(err, &answer) && !errors.Is(err, machine.ErrMalformed) && !errors.Is(err, machine.ErrNotMachineService)
}

func nothing(err error) (struct{}, error) { return struct{}{}, err }

func (o *ownService) Health(ctx context.Context) (machine.Health, error) {
	return read(ctx, o, func(a machine.API) (machine.Health, error) { return a.Health(ctx) })
}

func (o *ownService) Images(ctx context.Context) (machine.Images, error) {
	return read(ctx, o, func(a machine.API) (machine.Images, error) { return a.Images(ctx) })
}

func (o *ownService) Applications(ctx context.Context) (machine.Catalogue, error) {
	return read(ctx, o, func(a machine.API) (machine.Catalogue, error) { return a.Applications(ctx) })
}

func (o *ownService) Acquire(ctx context.Context, req machine.AcquireRequest) (machine.Lease, error) {
	return through(ctx, o, func(a machine.API) (machine.Lease, error) { return a.Acquire(ctx, req) })
}

func (o *ownService) List(ctx context.Context) (map[string]machine.Lease, error) {
	return read(ctx, o, func(a machine.API) (map[string]machine.Lease, error) { return a.List(ctx) })
}

func (o *ownService) Get(ctx context.Context, name string) (machine.Lease, error) {
	return read(ctx, o, func(a machine.API) (machine.Lease, error) { return a.Get(ctx, name) })
}

func (o *ownService) Heartbeat(ctx context.Context, name string, ttl time.Duration) (machine.Lease, error) {
	return through(ctx, o, func(a machine.API) (machine.Lease, error) { return a.Heartbeat(ctx, name, ttl) })
}

func (o *ownService) Exec(ctx context.Context, name string, req machine.ExecRequest) (machine.ExecResult, error) {
	return through(ctx, o, func(a machine.API) (machine.ExecResult, error) { return a.Exec(ctx, name, req) })
}

func (o *ownService) Push(ctx context.Context, name, local, remote string) error {
	_, err := through(ctx, o, func(a machine.API) (struct{}, error) { return nothing(a.Push(ctx, name, local, remote)) })
	return err
}

func (o *ownService) Pull(ctx context.Context, name, remote, local string) error {
	_, err := through(ctx, o, func(a machine.API) (struct{}, error) { return nothing(a.Pull(ctx, name, remote, local)) })
	return err
}

func (o *ownService) Release(ctx context.Context, name, reason string) error {
	_, err := through(ctx, o, func(a machine.API) (struct{}, error) { return nothing(a.Release(ctx, name, reason)) })
	return err
}
