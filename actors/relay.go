package actors

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/callqueue"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// imageDeadline bounds one relay_image from the call on, its wait for its turn included.
const imageDeadline = 90 * time.Second

// Relay answers the tools: it is what the MCP gateway needs from whoever does the work. Calls on one guest keep the order in which
// they come here, calls on different guests never wait for each other, and nothing else waits for a guest.
type Relay struct {
	parts *sessionParts
	calls atomic.Uint64
	doors doors
}

func newRelay(parts *sessionParts) *Relay {
	return &Relay{parts: parts, doors: doors{queues: map[string][]chan struct{}{}}}
}

// Search asks the catalogue; it never waits for a guest.
func (r *Relay) Search(ctx context.Context, in guest.SearchInput) (guest.Result, error) {
	return r.booked(ctx, "relay_search", "", func() (guest.Result, error) { return r.parts.host.Search(ctx, in) })
}

// Probe observes the host, without waiting for a guest, or one guest in its turn.
func (r *Relay) Probe(ctx context.Context, in guest.ProbeInput) (guest.Result, error) {
	if in.Guest == "" {
		return r.booked(ctx, "relay_probe", "", func() (guest.Result, error) { return r.parts.host.ProbeHost(ctx, r.heldStatus()) })
	}
	return r.onGuest(ctx, in.Guest, operation{tool: "relay_probe", reconcile: true,
		run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Probe(ctx) }})
}

// heldStatus is the status of every guest held, for the probe's report.
func (r *Relay) heldStatus() []any {
	list := []any{}
	for _, e := range r.parts.roster.all() {
		list = append(list, e.status())
	}
	return list
}

// Acquire takes a slot, makes a guest and asks for its machine, once. A request that has been sent is not cancelled: a machine that
// comes after all is owned and kept.
func (r *Relay) Acquire(ctx context.Context, in guest.AcquireInput) (guest.Result, error) {
	return r.booked(ctx, "relay_acquire", "", func() (guest.Result, error) {
		made, err := Ask(context.WithoutCancel(ctx), r.parts.self.get(), func(reply Reply[acquired]) any {
			return acquireAsked{&pendingAcquire{ctx: ctx, in: in, reply: reply}}
		})
		if err := errors.Join(err, made.err); err != nil {
			return guest.Result{}, err
		}
		if end, over := r.parts.roster.ended(); over { // a request that is over already is never sent, and leaves nothing behind
			stopped, cancel := context.WithCancelCause(ctx)
			cancel(refuseEnding(end.trigger))
			ctx = stopped
		}
		return r.submit(ctx, made.name, operation{tool: "relay_acquire", renew: true, patience: awaited,
			run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Acquire(ctx) }})
	})
}

// Stage brings the guest runtime and project files into a guest.
func (r *Relay) Stage(ctx context.Context, in guest.StageInput) (guest.Result, error) {
	return r.onGuest(ctx, in.Guest, operation{tool: "relay_stage", reconcile: true,
		run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Stage(ctx, in) }})
}

// Script runs one script, at most once.
func (r *Relay) Script(ctx context.Context, in guest.Script) (guest.Result, error) {
	return r.onGuest(ctx, in.Guest, operation{tool: "relay_script", reconcile: true,
		run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Script(ctx, in) }})
}

// Image answers a saved picture. Without a guest, the one that has it is found.
func (r *Relay) Image(ctx context.Context, in guest.ImageInput) (guest.Result, error) {
	expires := time.Now().Add(imageDeadline)
	name, err := r.imageGuest(ctx, in)
	if err != nil {
		return guest.Result{}, err
	}
	in.Guest = name
	return r.onGuest(ctx, name, operation{tool: "relay_image", expires: expires, late: func() guest.Result { return lateImage(in) },
		run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Image(ctx, in) }})
}

// lateImage is the answer of a picture that could not be fetched in time because others were before it.
func lateImage(in guest.ImageInput) guest.Result {
	return guest.Result{
		Failed: true,
		Value:  guest.ImageResult{Guest: in.Guest, Target: in.Target},
		Delivery: &guest.ImageDelivery{Status: "transfer-failed",
			Diagnostic: "the picture waited behind earlier calls on its guest for as long as it may; it is not lost: ask for it again"},
	}
}

// Extract brings declared outputs over.
func (r *Relay) Extract(ctx context.Context, in guest.ExtractInput) (guest.Result, error) {
	return r.onGuest(ctx, in.Guest, operation{tool: "relay_extract", reconcile: true,
		run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Extract(ctx, in) }})
}

// Finish seals the evidence of a guest, delivers it and destroys the machine.
func (r *Relay) Finish(ctx context.Context, in guest.NamedInput) (guest.Result, error) {
	return r.stillHeld(r.onGuest(ctx, in.Guest, operation{tool: "relay_finish", reconcile: true, concluding: true,
		run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Finish(ctx) }}))
}

// Release destroys the machine of a guest, whatever becomes of its evidence. Once begun it is not cancelled.
func (r *Relay) Release(ctx context.Context, in guest.NamedInput) (guest.Result, error) {
	if len(r.parts.roster.held()) == 0 {
		return nothingToRelease(), nil
	}
	return r.stillHeld(r.onGuest(ctx, in.Guest, operation{tool: "relay_release", concluding: true, patience: goesOn,
		run: func(ctx context.Context, held Held) (guest.Result, error) { return held.Release(ctx) }}))
}

// Status answers from the board; it waits for no guest.
func (r *Relay) Status(ctx context.Context) (guest.Result, error) {
	return r.booked(ctx, "relay_status", "", func() (guest.Result, error) {
		status, err := Ask(ctx, r.parts.board.get(), func(reply Reply[guest.StatusResult]) any { return statusAsked{reply} })
		if errors.Is(err, ErrDown) { // it is being restarted; what it would have said stands here, too
			status, err = r.parts.status(), nil
		}
		return guest.Result{Value: status}, err
	})
}

// booked keeps a call in the gateway's books while it is answered.
func (r *Relay) booked(_ context.Context, tool, name string, answer func() (guest.Result, error)) (guest.Result, error) {
	id := strconv.FormatUint(r.calls.Add(1), 10)
	r.parts.gateway.get().Tell(callBegan{CallView{Call: id, Tool: tool, Guest: name, Since: time.Now()}})
	defer func() { r.parts.gateway.get().Tell(callAnswered{id}) }()
	if end, over := r.parts.roster.ended(); over && tool != "relay_status" {
		return guest.Result{}, refuseEnding(end.trigger)
	}
	return answer()
}

func (r *Relay) onGuest(ctx context.Context, name string, op operation) (guest.Result, error) {
	return r.booked(ctx, op.tool, name, func() (guest.Result, error) { return r.submit(ctx, name, op) })
}

// submit hands an operation to the lane of its guest and waits for the one answer.
func (r *Relay) submit(ctx context.Context, name string, op operation) (guest.Result, error) {
	answered := make(chan outcome, 1)
	c := &call{
		id: callqueue.CallID(strconv.FormatUint(r.calls.Add(1), 10)), guest: name, op: op, ctx: ctx,
		answer: func(o outcome) {
			select {
			case answered <- o:
			default: // the first word stands
			}
		},
	}
	lane, err := r.handOver(ctx, c)
	if err != nil {
		return guest.Result{}, err
	}
	guest.Admitted(ctx)
	defer context.AfterFunc(ctx, func() { lane.Tell(callCancelled{c.id, context.Cause(ctx)}) })()
	select {
	case o := <-answered:
		return o.result, o.err
	case <-lane.Done():
	}
	select {
	case o := <-answered:
		return o.result, o.err
	default:
		e, _ := r.parts.roster.find(name)
		o := c.lost(e.held)
		return o.result, o.err
	}
}

// handOver tells a call to the lane of its guest, behind every call on that guest that came before.
func (r *Relay) handOver(ctx context.Context, c *call) (Ref, error) {
	if c.op.patience == awaited {
		ctx = context.WithoutCancel(ctx) // it has something to undo
	}
	leave, err := r.doors.enter(ctx, c.guest)
	defer leave()
	if err != nil {
		return Ref{}, c.neverBegan(callqueue.Cancelled, "").err
	}
	lane, err := r.parts.lane(context.WithoutCancel(ctx), c.guest)
	if err != nil {
		return Ref{}, err
	}
	lane.Tell(callSubmitted{c})
	return lane, nil
}

// stillHeld adds to a delivery's result the guests that are held after it.
func (r *Relay) stillHeld(result guest.Result, err error) (guest.Result, error) {
	if finished, ok := result.Value.(*guest.FinishResult); ok && err == nil {
		finished.Held = r.parts.roster.held()
	}
	return result, err
}

// imageGuest finds the guest that a picture's selector means.
func (r *Relay) imageGuest(ctx context.Context, in guest.ImageInput) (string, error) {
	if in.Guest != "" {
		return in.Guest, nil
	}
	names := r.parts.roster.held()
	if len(names) == 1 {
		return names[0], nil
	}
	if in.Target.Source != "application" {
		for _, name := range names {
			if r.hasTarget(ctx, name, in.Target) {
				return name, nil
			}
		}
	}
	if len(names) == 0 {
		return "", guest.Refuse("no guest is held, so there is no saved image to show")
	}
	return "", guest.Refuse("this image cannot be told to belong to one guest; name one of: %s", strings.Join(names, ", "))
}

// hasTarget asks a guest's records on the host; a guest of an earlier process is opened for it.
func (r *Relay) hasTarget(ctx context.Context, name string, target guest.ImageTarget) bool {
	if _, err := r.parts.lane(ctx, name); err != nil {
		return false
	}
	e, err := r.parts.roster.find(name)
	return err == nil && e.held != nil && e.held.HasTarget(target)
}

// nothingReleased is what relay_release answers when there is nothing that it could release.
type nothingReleased struct {
	Active     bool   `json:"active"`
	OwnedLease bool   `json:"ownedLease"`
	Released   bool   `json:"released"`
	Diagnostic string `json:"diagnostic"`
}

func nothingToRelease() guest.Result {
	return guest.Result{Failed: true, Value: nothingReleased{Diagnostic: "this session holds no guest, so nothing was released. A session sees only the guests " +
		"of its own identity: MCP_RELAY_SESSION, which is random for each process unless it is set. A guest of another identity is released " +
		"by a relay with that identity, or ends with its lease."}}
}
