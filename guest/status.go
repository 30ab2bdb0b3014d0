package guest

// States of a guest in its status.
const (
	StateAcquiring     = "acquiring"     // recorded, no machine known yet
	StateIndeterminate = "indeterminate" // whether a machine was allocated is not known
	StateLeased        = "leased"
	StateStaged        = "staged"
	StateSealed        = "sealed"
	StateReleaseFailed = "release-failed"
	StateBroken        = "broken" // its record cannot be read
)

// Status of one guest. Absent values are omitted. Never credentials.
type Status struct {
	Guest            string             `json:"guest"`
	State            string             `json:"state"`
	Task             string             `json:"task,omitempty"`
	Image            string             `json:"image,omitempty"`
	Backend          map[string]string  `json:"backend,omitempty"`
	VM               string             `json:"vm,omitempty"`
	LeaseID          string             `json:"lease_id,omitempty"`
	Purpose          string             `json:"purpose,omitempty"`
	Staged           bool               `json:"staged"`
	Snapshots        *bool              `json:"snapshots,omitempty"` // runs are captured; known once staged
	LastError        string             `json:"lastError,omitempty"`
	Released         bool               `json:"released,omitempty"`
	Active           bool               `json:"active"` // the lease is being renewed
	GuestState       string             `json:"guestState,omitempty"`
	ExpiresAt        float64            `json:"expiresAt,omitempty"`   // unix seconds, last confirmed
	TTLDeadline      string             `json:"ttlDeadline,omitempty"` // nothing is renewed past it
	Output           string             `json:"output,omitempty"`      // the evidence folder
	PreviousEvidence []PreviousEvidence `json:"previousEvidence,omitempty"`
	Unreconciled     bool               `json:"unreconciled,omitempty"` // as recorded; machine-service was not asked since the start
}

// StatusResult is what relay_status answers.
type StatusResult struct {
	Active      bool              `json:"active"`
	Guests      map[string]Status `json:"guests"`
	MaxGuests   int               `json:"maxGuests"`
	Project     string            `json:"project"`
	Service     string            `json:"service"`
	Environment map[string]string `json:"environment,omitempty"`
}

// Status as it is durable now. It waits for nothing.
func (g *Guest) Status() Status {
	status := statusOf(*g.rec())
	status.Unreconciled = g.unreconciled.Load()
	return status
}

func statusOf(r Record) Status {
	s := Status{
		Guest: r.Guest, State: stateOf(r), Task: r.Task, Image: r.Image, Backend: r.Backend, Purpose: r.Purpose,
		Staged: r.Staged, LastError: r.LastError, Released: r.Released, Active: r.Active, GuestState: r.GuestState,
		ExpiresAt: r.ExpiresAt, TTLDeadline: isoTime(r.deadline()), Output: r.HostRoot, PreviousEvidence: r.PreviousEvidence,
	}
	if r.Lease != nil {
		s.VM, s.LeaseID = r.Lease.Name, r.Lease.LeaseID
	}
	if r.Capture != nil {
		captured := r.captures()
		s.Snapshots = &captured
	}
	return s
}

func stateOf(r Record) string {
	switch {
	case r.ReleaseFailed:
		return StateReleaseFailed
	case r.Delivered != nil:
		return StateSealed
	case r.Staged:
		return StateStaged
	case r.Lease != nil:
		return StateLeased
	case r.AcquisitionInFlight && r.LastError != "":
		return StateIndeterminate
	}
	return StateAcquiring
}
