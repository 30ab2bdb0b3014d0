package actors

import (
	"cmp"
	"slices"
	"time"
)

// CallView is one call in flight.
type CallView struct {
	Call  string
	Tool  string
	Guest string // "" for one that names none
	Since time.Time
}

// Messages to the gateway.
type (
	callBegan    struct{ view CallView }
	callAnswered struct{ call string }
	callsAsked   struct{ reply Reply[[]CallView] }
)

// gateway keeps the books of the calls in flight: what was asked and is not answered yet.
type gateway struct {
	session *sessionParts
	calls   map[string]CallView
}

func (g *gateway) Init(c *Ctx) error {
	g.calls = map[string]CallView{}
	g.session.gateway.set(c.Self())
	return nil
}

// Handle keeps the books.
func (g *gateway) Handle(_ *Ctx, msg any) error {
	switch m := msg.(type) {
	case callBegan:
		g.calls[m.view.Call] = m.view
	case callAnswered:
		delete(g.calls, m.call)
	case callsAsked:
		m.reply.Send(g.inFlight())
	case Stop:
		return m.Err()
	}
	return nil
}

func (g *gateway) Terminate(*Ctx, error) error { return nil }

// inFlight lists the calls, the oldest first.
func (g *gateway) inFlight() []CallView {
	list := make([]CallView, 0, len(g.calls))
	for _, view := range g.calls {
		list = append(list, view)
	}
	slices.SortFunc(list, func(a, b CallView) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(len(a.Call), len(b.Call)), cmp.Compare(a.Call, b.Call))
	})
	return list
}
