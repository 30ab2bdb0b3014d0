package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// reconcile brings records and machines into agreement after the death of the process before. An error means that the state
// cannot be written; a machine that cannot be cleared is left to the reaper.
func (s *Service) reconcile(ctx context.Context) error {
	if err := s.interruptAcquires(); err != nil {
		return err
	}
	var all sync.WaitGroup
	for name, r := range s.store.all() {
		all.Go(func() { s.recoverOne(ctx, name, r) })
	}
	all.Wait()
	live := map[string]bool{}
	for name := range s.store.all() {
		live[name] = true
	}
	removed, err := s.cfg.Driver.Sweep(ctx, live)
	if err != nil {
		s.log.Warn().Err(err).Msg("cannot clear what earlier machines left")
	}
	if len(removed) > 0 {
		s.log.Info().Strs("removed", removed).Msg("cleared what earlier machines left")
	}
	return s.removeStrayFolders(live)
}

// interruptAcquires decides, for all machines that were being made, that they end: whoever asked has lost the answer.
func (s *Service) interruptAcquires() error {
	return s.store.change(func(all map[string]record) error {
		for name, r := range all {
			if r.State == machine.StatePending || r.State == machine.StateProvisioning {
				r.release("acquire-interrupted-by-restart")
				all[name] = r
			}
		}
		return nil
	})
}

func (s *Service) recoverOne(ctx context.Context, name string, r record) {
	l := newLive(s.base)
	close(l.made) // nobody is making it
	s.remember(name, l)
	ctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	if r.State == machine.StateReleasing {
		s.retryTearDown(ctx, name, l)
		return
	}
	guest, err := s.guest(ctx, name, r, l)
	switch {
	case errors.Is(err, driver.ErrGone):
		_ = s.end(name, "machine-gone-at-restart") // logged there, and retried by the reaper
	case err != nil:
		s.log.Warn().Err(err).Str("machine", name).Msg("cannot reach a machine; it keeps its lease")
	default:
		s.log.Info().Str("machine", name).Msg("machine adopted")
		s.tell(ctx, name, guest) // a renewal may have been written and not told
	}
}

// removeStrayFolders removes folders of machines that no record names, after the driver has swept.
func (s *Service) removeStrayFolders(live map[string]bool) error {
	parent := filepath.Dir(s.store.folder("x"))
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("cannot list the machines' folders: %w", err)
	}
	for _, entry := range entries {
		if live[entry.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(parent, entry.Name())); err != nil {
			s.log.Warn().Err(err).Str("folder", entry.Name()).Msg("cannot remove a folder that no lease names")
		}
	}
	return nil
}
