package exitpolicy

import (
	"fmt"
	"slices"
	"time"
)

// Choice is what is done with held guests.
type Choice string

// The choices.
const (
	Pause   Choice = "pause"
	Release Choice = "release"
)

// Limits of the end of a session.
type Limits struct {
	Grace  time.Duration // for the work in flight to end and the guests to be settled in order; 0 waits for nothing
	Tail   time.Duration // after the work in flight was cancelled; default 5 s
	Direct time.Duration // to settle what is left without waiting for its turn; default 12 s for a pause, 30 s for a release
}

// WithDefaults fills what has a default.
func (l Limits) WithDefaults(choice Choice) Limits {
	if l.Tail <= 0 {
		l.Tail = 5 * time.Second
	}
	if l.Direct <= 0 {
		l.Direct = 12 * time.Second
		if choice == Release {
			l.Direct = 30 * time.Second
		}
	}
	return l
}

// Event is a fact that the policy is told.
type Event interface{ event() }

// EndSeen says that the session ends, why, and which guests it holds; those that are being acquired count. A second one changes
// nothing.
type EndSeen struct {
	Trigger string
	Guests  []string
}

// GuestSettled says that a guest was paused, was released, or is gone.
type GuestSettled struct{ Name string }

// GuestFailed says that settling a guest has failed for good.
type GuestFailed struct{ Name, Reason string }

// Ticked says that the time of Next has come. Telling it early or late is harmless.
type Ticked struct{}

func (EndSeen) event()      {}
func (GuestSettled) event() {}
func (GuestFailed) event()  {}
func (Ticked) event()       {}

// Effect is an order of the policy. Effects are carried out in the order given.
type Effect interface {
	effect()
	String() string
}

// StopAdmitting orders every later call to be refused.
type StopAdmitting struct{ Trigger string }

// SettleGuest orders a guest to be settled in its turn, behind the work in flight. Exactly one GuestSettled or GuestFailed follows,
// if there is time.
type SettleGuest struct {
	Name   string
	Choice Choice
}

// CancelInFlight orders every operation in flight to be cancelled.
type CancelInFlight struct{}

// SettleDirectly orders one attempt to settle a guest beside whatever hangs in its turn.
type SettleDirectly struct {
	Name   string
	Choice Choice
}

// Quit orders the process to end. Left are the guests that are not settled.
type Quit struct {
	Code int // 0 when every guest is settled, else 1
	Left []string
}

func (StopAdmitting) effect()  {}
func (SettleGuest) effect()    {}
func (CancelInFlight) effect() {}
func (SettleDirectly) effect() {}
func (Quit) effect()           {}

func (e StopAdmitting) String() string  { return fmt.Sprintf("stop admitting (%s)", e.Trigger) }
func (e SettleGuest) String() string    { return fmt.Sprintf("%s %s in its turn", e.Choice, e.Name) }
func (CancelInFlight) String() string   { return "cancel what is in flight" }
func (e SettleDirectly) String() string { return fmt.Sprintf("%s %s directly", e.Choice, e.Name) }
func (e Quit) String() string {
	if len(e.Left) == 0 {
		return fmt.Sprintf("quit %d", e.Code)
	}
	return fmt.Sprintf("quit %d, left %v", e.Code, e.Left)
}

type phase int

const (
	open     phase = iota
	settling       // in order, within the grace
	cutting        // in flight is cancelled, within the tail
	direct         // beside the order, within the last budget
	over
)

func (p phase) String() string {
	return [...]string{"open", "settling", "cutting", "direct", "over"}[p]
}

// Policy is the end of one session. It is not safe for use by several goroutines.
type Policy struct {
	limits Limits
	choice Choice
	phase  phase
	until  time.Time // end of the phase
	asked  []string  // guests not settled yet, sorted
	failed []string
}

// View is a copy of what the policy knows.
type View struct {
	Phase  string // open, settling, cutting, direct, over
	Until  time.Time
	Asked  []string
	Failed []string
}

// New makes the policy of a session that goes on.
func New(limits Limits, choice Choice, _ time.Time) *Policy {
	return &Policy{limits: limits.WithDefaults(choice), choice: choice}
}

// View tells the state.
func (p *Policy) View() View {
	return View{Phase: p.phase.String(), Until: p.until, Asked: slices.Clone(p.asked), Failed: slices.Clone(p.failed)}
}

// Next is when the present phase ends by time.
func (p *Policy) Next() (time.Time, bool) {
	if p.phase == open || p.phase == over {
		return time.Time{}, false
	}
	return p.until, true
}

// Step takes in an event and answers what is to be done about it.
func (p *Policy) Step(now time.Time, ev Event) []Effect {
	var effects []Effect
	switch ev := ev.(type) {
	case EndSeen:
		effects = p.end(now, ev)
	case GuestSettled:
		p.settled(ev.Name)
	case GuestFailed:
		if p.settled(ev.Name) {
			p.failed = append(p.failed, ev.Name)
		}
	}
	return append(effects, p.advance(now)...)
}

func (p *Policy) end(now time.Time, ev EndSeen) []Effect {
	if p.phase != open {
		return nil
	}
	p.phase, p.until = settling, now.Add(p.limits.Grace)
	p.asked = slices.Compact(slices.Sorted(slices.Values(ev.Guests)))
	effects := []Effect{StopAdmitting{Trigger: ev.Trigger}}
	for _, name := range p.asked {
		effects = append(effects, SettleGuest{Name: name, Choice: p.choice})
	}
	return effects
}

// settled takes a guest off the list, and says whether it was on it.
func (p *Policy) settled(name string) bool {
	i, found := slices.BinarySearch(p.asked, name)
	if found {
		p.asked = slices.Delete(p.asked, i, i+1)
	}
	return found
}

// advance quits when nothing is left to wait for, and goes on to the next phase when the time of this one is over. Each has its
// whole time from then on, also after the host has slept.
func (p *Policy) advance(now time.Time) []Effect {
	if p.phase == open || p.phase == over {
		return nil
	}
	if len(p.asked) == 0 {
		return p.quit()
	}
	if now.Before(p.until) {
		return nil
	}
	switch p.phase {
	case settling:
		p.phase, p.until = cutting, now.Add(p.limits.Tail)
		return []Effect{CancelInFlight{}}
	case cutting:
		p.phase, p.until = direct, now.Add(p.limits.Direct)
		var effects []Effect
		for _, name := range p.asked {
			effects = append(effects, SettleDirectly{Name: name, Choice: p.choice})
		}
		return effects
	default:
		return p.quit()
	}
}

func (p *Policy) quit() []Effect {
	p.phase = over
	left := append(slices.Clone(p.failed), p.asked...)
	slices.Sort(left)
	code := 0
	if len(left) > 0 {
		code = 1
	}
	return []Effect{Quit{Code: code, Left: left}}
}
