package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// absentLimit is how many passes in a row must find a machine not running before its lease is taken back.
const absentLimit = 2

// pass looks at every lease once, all at the same time: one slow teardown holds up no other. It returns when all are done.
func (s *Service) pass(ctx context.Context) {
	var all sync.WaitGroup
	for name := range s.store.all() {
		all.Go(func() { s.reap(ctx, name) })
	}
	all.Wait()
}

// reap does what one lease's record and machine call for.
func (s *Service) reap(ctx context.Context, name string) {
	r, ok := s.store.get(name)
	l := s.live(name)
	if !ok || l == nil {
		return
	}
	now := wallClock()
	switch r.judge(now) {
	case fateTearDown:
		s.retryTearDown(ctx, name, l)
		return
	case fateWarn:
		s.warn(name, now)
	case fateReclaim:
		s.takeBack(name, "ttl-expired", func(r record) bool { return r.judge(now) == fateReclaim })
		return
	case fateKeep:
	}
	if r.State == machine.StateRunning && s.missing(ctx, name, r, l) {
		s.takeBack(name, "machine-not-running", func(r record) bool { return r.State == machine.StateRunning })
	}
}

// missing says that the machine was not there for absentLimit passes in a row, this one included.
func (s *Service) missing(ctx context.Context, name string, r record, l *live) bool {
	ctx, cancel := context.WithTimeout(ctx, adoptLimit)
	defer cancel()
	guest, err := s.guest(ctx, name, r, l)
	if err != nil && !errors.Is(err, driver.ErrGone) {
		return false // it cannot be asked: no judgement
	}
	return l.sawRunning(err == nil && guest.Alive()) >= absentLimit
}

// warn begins the grace of a lease that is past its TTL.
func (s *Service) warn(name string, now time.Time) {
	_, err := s.store.update(name, func(r *record) error {
		if r.judge(now) == fateWarn {
			until := now.Add(s.cfg.Grace)
			r.Grace = &until
		}
		return nil
	})
	if err != nil {
		s.log.Warn().Err(err).Str("machine", name).Msg("cannot begin the grace of a lease past its TTL")
		return
	}
	s.log.Info().Str("machine", name).Dur("grace", s.cfg.Grace).Msg("a lease is past its TTL; its grace begins")
}

// errRenewed: a heartbeat came before the decision was written.
var errRenewed = errors.New("the lease was renewed")

// takeBack ends a lease if what calls for it still holds when the decision is written.
func (s *Service) takeBack(name, reason string, still func(record) bool) {
	_, err := s.store.update(name, func(r *record) error {
		if !still(*r) {
			return errRenewed
		}
		r.release(reason)
		return nil
	})
	if err != nil {
		if !errors.Is(err, errRenewed) {
			s.log.Warn().Err(err).Str("machine", name).Msg("cannot take back a lease")
		}
		return
	}
	s.log.Info().Str("machine", name).Str("reason", reason).Msg("a lease is taken back")
	_ = s.end(name, reason) // logged there, and retried by the next pass
}

// retryTearDown goes on with a teardown that failed before, unless somebody is at it.
func (s *Service) retryTearDown(ctx context.Context, name string, l *live) {
	if len(l.tearing) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, teardownLimit)
	defer cancel()
	_ = s.tearDown(ctx, name, l) // logged there
}
