package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

const (
	releaseTimeout  = 120 * time.Second
	releaseAttempts = 3
	releaseWait     = 250 * time.Millisecond // times the attempt
)

// destroy has the machine destroyed, proves it by the witness, and ends the guest. It takes no cancellation: what it undoes must
// not be left half undone. On an error the guest is kept, for another try.
func (g *Guest) destroy(ctx context.Context, reason string) error {
	ctx = context.WithoutCancel(ctx)
	if err := g.checkBinding(); err != nil {
		return err
	}
	if g.rec().Lease == nil {
		none, err := g.findForRelease(ctx)
		if err != nil || none {
			return err
		}
	}
	name := g.rec().Lease.Name
	err := g.releaseMachine(ctx, name, reason)
	if err == nil {
		err = g.proveDestroyed(ctx, name)
	}
	if err != nil {
		text := err.Error()
		return errors.Join(err, g.update(func(r *Record) { r.ReleaseFailed, r.LastError = true, text }))
	}
	return g.close(reason)
}

// findForRelease looks for the machine of a guest without a recorded one. none says that there is nothing to destroy, and the
// guest is ended.
func (g *Guest) findForRelease(ctx context.Context) (none bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	found, err := g.byPurpose(ctx)
	switch {
	case err != nil:
		return false, fmt.Errorf("cannot look for the machine of guest %q, which is kept: %w", g.name, err)
	case len(found) == 1:
		return false, g.adopt(found[0])
	case len(found) > 1:
		return false, fmt.Errorf("machine-service shows %d machines with the purpose %s; which is guest %q cannot be told, and it is kept", len(found), g.rec().Purpose, g.name)
	case g.rec().AcquisitionInFlight:
		ended, why, err := g.neverAllocated(ctx)
		if err == nil && !ended {
			err = fmt.Errorf("the acquisition of guest %q was sent and its answer lost; machine-service shows no machine for it and the guest is kept: %s", g.name, why)
		}
		return ended, err
	}
	return true, g.forget()
}

// releaseMachine asks up to three times; a machine that the service no longer knows counts as released, until the witness speaks.
func (g *Guest) releaseMachine(ctx context.Context, name, reason string) error {
	for attempt := 1; ; attempt++ {
		err := g.releaseOnce(ctx, name, reason)
		if err == nil {
			return nil
		}
		_ = g.log(eventReleaseError, "", map[string]any{"attempt": attempt, "error": err.Error()}) // an event log that fails never stops a destruction
		if g.unknownToService(ctx, name) {
			return nil
		}
		if attempt == releaseAttempts {
			return fmt.Errorf("machine-service did not release machine %s in %d attempts; it is still owned: %w", name, attempt, err)
		}
		time.Sleep(time.Duration(attempt) * releaseWait)
	}
}

func (g *Guest) releaseOnce(ctx context.Context, name, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := g.s.opt.API.Release(ctx, name, reason)
	if errors.Is(err, machine.ErrUnknownMachine) {
		return nil
	}
	return err
}

func (g *Guest) unknownToService(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, factTimeout)
	defer cancel()
	_, err := g.s.opt.API.Get(ctx, name)
	return errors.Is(err, machine.ErrUnknownMachine)
}
