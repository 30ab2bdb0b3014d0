package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Time limits of the small requests.
const (
	factTimeout      = 5 * time.Second  // health, images
	reconcileTimeout = 10 * time.Second // one machine, or the list of them
	beatTimeout      = 10 * time.Second
)

// AcquireResult is what relay_acquire answers.
type AcquireResult struct {
	Status
	GuestRoot    string        `json:"guestRoot"`
	Workspace    string        `json:"workspace"`
	Declarations []Declaration `json:"declarations"`
	Deadline     string        `json:"deadline"`
}

// checkImage asks the service, before anything is recorded, whether the image can be had.
func (s *Session) checkImage(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*factTimeout)
	defer cancel()
	health, err := s.opt.API.Health(ctx)
	if err != nil {
		return fmt.Errorf("cannot reach machine-service at %s, nothing was allocated: %w", s.opt.API.Origin(), err)
	}
	if !health.OK || health.Service != machine.ServiceName {
		return Refuse("what answers at %s is not a healthy %s (it says %q); nothing was allocated", s.opt.API.Origin(), machine.ServiceName, health.Service)
	}
	images, err := s.opt.API.Images(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the images, nothing was allocated: %w", err)
	}
	entry, known := images.Images[image]
	if !known {
		return Refuse("there is no image %q; relay_probe lists those there are", image)
	}
	if !entry.BaseAvailable {
		return Refuse("the image %q is not available on this host yet; relay_probe lists those that are", image)
	}
	return nil
}

// Acquire asks for the machine, once. The mark that it is in flight is durable before the request leaves. A definite refusal
// ends the guest (Gone, *RefusedError) and leaves only its events; a lost or unusable answer keeps it, to be reconciled by
// its purpose: it is never asked for again. Once sent it cannot be cancelled: a machine that comes after the caller
// has gone is kept, and the error says so.
func (g *Guest) Acquire(ctx context.Context) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, errors.Join(Refuse("the call was cancelled before anything was sent; no machine was allocated"), g.forget())
	}
	lease, sent, err := g.request(ctx)
	if !sent {
		return Result{}, NoEffect(errors.Join(fmt.Errorf("cannot begin the acquisition, nothing was sent and no machine was allocated: %w", err), g.forget()))
	}
	if err != nil && (machine.Refused(err) || neverSent(err)) {
		return Result{}, g.acquireRefused(err)
	}
	if err == nil {
		err = g.checkLease(lease)
	}
	if err != nil {
		return Result{}, g.fail("acquire", fmt.Errorf("the outcome of the acquisition is not known and it is not repeated; guest %q stays owned and is matched "+
			"by its purpose at the next call on it, or call relay_release: %w", g.name, err))
	}
	if err := g.adopt(lease); err != nil {
		return Result{}, g.fail("acquire", fmt.Errorf("machine %s was allocated for guest %q, but cannot be recorded: %w", lease.Name, g.name, err))
	}
	if err := ctx.Err(); err != nil {
		return Result{}, g.fail("acquire", fmt.Errorf("the call was cancelled (%w) after the request was sent: machine %s was allocated, is owned as guest %q and "+
			"retained; continue with it, or call relay_finish or relay_release", context.Cause(ctx), lease.Name, g.name))
	}
	return Result{Value: g.acquireResult()}, nil
}

// requestAttempts bounds how often a request is made anew because the service had been replaced after it was asked who it is.
const requestAttempts = 3

// request sends the acquisition to the process that is noted, durably, as having it; sent is false when the note cannot be made.
// A process that took the place of the noted one refuses, having begun nothing, and is noted and asked itself.
func (g *Guest) request(ctx context.Context) (lease machine.Lease, sent bool, err error) {
	for attempt := 1; ; attempt++ {
		if err := g.noteService(ctx); err != nil {
			return machine.Lease{}, false, err
		}
		lease, err := g.s.opt.API.Acquire(ctx, g.acquireRequest())
		var answer *machine.Error
		if attempt == requestAttempts || !errors.As(err, &answer) || answer.Code != machine.CodeOtherInstance {
			return lease, true, err
		}
	}
}

func (g *Guest) acquireResult() AcquireResult {
	r := g.rec()
	return AcquireResult{Status: g.Status(), GuestRoot: r.GuestRoot, Workspace: r.workspace(), Declarations: r.Extractions, Deadline: isoTime(r.deadline())}
}

func (g *Guest) acquireRequest() machine.AcquireRequest {
	r := g.rec()
	return machine.AcquireRequest{
		Purpose: r.Purpose, Image: r.Image, Env: r.Env, TTL: min(g.s.opt.Window, hours(r.TTLHours)), Network: r.Network, VNC: r.VNC,
		Instance: r.AcquireInstance,
	}
}

// acquireRefused ends a guest that was proved not to have a machine.
func (g *Guest) acquireRefused(cause error) error {
	logged := g.log(eventAcquireRefused, "", map[string]any{"error": cause.Error()})
	refusal := Refuse("no machine was allocated: %v", cause)
	if machine.Refused(cause) && errors.Is(cause, machine.ErrCapacity) {
		refusal = Refuse("no machine was allocated, there is no room for one now: %v; finish or release a guest, or try again later", cause)
	}
	return errors.Join(refusal, logged, g.forget())
}

// checkLease says whether a lease is the one asked for.
func (g *Guest) checkLease(lease machine.Lease) error {
	r := g.rec()
	switch {
	case lease.Name == "" || strings.ContainsAny(lease.Name, "/\\\x00"):
		return errors.New("the service answered a lease without a usable machine name")
	case lease.Purpose != r.Purpose:
		return fmt.Errorf("the service answered a lease of another purpose (%q)", lease.Purpose)
	case r.Lease != nil && r.Lease.Name != lease.Name:
		return fmt.Errorf("identity mismatch: the service answered machine %s where %s was asked for", lease.Name, r.Lease.Name)
	case r.Lease != nil && r.Lease.LeaseID != "" && lease.LeaseID != r.Lease.LeaseID:
		return fmt.Errorf("identity mismatch: machine %s now belongs to another lease", lease.Name)
	}
	return nil
}

// adopt records a machine as ours, before anything else can fail, and then opens the evidence folder.
func (g *Guest) adopt(lease machine.Lease) error {
	err := g.update(func(r *Record) {
		r.AcquisitionInFlight = false
		r.Lease = &lease
		r.GuestState = lease.State
		r.ExpiresAt = lease.TTLExpiresAt
		r.LastError = ""
	})
	if err != nil {
		return err
	}
	g.unreconciled.Store(false)
	return g.importEvents()
}

func acquireFacts(r Record) map[string]any {
	facts := map[string]any{
		"guest": r.Guest, "task": r.Task, "image": r.Image, "extractions": r.Extractions, "ttlHours": r.TTLHours,
		"fullWorkspace": r.FullWorkspace, "network": r.Network, "purpose": r.Purpose,
	}
	if r.Env != "" {
		facts["env"] = r.Env
	}
	if r.VNC != nil {
		facts["vnc"] = *r.VNC
	}
	return facts
}
