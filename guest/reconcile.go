package guest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sort"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

const witnessTimeout = 15 * time.Second

// Lifecycle is the last fact about a guest, beside its evidence folder: <folder>.lifecycle.json.
type Lifecycle struct {
	Guest      string     `json:"guest"`
	Purpose    string     `json:"purpose"`
	VM         string     `json:"vm,omitempty"`
	Released   bool       `json:"released"`
	Reason     string     `json:"reason"`
	Failed     string     `json:"failed,omitempty"`
	Delivered  *Delivered `json:"delivered,omitempty"`
	FinishedAt string     `json:"finishedAt"`
}

// Reconcile compares the record with machine-service, before an operation: one request. It adopts the machine of an
// acquisition whose answer was lost, updates state and expiry, and refuses a machine that is not ours any more. When the
// service knows the machine no longer and the witness proves that the host has none, the guest is cleaned up: Gone is true and
// the error says so. Every other failure keeps the guest.
func (g *Guest) Reconcile(ctx context.Context) error {
	if g.Gone() {
		return Refuse("guest %q is gone", g.name)
	}
	if err := g.checkBinding(); err != nil {
		return g.fail("reconcile", err)
	}
	err := g.reconcile(ctx)
	if g.Gone() {
		return err
	}
	if err != nil {
		_ = g.update(func(r *Record) { r.GuestState = "unknown" }) // fail records the error itself
		return g.fail("reconcile", err)
	}
	g.unreconciled.Store(false)
	if err := g.importEvents(); err != nil { // nothing to do, unless a process died just after it adopted the machine
		return g.fail("reconcile", err)
	}
	return nil
}

// checkBinding refuses a guest that another machine-service made, before that one or ours is asked anything.
func (g *Guest) checkBinding() error {
	if r := g.rec(); !maps.Equal(r.Backend, g.s.opt.Backend) {
		return Refuse("guest %q belongs to another machine-service (%v, this session uses %v); select the original environment", g.name, r.Backend, g.s.opt.Backend)
	}
	return nil
}

func (g *Guest) reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	r := g.rec()
	if r.Lease == nil {
		return g.findMachine(ctx)
	}
	lease, err := g.s.opt.API.Get(ctx, r.Lease.Name)
	if errors.Is(err, machine.ErrUnknownMachine) {
		return g.lost(ctx, r.Lease.Name)
	}
	if err != nil {
		return fmt.Errorf("cannot ask machine-service about machine %s; guest %q is kept, try again: %w", r.Lease.Name, g.name, err)
	}
	if err := g.checkLease(lease); err != nil {
		return fmt.Errorf("machine %s cannot be used; guest %q is kept: %w", r.Lease.Name, g.name, err)
	}
	if r.GuestState == lease.State && r.ExpiresAt == lease.TTLExpiresAt {
		return nil
	}
	return g.update(func(r *Record) {
		r.Lease = &lease
		r.GuestState = lease.State
		r.ExpiresAt = lease.TTLExpiresAt
	})
}

// findMachine looks for the machine of an acquisition whose answer is not recorded.
func (g *Guest) findMachine(ctx context.Context) error {
	if !g.rec().AcquisitionInFlight {
		if err := g.forget(); err != nil {
			return err
		}
		return Refuse("guest %q never asked for a machine, so none was allocated; its name is given up: acquire again", g.name)
	}
	found, err := g.byPurpose(ctx)
	if err != nil {
		return fmt.Errorf("cannot look for the machine of guest %q, which is kept: %w", g.name, err)
	}
	switch len(found) {
	case 1:
		if err := g.checkLease(found[0]); err != nil {
			return err
		}
		return g.adopt(found[0])
	case 0:
		ended, why, err := g.neverAllocated(ctx)
		if err == nil && ended {
			err = Refuse("the acquisition of guest %q never completed and no machine exists for it, so its name is given up: acquire again", g.name)
		} else if err == nil {
			err = fmt.Errorf("the acquisition of guest %q was sent and its answer lost; machine-service shows no machine for it: %s", g.name, why)
		}
		return err
	}
	return fmt.Errorf("machine-service shows %d machines with the purpose %s; which is guest %q cannot be told, and it is kept", len(found), g.rec().Purpose, g.name)
}

// byPurpose lists the machines that were asked for with our purpose.
func (g *Guest) byPurpose(ctx context.Context) ([]machine.Lease, error) {
	list, err := g.s.opt.API.List(ctx)
	if err != nil {
		return nil, err
	}
	var found []machine.Lease
	for name, lease := range list {
		if lease.Purpose == g.rec().Purpose {
			if lease.Name == "" {
				lease.Name = name
			}
			found = append(found, lease)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found, nil
}

// lost handles a machine that the service does not know: gone only if the witness says so too.
func (g *Guest) lost(ctx context.Context, name string) error {
	if err := g.proveDestroyed(ctx, name); err != nil {
		return fmt.Errorf("machine-service knows no machine %s any more, which proves nothing by itself; guest %q is kept: %w", name, g.name, err)
	}
	if err := g.close("lease absent and destruction verified"); err != nil {
		return err
	}
	return Refuse("guest %q is gone: its lease has ended and its machine %s is destroyed; evidence so far is in %s", g.name, name, g.rec().HostRoot)
}

// proveDestroyed asks the witness, which does not depend on machine-service.
func (g *Guest) proveDestroyed(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessTimeout)
	defer cancel()
	machines, err := g.s.opt.Witness.Machines(ctx)
	if err != nil {
		return fmt.Errorf("cannot prove that machine %s is destroyed: %w", name, err)
	}
	for _, m := range machines {
		if m == name {
			return fmt.Errorf("machine %s still exists on the host", name)
		}
	}
	return nil
}

// close ends a guest whose machine is proved to be gone: released is durable, then the last fact, then the record is null.
// A death in between is taken up by the next reconcile.
func (g *Guest) close(reason string) error {
	if err := g.update(func(r *Record) { r.Released, r.Active = true, false }); err != nil {
		return err
	}
	r := g.rec()
	fact := Lifecycle{Guest: g.name, Purpose: r.Purpose, Released: true, Reason: reason, Failed: r.LastError, Delivered: r.Delivered, FinishedAt: isoTime(g.now())}
	if r.Lease != nil {
		fact.VM = r.Lease.Name
	}
	if err := makeDir(r.HostRoot); err != nil {
		return err
	}
	path := r.HostRoot + ".lifecycle.json"
	if exists(path) { // by a process that died before it cleared the record; its reason is the true one
		return g.forget()
	}
	if err := evidence.WriteRecord(path, fact); err != nil {
		return fmt.Errorf("cannot write the lifecycle record: %w", err)
	}
	return g.forget()
}
