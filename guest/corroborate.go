package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed-1e4c9d81/mcp-relay/evidence/image"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// actionFact is what of records/action/<actionId>.json speaks about captures.
type actionFact struct {
	ActionID    string          `json:"actionId"`
	SessionID   string          `json:"sessionId"`
	AttemptID   string          `json:"attemptId"`
	ExecutionID string          `json:"executionId"`
	StepID      string          `json:"stepId"`
	GroupID     string          `json:"groupId"`
	Role        string          `json:"snapshotRole"`
	Snapshots   []citedSnapshot `json:"snapshots"`
}

type citedSnapshot struct {
	Role     string `json:"role"` // before, after
	FileName string `json:"fileName"`
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes"`
}

// corroborate requires the action's own record to agree with what the receipt says of a capture: two files that the receiver wrote
// at different times, for different readers.
func (g *Guest) corroborate(ctx context.Context, s protocol.Snapshot, plan protocol.Snapshots) error {
	action, err := g.actionOf(ctx, s)
	if err != nil {
		return err
	}
	role := "single"
	if plan.Group != nil {
		role = plan.Group.Phase
	}
	if action.ActionID != s.ActionID || action.SessionID != s.SessionID || action.AttemptID != s.AttemptID || action.ExecutionID != s.ExecutionID ||
		action.StepID != s.StepID || action.GroupID != s.GroupID || action.Role != role {
		return imageError(image.IntegrityFailed, "the action's record is not of this run")
	}
	for _, cited := range action.Snapshots {
		if cited == (citedSnapshot{Role: s.Phase, FileName: s.FileName, SHA256: s.SHA256, Bytes: s.Bytes}) {
			return nil
		}
	}
	return imageError(image.IntegrityFailed, fmt.Sprintf("the action's record does not cite this %s picture", s.Phase))
}

// actionOf reads the record where the host has it, or brings it from the guest and keeps it apart.
func (g *Guest) actionOf(ctx context.Context, s protocol.Snapshot) (actionFact, error) {
	r, name := g.rec(), s.ActionID+".json"
	cache := r.host("host", "image-evidence", "records", "action", name)
	places := []string{r.host("host", "steps", s.ExecutionID, "state", "records", "action", name), r.host("state", "records", "action", name), cache}
	for _, place := range places {
		var action actionFact
		err := readJSON(place, &action)
		if err == nil {
			return action, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return action, imageError(image.IntegrityFailed, "the action's record cannot be trusted: "+err.Error())
		}
	}
	if err := g.stillOurs(ctx); err != nil {
		return actionFact{}, err
	}
	if _, err := g.pull(ctx, r.guest("state/records/action/"+name), cache); err != nil {
		if missing(err) {
			err = imageError(image.IntegrityFailed, "the action has no record")
		}
		return actionFact{}, err
	}
	var action actionFact
	if err := readJSON(cache, &action); err != nil {
		return action, imageError(image.IntegrityFailed, "the action's record cannot be trusted: "+err.Error())
	}
	return action, nil
}
