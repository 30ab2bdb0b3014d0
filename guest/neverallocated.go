package guest

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	// acquireArrival is how long a request may be on its way to our own service: it drops one that it cannot read within 40 seconds, and
	// writes a lease down before it makes anything.
	acquireArrival = 2 * time.Minute
	// acquirePatience is how long the request itself may take, with a service of which nothing else is known.
	acquirePatience = time.Hour
)

// noteService makes durable which process of which service an acquisition is about to be sent to; unknown is one that does not say.
func (g *Guest) noteService(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, factTimeout)
	defer cancel()
	health, err := g.s.opt.API.Health(ctx)
	if err != nil {
		return fmt.Errorf("machine-service cannot be asked who it is: %w", err)
	}
	if health.Folder == "" {
		health.Instance = "" // without its folder nothing says which process comes after which
	}
	return g.update(func(r *Record) {
		r.AcquisitionInFlight = true
		r.AcquireInstance, r.AcquireFolder = health.Instance, health.Folder
		r.StartedAt = isoTime(g.now()) // the lease clock runs from before the sending
	})
}

// neverAllocated proves, where it can, that an acquisition whose answer was lost left no machine, and ends the guest then. It is asked
// when the service lists no machine of ours. The text says why the guest is kept when there is no proof, and when there will be one.
//
// Our service records an acquisition durably before it makes a machine; one process at a time has its folder, and a new one clears what
// the dead one had begun before it answers anybody. The request names the process that is noted, and no other takes it. So when another
// process answers for the same folder, the one that was asked makes nothing more, and a list that is asked for after that shows
// whatever it had made. It may not have been asked for before: the old process may have answered that, and made the machine then.
func (g *Guest) neverAllocated(ctx context.Context) (ended bool, why string, err error) {
	if why := g.unproved(ctx); why != "" {
		return false, why, nil
	}
	found, err := g.byPurpose(ctx)
	if err != nil || len(found) > 0 {
		return false, "one appeared meanwhile; try again", err
	}
	left, err := g.witnessed(ctx)
	if err != nil || left != "" {
		return false, fmt.Sprintf("the host still has machine %s of it, which the service does not know; it is settled when that is gone", left), err
	}
	logged := g.log(eventAcquireRefused, "", map[string]any{"error": "the answer was lost; the acquisition never completed and no machine exists for it"})
	if err := g.forget(); err != nil {
		return false, "", err
	}
	return true, "", logged
}

// unproved says why a list without our machine proves nothing yet; "" is that it does.
func (g *Guest) unproved(ctx context.Context) string {
	r := g.rec()
	settled, why := r.startedAt().Add(acquirePatience+g.s.opt.Window), "it may still come"
	if r.AcquireInstance != "" {
		health, err := g.s.opt.API.Health(ctx)
		switch {
		case err != nil:
			return "the service cannot be asked who it is: " + err.Error()
		case health.Folder != r.AcquireFolder:
			why = "another machine-service answers than the one that was asked"
		case health.Instance != r.AcquireInstance:
			return ""
		default: // what it makes for a caller who has gone it ends by itself
			settled, why = r.startedAt().Add(acquireArrival), "the service that was asked still runs and may still make it"
		}
	}
	if g.now().Before(settled) {
		return fmt.Sprintf("%s; it is settled when none has come by %s, or earlier when the service that was asked is started anew", why, isoTime(settled))
	}
	return ""
}

// witnessed names a machine that the host has for this acquisition; a service names its machines by their purpose, maybe behind a prefix.
func (g *Guest) witnessed(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessTimeout)
	defer cancel()
	machines, err := g.s.opt.Witness.Machines(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot prove that no machine was made: %w", err)
	}
	for _, name := range machines {
		if strings.Contains(name, g.rec().Purpose+"-") {
			return name, nil
		}
	}
	return "", nil
}
