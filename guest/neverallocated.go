package guest

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	// acquireSettle is how long after its sending an acquisition that arrived is surely on the service's list: our service records it
	// before it makes anything.
	acquireSettle = 3 * time.Second
	// acquirePatience is how long the request itself may take, with a service of which nothing else is known.
	acquirePatience = time.Hour
)

// noteService makes durable which process of which service an acquisition is about to be sent to. A service that cannot be asked, or
// does not say, is noted as unknown; the request itself shows what is wrong with it.
func (g *Guest) noteService(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, factTimeout)
	defer cancel()
	health, _ := g.s.opt.API.Health(ctx)
	return g.update(func(r *Record) {
		r.AcquisitionInFlight = true
		r.AcquireInstance, r.AcquireFolder = health.Instance, health.Folder
		r.StartedAt = isoTime(g.now()) // the lease clock runs from before the sending
	})
}

// neverAllocated proves, where it can, that an acquisition whose answer was lost made no machine, and ends the guest then. It is asked
// when the service lists no machine of ours. The text says why the guest is kept when there is no proof.
//
// Our service records an acquisition durably before it makes a machine, and a new process of it on the same folder clears what the
// dead one had begun before it answers anybody. So another process than the one noted, on the same folder, means that nothing of the
// acquisition is left or can still be made. The request may have gone to a later process than the one noted, when that one died
// between the two; but then it is this one that answers, or one after it, and its list shows what arrived, once it has had a moment.
// Of a service that does not say which process answers only time tells.
func (g *Guest) neverAllocated(ctx context.Context) (ended bool, why string, err error) {
	wait, why := g.untilProof(ctx)
	if why != "" {
		return false, why, nil
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false, "there was no time to see whether one appears; try again", nil
		}
	}
	found, err := g.byPurpose(ctx)
	if err != nil || len(found) > 0 {
		return false, "one appeared meanwhile; try again", err
	}
	left, err := g.witnessed(ctx)
	if err != nil || left != "" {
		return false, fmt.Sprintf("the host still has machine %s of it, which the service does not know", left), err
	}
	logged := g.log(eventAcquireRefused, "", map[string]any{"error": "the answer was lost; the service made no machine"})
	if err := g.forget(); err != nil {
		return false, "", err
	}
	return true, "", logged
}

// untilProof is how long to wait until the service's list is a proof; why says that waiting does not help now.
func (g *Guest) untilProof(ctx context.Context) (wait time.Duration, why string) {
	r := g.rec()
	since := g.now().Sub(r.startedAt())
	if r.AcquireInstance == "" {
		certain := acquirePatience + g.s.opt.Window
		if since < certain {
			return 0, fmt.Sprintf("it may still come; it is settled when none has by %s", isoTime(r.startedAt().Add(certain)))
		}
		return 0, ""
	}
	health, err := g.s.opt.API.Health(ctx)
	switch {
	case err != nil:
		return 0, "the service cannot be asked who it is: " + err.Error()
	case health.Folder != r.AcquireFolder:
		return 0, "another machine-service answers than the one that was asked"
	case health.Instance == r.AcquireInstance:
		return 0, "the service that was asked still runs and may still make it"
	}
	return max(0, acquireSettle-since), ""
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
