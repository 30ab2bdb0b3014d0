package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// end releases a machine and returns when nothing of it is left. The decision is durable first; a teardown that fails is
// retried by the reaper and by the next release.
func (s *Service) end(name, reason string) error {
	if _, err := s.store.update(name, func(r *record) error {
		r.release(reason)
		return nil
	}); err != nil {
		return err
	}
	l := s.live(name)
	if l == nil {
		return nil // another teardown has just done it
	}
	ctx, cancel := context.WithTimeout(s.base, teardownLimit)
	defer cancel()
	return s.tearDown(ctx, name, l)
}

// tearDown ends a releasing machine. Of several callers one works, and the others find it done.
func (s *Service) tearDown(ctx context.Context, name string, l *live) error {
	l.preempt(errReleased)
	select {
	case l.tearing <- struct{}{}:
		defer func() { <-l.tearing }()
	case <-ctx.Done():
		return s.retained(name, context.Cause(ctx))
	}
	select {
	case <-l.made:
	case <-ctx.Done():
		return s.retained(name, context.Cause(ctx))
	}
	r, ok := s.store.get(name)
	if !ok {
		return nil // the one before us has done it
	}
	if err := s.destroy(ctx, name, r, l); err != nil {
		return s.retained(name, err)
	}
	if err := s.store.drop(name); err != nil {
		return s.retained(name, err)
	}
	s.forget(name)
	s.activity.touch()
	s.log.Info().Str("machine", name).Str("reason", r.Reason).Msg("machine released")
	return nil
}

// destroy ends the machine and removes its folder, in this order: the folder holds what is needed to find it again.
func (s *Service) destroy(ctx context.Context, name string, r record, l *live) error {
	guest, err := s.guest(ctx, name, r, l)
	switch {
	case errors.Is(err, driver.ErrGone):
	case err != nil:
		return err
	default:
		if err := guest.Destroy(ctx); err != nil {
			return err
		}
	}
	folder := s.store.folder(name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(folder))
}

func (s *Service) retained(name string, cause error) error {
	s.log.Warn().Err(cause).Str("machine", name).Msg("teardown failed; it will be tried again")
	r := refuse(machine.CodeTeardownIncomplete, "%s is not destroyed yet; lease retained for retry: %v", name, cause)
	r.cause = cause
	return r
}

// releaseAll ends every machine, all at once. The service is leaving: none is reserved any more.
func (s *Service) releaseAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), releaseAllTime, errStopping)
	defer cancel()
	s.store.settle() // a reservation at work is among those below
	var ends sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for name := range s.store.all() {
		ends.Go(func() {
			err := s.end(name, "owner-gone")
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ends.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.stop(errStopping) // the teardowns end, and what is left is retried by the next service
		<-done
	}
	return failed
}
