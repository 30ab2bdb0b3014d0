package admission

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Active is the open snapshot group.
type Active struct {
	GroupID   string `json:"groupId"`
	SessionID string `json:"sessionId"`
	AttemptID string `json:"attemptId"`
}

// Groups is the state of snapshot groups: at most one is open, and an id is used once. The zero value has none. It is
// derived from the journal; groups.json is a copy for readers.
type Groups struct {
	Active *Active  `json:"active,omitempty"`
	Used   []string `json:"used"`
}

// Check says why a run may not go on now, or nil. A run refused here leaves the open group open.
func (g Groups) Check(ids IDs, group *protocol.Group) error {
	if a := g.Active; a != nil {
		switch {
		case group == nil || group.GroupID != a.GroupID:
			return fmt.Errorf("snapshot group %s is open: only its own runs may follow until its last", a.GroupID)
		case ids.SessionID != a.SessionID || ids.AttemptID != a.AttemptID:
			return fmt.Errorf("snapshot group %s was opened by another recording", a.GroupID)
		case group.Phase == PhaseFirst:
			return fmt.Errorf("snapshot group %s is open already", a.GroupID)
		}
		return nil
	}
	switch {
	case group == nil:
		return nil
	case slices.Contains(g.Used, group.GroupID):
		return fmt.Errorf("snapshot group %s was used before: a group id serves once", group.GroupID)
	case group.Phase != PhaseFirst:
		return errors.New("no snapshot group is open: begin one with phase first")
	}
	return nil
}

// Begin is the state after a run that Check let pass was admitted.
func (g Groups) Begin(ids IDs, group *protocol.Group) Groups {
	if group == nil || group.Phase != PhaseFirst {
		return g
	}
	return Groups{
		Active: &Active{GroupID: group.GroupID, SessionID: ids.SessionID, AttemptID: ids.AttemptID},
		Used:   append(slices.Clone(g.Used), group.GroupID),
	}
}

// Abandon is the state without an open group. Its id stays used.
func (g Groups) Abandon() Groups { return Groups{Used: g.Used} }

// Keeps reports whether a run with this outcome leaves its group whole: it completed with exit code 0.
func Keeps(o protocol.Outcome) bool {
	return o.Kind == protocol.Completed && o.ExitStatus != nil && o.ExitStatus.Signal == nil &&
		o.ExitStatus.Code != nil && *o.ExitStatus.Code == 0
}
