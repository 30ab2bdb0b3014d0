package actors

import "github.com/seed-1e4c9d81/mcp-relay/guest"

// board answers what relay_status shows. It reads what others have written and waits for nobody: not for a guest, a lock, the disk or
// machine-service.
type board struct{ session *sessionParts }

func (b *board) Init(c *Ctx) error {
	b.session.board.set(c.Self())
	return nil
}

// Handle answers from the roster.
func (b *board) Handle(_ *Ctx, msg any) error {
	switch m := msg.(type) {
	case statusAsked:
		m.reply.Send(b.session.status())
	case Stop:
		return m.Err()
	}
	return nil
}

func (b *board) Terminate(*Ctx, error) error { return nil }

// status is what relay_status shows.
func (p *sessionParts) status() guest.StatusResult {
	result := guest.StatusResult{
		Guests: map[string]guest.Status{}, MaxGuests: p.roster.max, Project: p.project, Service: p.service,
	}
	for _, e := range p.roster.all() {
		status := e.status()
		result.Guests[e.name] = status
		result.Active = result.Active || status.Active
	}
	return result
}
