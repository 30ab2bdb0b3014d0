package actors

// machines keeps what is known of machine-service's health from what others met: it asks nothing by itself, since asking would
// start a service of our own that nobody needs yet.
type machines struct {
	session *sessionParts
	known   bool
	up      bool
}

// serviceMet is what somebody met at machine-service; nil when it answered.
type serviceMet struct{ err error }

func (m *machines) Init(c *Ctx) error {
	m.session.machines.set(c.Self())
	return nil
}

// Handle tells when the health changes.
func (m *machines) Handle(_ *Ctx, msg any) error {
	switch met := msg.(type) {
	case serviceMet:
		up := met.err == nil
		if m.known && m.up == up {
			return nil
		}
		m.known, m.up = true, up
		event := ServiceSeen{Reachable: up}
		if !up {
			event.Reason = met.err.Error()
		}
		m.session.emit(event)
	case Stop:
		return met.Err()
	}
	return nil
}

func (m *machines) Terminate(*Ctx, error) error { return nil }
