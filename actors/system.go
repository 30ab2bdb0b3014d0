package actors

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/actors/exitpolicy"
	"github.com/seed-1e4c9d81/mcp-relay/actors/leaseclock"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// Times of the end.
const (
	stopTime  = 5 * time.Second       // for the tree to stop once the exit policy is carried out
	retryTime = 20 * time.Millisecond // until a session that restarts is asked again
)

// Options of a relay. Guest (or Host), MaxGuests and OnExit are required.
type Options struct {
	Guest     guest.Options
	MaxGuests int            // guests held at the same time, those being acquired included
	OnExit    string         // what becomes of held guests at the end: pause or release
	Grace     time.Duration  // for work in flight at the end, and for pausing or releasing in turn; 0 cancels at once
	Log       zerolog.Logger // events are written to it
	Events    func(Event)    // told of every event too, in order, by one goroutine; may be nil

	Host Host // does the work instead of a guest.Session of Guest; for those who bring their own
}

// System is a running relay: the actors of one session.
type System struct {
	parts  *sessionParts
	engine *Engine
	events *teller
	relay  *Relay
	root   Ref
	failed chan struct{} // closed when the actors have ended unasked
	fail   sync.Once
	asked  atomic.Bool // the actors were asked to stop
	ending sync.Once
	over   chan struct{} // closed when the end is over
	code   int           // read only after that
}

// Start starts the actors. The guests that an earlier process of the same session identity left are shown at once and taken up by
// the first call that needs them; no lock is taken and nobody is asked. The relay runs until End; ctx bounds the start only.
func Start(ctx context.Context, o Options) (*System, error) {
	events := newTeller(sinkOf(o))
	s, err := start(ctx, o, events)
	if err != nil {
		events.stop()
		return nil, fmt.Errorf("cannot start the relay: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, o Options, events *teller) (*System, error) {
	parts, err := newParts(o, events.tell)
	if err != nil {
		return nil, err
	}
	engine, err := NewEngine(EngineOptions{Emit: func(e supervisor.Event) { parts.emit(Supervised{e}) }})
	if err != nil {
		return nil, err
	}
	s := &System{parts: parts, engine: engine, events: events, relay: newRelay(parts), failed: make(chan struct{}), over: make(chan struct{})}
	root, over := StartRoot(context.WithoutCancel(ctx), engine, rootID, rootTree(parts, s.treeOver))
	s.root = root
	select {
	case <-parts.ready:
		parts.emit(SessionStarted{Found: len(parts.roster.held())})
		return s, nil
	case reason := <-over:
		return nil, reason
	case <-ctx.Done():
		s.stopTree()
		return nil, context.Cause(ctx)
	}
}

// newParts checks the options and reads what an earlier process left.
func newParts(o Options, emit func(Event)) (*sessionParts, error) {
	if o.MaxGuests < 1 {
		return nil, fmt.Errorf("at most %d guests can never hold one", o.MaxGuests)
	}
	choice := exitpolicy.Choice(o.OnExit)
	if choice != exitpolicy.Pause && choice != exitpolicy.Release {
		return nil, fmt.Errorf("the exit policy %q is neither pause nor release", o.OnExit)
	}
	if o.Grace < 0 {
		return nil, fmt.Errorf("the grace %v is negative", o.Grace)
	}
	p := &sessionParts{
		onExit: choice, grace: o.Grace, emit: emit, project: o.Guest.Project, ready: make(chan struct{}),
		renewal: leaseclock.Limits{Window: o.Guest.Window, Minimum: o.Guest.Minimum}.WithDefaults(),
	}
	if o.Guest.API != nil {
		p.service = o.Guest.API.Origin()
	}
	host, err := hostOf(o, emit)
	if err != nil {
		return nil, err
	}
	stored, err := host.Records()
	if err != nil {
		return nil, err
	}
	p.host, p.roster = host, newRoster(o.MaxGuests, stored)
	return p, nil
}

// hostOf is the guest library, whose events are told with ours.
func hostOf(o Options, emit func(Event)) (Host, error) {
	if o.Host != nil {
		return o.Host, nil
	}
	options, before := o.Guest, o.Guest.Emit
	options.Emit = func(e guest.Event) {
		emit(GuestNoted{e})
		if before != nil {
			before(e)
		}
	}
	session, err := guest.NewSession(options)
	if err != nil {
		return nil, err
	}
	return library{session}, nil
}

// sinkOf is who is told of events.
func sinkOf(o Options) func(Event) {
	log := logged(o.Log)
	return func(e Event) {
		log(e)
		if o.Events != nil {
			o.Events(e)
		}
	}
}

// Relay answers the tools.
func (s *System) Relay() *Relay { return s.relay }

// Failed is closed when the session's actors have given up, which should never happen: whoever started the relay ends it then.
func (s *System) Failed() <-chan struct{} { return s.failed }

// Tree shows every actor as it stands, without asking any.
func (s *System) Tree() Node { return Inspect(s.root) }

// Calls lists the calls in flight, the oldest first.
func (s *System) Calls(ctx context.Context) ([]CallView, error) {
	return Ask(ctx, s.parts.gateway.get(), func(reply Reply[[]CallView]) any { return callsAsked{reply} })
}

// End ends the session for the reason given: no call is taken any more, every guest held is paused or released, in turn and side by
// side, and what hangs is cut off when the grace is over. The channel yields the exit code once everything has stopped: 0, or 1 when a
// guest could not be settled. Ending twice is ending once; every channel yields the same code.
func (s *System) End(trigger string) <-chan int {
	s.parts.roster.begin(trigger, time.Now())
	s.ending.Do(func() {
		go func() {
			s.code = s.settle(trigger)
			s.stopTree()
			s.events.stop()
			close(s.over)
		}()
	})
	code := make(chan int, 1)
	go func() {
		<-s.over
		code <- s.code
	}()
	return code
}

// settle has the exit policy carried out, by the session that lives now or its next incarnation.
func (s *System) settle(trigger string) int {
	for {
		code, err := Ask(context.Background(), s.parts.self.get(), func(reply Reply[int]) any { return endAsked{trigger, reply} })
		if err == nil {
			return code
		}
		select {
		case <-s.failed:
			s.settleAlone()
			return 1
		case <-time.After(retryTime):
		}
	}
}

// settleAlone carries the exit policy out without the actors, which have given up: one attempt for each guest that is owned.
func (s *System) settleAlone() {
	limits := exitpolicy.Limits{}.WithDefaults(s.parts.onExit)
	ctx, cancel := context.WithTimeout(context.Background(), limits.Direct)
	defer cancel()
	var all sync.WaitGroup
	for _, e := range s.parts.roster.all() {
		if e.held == nil {
			continue
		}
		all.Go(func() {
			if err := s.parts.settleDirectly(ctx, e, s.parts.onExit); err != nil {
				s.parts.emit(SettleFailed{Guest: e.name, Choice: string(s.parts.onExit), Err: err})
			}
		})
	}
	settled := make(chan struct{})
	go func() { all.Wait(); close(settled) }()
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

// treeOver notes the end of what must not end unasked.
func (s *System) treeOver(error) {
	if !s.asked.Load() {
		s.fail.Do(func() { close(s.failed) })
	}
}

// stopTree stops every actor. What hangs in its work is left behind.
func (s *System) stopTree() {
	s.asked.Store(true)
	s.root.Tell(Stop{})
	select {
	case <-s.root.Done():
	case <-time.After(stopTime):
	}
}
