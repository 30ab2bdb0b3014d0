package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Bounds of what the service waits for. Each is a time after which it answers something else, never a guess about a guest.
const (
	adoptLimit     = 5 * time.Second   // one adoption
	recoverLimit   = 10 * time.Second  // what is done about one machine before the service listens
	provisionLimit = 10 * time.Minute  // making a machine; under the relay's window of 15 minutes
	teardownLimit  = 100 * time.Second // one try; clients wait 120 s
	transferLimit  = 300 * time.Second
	renewLimit     = 3 * time.Second // telling a guest its new end
	stopGrace      = 5 * time.Second // requests in flight when the service is told to stop
	bodyLimit      = 30 * time.Second
	answerLimit    = 30 * time.Second // a client that does not read
	releaseAllTime = 110 * time.Second
)

// imageKind is what our drivers make.
const imageKind = "linux"

// Service is machine-service. Open makes it, Serve runs it, Close lets go of what it holds.
type Service struct {
	cfg      Config
	log      zerolog.Logger
	store    *store
	instance string // of this process; /health carries it

	listeners []net.Listener
	server    *http.Server

	base context.Context // ends when the service stops: no driver call outlives it
	stop context.CancelCauseFunc
	work sync.WaitGroup // teardowns that no request waits for

	mu       sync.Mutex
	machines map[string]*live
	reaping  turns
	activity activity
}

// Open takes the state folder, brings machines and records into agreement, and listens. Machines that an earlier process
// was still making are torn down; running ones are adopted; those that are gone are forgotten. Nothing is served yet.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if err := checkListen(cfg.Listen); err != nil {
		return nil, err
	}
	store, err := openStore(ctx, cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("cannot open machine-service: %w", err)
	}
	s := &Service{cfg: cfg, log: cfg.Log, store: store, instance: randomHex(16), machines: map[string]*live{}}
	s.base, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	s.server = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       withPeer,
		ErrorLog:          log.New(s.log, "", 0),
	}
	if err := s.reconcile(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open machine-service: %w", err), s.Close())
	}
	if s.listeners, err = listen(ctx, cfg.Listen, cfg.AnyPort); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open machine-service: %w", err), s.Close())
	}
	s.activity.touch()
	return s, nil
}

// Addr is host:port of the first listener.
func (s *Service) Addr() string { return s.listeners[0].Addr().String() }

// Instance is the nonce of this process, as /health shows it.
func (s *Service) Instance() string { return s.instance }

// Serve answers until ctx ends, the idle time is over, or the owner has gone. Machines outlive it, except when the owner
// has gone: then they are released first. A nil error means that it ended as configured. Call it once.
func (s *Service) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { failed <- s.server.Serve(l) }()
	}
	s.log.Info().Str("addr", s.Addr()).Str("driver", s.cfg.Driver.Name()).Str("instance", s.instance).Msg("machine-service listens")
	err := s.attend(ctx, failed)
	return errors.Join(err, s.shutDown())
}

// attend reaps and watches until there is a reason to stop.
func (s *Service) attend(ctx context.Context, failed <-chan error) error {
	owner := s.ownerGone()
	reap := time.NewTicker(s.cfg.ReapEvery)
	defer reap.Stop()
	var idle <-chan time.Time
	if s.cfg.IdleExit > 0 {
		ticker := time.NewTicker(max(s.cfg.IdleExit/4, time.Millisecond))
		defer ticker.Stop()
		idle = ticker.C
	}
	s.startPass()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("cannot go on serving: %w", err)
		case <-owner:
			s.activity.leave()
			s.log.Info().Msg("the owner has gone: every machine is released")
			return s.releaseAll(ctx)
		case <-reap.C:
			s.startPass()
		case <-idle:
			if s.leaveWhenIdle() {
				s.log.Info().Dur("idle", s.cfg.IdleExit).Msg("nobody needs machine-service: it leaves")
				return nil
			}
		}
	}
}

// ownerGone is closed when the owner's stream ends. The goroutine that reads it ends with the stream.
func (s *Service) ownerGone() <-chan struct{} {
	if s.cfg.Owner == nil {
		return nil
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, s.cfg.Owner) // an error ends the ownership as the end does
	}()
	return gone
}

// startPass reaps beside the loop, so that a slow teardown delays nothing. A pass still at work is not joined by another.
func (s *Service) startPass() {
	if !s.reaping.tryTake() {
		return
	}
	s.work.Go(func() {
		defer s.reaping.give()
		s.pass(s.base)
	})
}

// shutDown stops serving: short requests end by themselves, others are cut off after a grace.
func (s *Service) shutDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	_ = s.server.Shutdown(ctx) // what is left is cut off next
	return s.Close()
}

// Close cuts off whatever is at work and lets go of the state folder. It may be called again, and without Serve.
func (s *Service) Close() error {
	s.stop(errStopping)
	for _, l := range s.listeners {
		_ = l.Close() // closed already when Serve has ended
	}
	s.activity.wait()
	s.work.Wait()
	_ = s.server.Close() // only idle connections are left
	return s.store.close()
}

// activity knows whether anybody uses the service.
type activity struct {
	mu       sync.Mutex
	requests int
	last     time.Time // when the last request or lease ended
	leaving  bool
	running  sync.WaitGroup
}

// enter admits one request, unless the service is leaving.
func (a *activity) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaving {
		return false
	}
	a.requests++
	a.running.Add(1)
	return true
}

func (a *activity) exit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests--
	a.last = time.Now()
	a.running.Done()
}

func (a *activity) touch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = time.Now()
}

func (a *activity) isLeaving() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leaving
}

func (a *activity) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = true
}

// wait admits nobody any more and waits for those who are in.
func (a *activity) wait() {
	a.leave()
	a.running.Wait()
}

// leaveWhenIdle decides to leave, for good: from then on no request is admitted that could make a lease.
func (s *Service) leaveWhenIdle() bool {
	a := &s.activity
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(s.store.all()) > 0 || a.requests > 0 {
		a.last = time.Now()
	}
	if time.Since(a.last) < s.cfg.IdleExit {
		return false
	}
	a.leaving = true
	return true
}
