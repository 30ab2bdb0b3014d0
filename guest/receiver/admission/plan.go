package admission

import (
	"encoding/json"
	"slices"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Phases of a run in a snapshot group, and the role of a run without one.
const (
	PhaseFirst  = "first"
	PhaseMember = "member"
	PhaseLast   = "last"
	RoleSingle  = "single"
)

// Plan says which pictures go with a run.
type Plan struct {
	Before  bool
	After   bool
	WaitMs  int64 // between the script's end and the after-picture
	Probe   bool  // take one picture before the dispatch and throw it away: nothing else would show that capture still works
	Role    string
	GroupID string
	Capture string
	Reason  string // why there are no pictures at all
}

// PlanOf is the plan of a request that Decode accepted. A group has one pair of pictures: the one before its first run and
// the one after its last. Without capture software a group is still a group.
func PlanOf(s protocol.Snapshots) Plan {
	p := Plan{Role: RoleSingle, Capture: s.Capture, Reason: s.Reason}
	wait := s.AfterIntervalMs
	if s.Group != nil {
		p.Role, p.GroupID = s.Group.Phase, s.Group.GroupID
		if s.Group.AfterIntervalMs != nil {
			wait = s.Group.AfterIntervalMs
		}
	}
	if s.Capture == protocol.CaptureNone {
		return p
	}
	p.Before = p.Role == RoleSingle || p.Role == PhaseFirst
	p.After = p.Role == RoleSingle || p.Role == PhaseLast
	p.Probe = !p.Before
	if p.After && wait != nil {
		p.WaitMs = *wait
	}
	return p
}

// Captures is how many pictures a complete run of this plan has.
func (p Plan) Captures() int {
	n := 0
	for _, wanted := range []bool{p.Before, p.After} {
		if wanted {
			n++
		}
	}
	return n
}

// MarshalJSON renders the plan as action-start carries it. A plan without captures says so and why, so that it can never be
// taken for lost evidence.
func (p Plan) MarshalJSON() ([]byte, error) {
	type after struct {
		AfterIntervalMs int64 `json:"afterIntervalMs"`
	}
	type group struct {
		GroupID string `json:"groupId"`
	}
	line := struct {
		CapturesBefore bool   `json:"capturesBefore"`
		CapturesAfter  any    `json:"capturesAfter"` // false, or an after
		Role           string `json:"role"`
		Group          *group `json:"group,omitempty"`
		Capture        string `json:"capture"`
		Reason         string `json:"reason,omitempty"`
	}{CapturesBefore: p.Before, CapturesAfter: false, Role: p.Role, Capture: p.Capture, Reason: p.Reason}
	if p.After {
		line.CapturesAfter = after{p.WaitMs}
	}
	if p.GroupID != "" {
		line.Group = &group{p.GroupID}
	}
	return json.Marshal(line)
}

// ImageStatus is what a receipt says of a run's after-picture; failed means that a capture was tried in vain.
func ImageStatus(after bool, taken []protocol.Snapshot, failed bool) string {
	switch {
	case !after:
		return protocol.ImageNotRequested
	case slices.ContainsFunc(taken, func(s protocol.Snapshot) bool { return s.Phase == PhaseAfter }):
		return protocol.ImageAvailable
	case failed:
		return protocol.ImageCaptureFailed
	}
	return protocol.ImageCaptureUnknown
}

// Phases of a picture.
const (
	PhaseBefore = "before"
	PhaseAfter  = "after"
)
