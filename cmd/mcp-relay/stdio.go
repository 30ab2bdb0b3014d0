package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
	"github.com/seed-1e4c9d81/mcp-relay/mcpgate"
)

// drainTime is how long answers already made may take to be written once the client's end is known.
const drainTime = 5 * time.Second

// serveStdio is the MCP server: it ends when its client does, however that happens, and carries out the exit policy first.
func serveStdio(ctx context.Context, s cli.Streams) error {
	// A write to a client that went away must come back as an error, so that the end below runs.
	signal.Ignore(syscall.SIGPIPE)
	cfg, err := loadConfig()
	if err != nil {
		return err
	}
	log := newLog(s.Err)
	relay, err := startRelay(ctx, cfg, log)
	if err != nil {
		return err
	}
	gate := mcpgate.New(relay.tools, mcpgate.Options{Version: version(), Log: log, ResultDir: resultDir(cfg)})
	served := make(chan error, 1)
	go func() { served <- gate.Serve(ctx, s.In, s.Out) }()
	trigger := waitForEnd(ctx, served, relay.failed)
	log.Info().Str("event", "session-ending").Str("trigger", trigger).Msg("the session ends")
	code := <-relay.end(trigger)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(drainTime, cfg.Grace))
	defer cancel()
	if err := gate.Drain(drain); err != nil {
		gate.CancelAll()
	}
	if code != 0 {
		return cli.Exit(code, errors.New("the session ended, but not everything could be settled; mcp-relay status shows what is left"))
	}
	return nil
}

// waitForEnd answers what ended the session first. A second signal ends the process at once.
func waitForEnd(ctx context.Context, served <-chan error, failed <-chan struct{}) string {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	select {
	case err := <-served:
		if err != nil {
			return fmt.Sprintf("transport: %v", err)
		}
		return "the client closed its side"
	case sig := <-signals:
		go func() {
			<-signals
			os.Exit(cli.Failed)
		}()
		return "signal " + sig.String()
	case <-failed:
		return "the relay's actors gave up"
	case <-ctx.Done():
		return "the program was told to end"
	}
}

// running is what answers the tools, and how it ends.
type running struct {
	tools  mcpgate.Relay
	end    func(trigger string) <-chan int // carries out the exit policy; yields the exit code
	failed <-chan struct{}                 // closed when it has given up by itself; nil when it cannot
}

// startRelay builds what answers the tools. With a fault in the configuration that only calls report, that is its only answer.
func startRelay(ctx context.Context, cfg config.Config, log zerolog.Logger) (running, error) {
	if cfg.Lazy != nil {
		return running{tools: brokenRelay{cfg.Lazy}, end: func(string) <-chan int {
			done := make(chan int, 1)
			done <- cli.OK
			return done
		}}, nil
	}
	api, err := newBackend(cfg, log)
	if err != nil {
		return running{}, cli.Exit(cli.Usage, err)
	}
	witness, err := newWitness(cfg)
	if err != nil {
		return running{}, err
	}
	runtimes, err := newRuntimes(cfg)
	if err != nil {
		return running{}, err
	}
	sys, err := actors.Start(ctx, actors.Options{
		Guest: guest.Options{
			StateDir: cfg.StateDir, Session: cfg.Session, Project: cfg.Project, Network: cfg.Network, API: api, Witness: witness,
			Runtime: runtimes.find, Window: cfg.Window, Minimum: cfg.Minimum(),
		},
		MaxGuests: cfg.MaxGuests, OnExit: cfg.OnExit, Grace: cfg.Grace, Log: log,
	})
	if err != nil {
		return running{}, err
	}
	return running{tools: sys.Relay(), end: sys.End, failed: sys.Failed()}, nil
}

// resultDir is where results too long to show are kept whole.
func resultDir(cfg config.Config) string {
	if cfg.StateDir == "" {
		return ""
	}
	return filepath.Join(cfg.StateDir, "results")
}

// brokenRelay answers every call with what is wrong with the configuration.
type brokenRelay struct{ fault error }

func (b brokenRelay) refuse() (guest.Result, error) {
	return guest.Result{}, guest.Refuse("the relay's configuration cannot be used: %v. Nothing was done; correct it and restart the server", b.fault)
}

func (b brokenRelay) Search(context.Context, guest.SearchInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Probe(context.Context, guest.ProbeInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Acquire(context.Context, guest.AcquireInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Stage(context.Context, guest.StageInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Script(context.Context, guest.Script) (guest.Result, error) { return b.refuse() }
func (b brokenRelay) Image(context.Context, guest.ImageInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Extract(context.Context, guest.ExtractInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Finish(context.Context, guest.NamedInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Release(context.Context, guest.NamedInput) (guest.Result, error) {
	return b.refuse()
}
func (b brokenRelay) Status(context.Context) (guest.Result, error) { return b.refuse() }
