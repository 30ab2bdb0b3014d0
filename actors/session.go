package actors

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/exitpolicy"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// creationAttempts is how often a name is tried: another process of the same session identity may be faster.
const creationAttempts = 20

// session decides about slots, names, the actors of its guests, and its own end. One that crashes finds its guests in the roster
// again.
type session struct {
	*sessionParts
	waiting map[string][]Reply[error] // who waits for the actors of a guest that are on their way
	trees   map[string]Ref            // the actors of the guests
	policy  *exitpolicy.Policy
	ends    []Reply[int]
	code    *int // once the end is over
}

// pendingAcquire is an acquisition that has a slot and no name yet.
type pendingAcquire struct {
	ctx   context.Context
	in    guest.AcquireInput
	reply Reply[acquired]
}

// acquired is a guest that was made, not yet asked for a machine.
type acquired struct {
	name string
	err  error
}

func newSession(parts *sessionParts) *session {
	return &session{sessionParts: parts, waiting: map[string][]Reply[error]{}, trees: map[string]Ref{}}
}

// Init goes on with an end that has begun.
func (s *session) Init(c *Ctx) error {
	s.self.set(c.Self())
	s.readied.Do(func() { close(s.ready) })
	limits, now := exitpolicy.Limits{Grace: s.grace}, time.Now()
	end, over := s.roster.ended()
	if over {
		limits.Grace = max(0, s.grace-now.Sub(end.at))
	}
	s.policy = exitpolicy.New(limits, s.onExit, now)
	if over {
		s.step(c, exitpolicy.EndSeen{Trigger: end.trigger, Guests: s.toSettle()})
	}
	return nil
}

// Handle takes one message. Nothing here waits: what does is offloaded.
func (s *session) Handle(c *Ctx, msg any) error {
	switch m := msg.(type) {
	case acquireAsked:
		s.acquire(c, m.call)
	case guestCreated:
		s.created(m)
	case laneAsked:
		s.take(c, m.name, m.reply)
	case guestOpened:
		s.opened(c, m)
	case guestGone:
		s.removeTree(c, m.name)
		s.emit(GuestGone{Guest: m.name})
		s.step(c, exitpolicy.GuestSettled{Name: m.name})
	case treeStarted:
		s.treeStarted(c, m)
	case Down:
		s.treeEnded(m)
	case endAsked:
		s.end(c, m)
	case guestSettled:
		s.settled(c, m)
	case policyDue:
		s.step(c, exitpolicy.Ticked{})
	case Stop:
		return m.Err()
	}
	return nil
}

// Terminate has nothing to save: the roster and the records have it all.
func (s *session) Terminate(*Ctx, error) error { return nil }

// acquire takes a slot before anything is waited for.
func (s *session) acquire(c *Ctx, p *pendingAcquire) {
	if err := s.roster.reserve(); err != nil {
		p.reply.Send(acquired{err: err})
		return
	}
	Offload(c, p, func(actor context.Context) (string, error) {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(p.ctx))
		defer cancel(nil)
		defer context.AfterFunc(actor, func() { cancel(context.Cause(actor)) })()
		defer context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })()
		if p.ctx.Err() != nil {
			cancel(context.Cause(p.ctx))
		}
		filled := false
		defer func() { // here, since the session may be another one by then
			if !filled {
				s.roster.unreserve()
			}
		}()
		name, err := s.create(ctx, p.in)
		filled = err == nil
		return name, err
	}, func(name string, err error) any { return guestCreated{call: p, name: name, err: err} })
}

// create makes the guest and puts it into its slot; nothing has been asked of machine-service that allocates.
func (s *session) create(ctx context.Context, in guest.AcquireInput) (string, error) {
	for range creationAttempts {
		if ctx.Err() != nil {
			return "", guest.Refuse("the call was cancelled before anything was sent; no machine was allocated")
		}
		name, err := s.host.NextName(in.Task)
		if err != nil {
			return "", err
		}
		held, err := s.host.Create(ctx, name, in)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		s.roster.fill(name, held)
		return name, nil
	}
	return "", guest.Refuse("every name tried for task %q was taken by another process of this session; nothing was allocated", in.Task)
}

func (s *session) created(m guestCreated) {
	if m.err != nil {
		m.call.reply.Send(acquired{err: m.err})
		return
	}
	s.emit(GuestOpened{Guest: m.name})
	m.call.reply.Send(acquired{name: m.name})
}

// take makes sure that a guest is owned and its actors are there, or will be.
func (s *session) take(c *Ctx, name string, reply Reply[error]) {
	e, err := s.roster.find(name)
	if err != nil || s.trees[name].Alive() {
		reply.Send(err)
		return
	}
	others, begun := s.waiting[name]
	s.waiting[name] = append(others, reply)
	switch {
	case begun:
	case e.held != nil:
		s.startTree(c, name)
	default:
		Offload(c, guestOpened{name: name}, func(ctx context.Context) (nothing, error) {
			held, err := s.host.Open(ctx, name)
			if err == nil {
				s.roster.opened(name, held)
			}
			return nothing{}, err
		}, func(_ nothing, err error) any { return guestOpened{name: name, err: err} })
	}
}

func (s *session) opened(c *Ctx, m guestOpened) {
	if m.err == nil {
		s.emit(GuestOpened{Guest: m.name})
		s.startTree(c, m.name)
		return
	}
	var unknown *guest.UnknownGuestError
	if errors.As(m.err, &unknown) { // its last owner ended it meanwhile
		s.roster.remove(m.name)
		m.err = &guest.UnknownGuestError{Name: m.name, Held: s.roster.held()}
	}
	s.tellWaiting(m.name, m.err)
}

func (s *session) tellWaiting(name string, err error) {
	for _, reply := range s.waiting[name] {
		reply.Send(err)
	}
	delete(s.waiting, name)
}

// startTree starts the actors of a guest; those that a session before this incarnation started are found.
func (s *session) startTree(c *Ctx, name string) {
	parent := c.Parent()
	Offload(c, treeStarted{name: name}, func(ctx context.Context) (Ref, error) {
		guests, err := childOf(ctx, parent, guestsID)
		if err != nil {
			return Ref{}, err
		}
		tree, err := AddChild(ctx, guests, guestTree(s.sessionParts, name))
		if errors.Is(err, supervisor.ErrExists) {
			return childOf(ctx, guests, name)
		}
		return tree, err
	}, func(tree Ref, err error) any { return treeStarted{name: name, tree: tree, err: err} })
}

func (s *session) treeStarted(c *Ctx, m treeStarted) {
	if m.err == nil {
		s.trees[m.name] = m.tree
		c.Watch(m.tree)
	}
	s.tellWaiting(m.name, m.err)
}

// treeEnded notes that the actors of a guest have given up; its record and machine stay.
func (s *session) treeEnded(m Down) {
	name := m.Ref.ID()
	delete(s.trees, name)
	if supervisor.IsNormal(m.Reason) {
		return
	}
	text := "the relay's part that works for this guest failed again and again; the next call on it begins anew"
	s.roster.update(name, func(e *entry) { e.failed = text })
	s.emit(GuestFailed{Guest: name, Err: m.Reason})
}

// removeTree ends the actors of a guest that is gone.
func (s *session) removeTree(c *Ctx, name string) {
	parent := c.Parent()
	Offload(c, removal{name}, func(ctx context.Context) (nothing, error) {
		guests, err := childOf(ctx, parent, guestsID)
		if err != nil {
			return nothing{}, err
		}
		return nothing{}, RemoveChild(ctx, guests, name)
	}, func(nothing, error) any { return nothing{} })
}

// end begins the end of the session, once.
func (s *session) end(c *Ctx, m endAsked) {
	if s.code != nil {
		m.reply.Send(*s.code)
		return
	}
	s.ends = append(s.ends, m.reply)
	s.roster.begin(m.trigger, time.Now())
	s.step(c, exitpolicy.EndSeen{Trigger: m.trigger, Guests: s.toSettle()})
}

// toSettle names the guests that the end of the session concerns: a pause those that are owned, a release those of an earlier
// process too.
func (s *session) toSettle() []string {
	var names []string
	for _, e := range s.roster.all() {
		if e.held != nil || s.onExit == exitpolicy.Release {
			names = append(names, e.name)
		}
	}
	return names
}

func (s *session) settled(c *Ctx, m guestSettled) {
	if m.err == nil {
		s.step(c, exitpolicy.GuestSettled{Name: m.name})
		return
	}
	s.emit(SettleFailed{Guest: m.name, Choice: string(s.onExit), Err: m.err})
	s.step(c, exitpolicy.GuestFailed{Name: m.name, Reason: m.err.Error()})
}

// step tells the exit policy an event, carries out what it orders and sets the one timer.
func (s *session) step(c *Ctx, event exitpolicy.Event) {
	for _, effect := range s.policy.Step(time.Now(), event) {
		s.carryOut(c, effect)
	}
	if at, ok := s.policy.Next(); ok {
		c.After(policyDue{}, time.Until(at), policyDue{})
		return
	}
	c.Cancel(policyDue{})
}

func (s *session) carryOut(c *Ctx, effect exitpolicy.Effect) {
	switch e := effect.(type) {
	case exitpolicy.StopAdmitting:
		s.emit(SessionEnding{Trigger: e.Trigger})
	case exitpolicy.SettleGuest:
		s.settle(c, e.Name, e.Choice)
	case exitpolicy.CancelInFlight:
		for _, entry := range s.roster.all() {
			entry.lane.Tell(cutOff{})
		}
	case exitpolicy.SettleDirectly:
		s.settleDirectly(c, e.Name, e.Choice)
	case exitpolicy.Quit:
		s.emit(SessionEnded{Code: e.Code, Left: e.Left})
		s.code = &e.Code
		for _, reply := range s.ends {
			reply.Send(e.Code)
		}
		s.ends = nil
	}
}

// settle asks a guest's lane to end with the given choice, behind what is in flight there.
func (s *session) settle(c *Ctx, name string, choice exitpolicy.Choice) {
	Offload(c, guestSettled{name: name}, func(ctx context.Context) (nothing, error) {
		lane, err := s.lane(ctx, name)
		if err != nil {
			return nothing{}, err
		}
		lane.Tell(settleAsked{choice})
		return nothing{}, nil
	}, func(_ nothing, err error) any {
		if err == nil {
			return nothing{}
		}
		var (
			unknown   *guest.UnknownGuestError
			elsewhere *guest.HeldElsewhereError
		)
		if errors.As(err, &unknown) || errors.As(err, &elsewhere) {
			err = nil // it is not ours to settle
		}
		return guestSettled{name: name, err: err}
	})
}

// settleDirectly makes one attempt beside whatever hangs in the guest's turn.
func (s *session) settleDirectly(c *Ctx, name string, choice exitpolicy.Choice) {
	e, err := s.roster.find(name)
	if err != nil || e.held == nil {
		return
	}
	Offload(c, directly{name}, func(ctx context.Context) (nothing, error) {
		return nothing{}, s.sessionParts.settleDirectly(ctx, e, choice)
	}, func(_ nothing, err error) any {
		if err != nil && e.releasing { // the release in the guest's turn is still under way: the last word is its own
			return nothing{}
		}
		return guestSettled{name: name, err: err}
	})
}

// Names of offloaded work.
type (
	directly struct{ name string }
	removal  struct{ name string }
)
