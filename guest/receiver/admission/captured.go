package admission

import "github.com/seed-1e4c9d81/mcp-relay/guest/protocol"

// Captured is one picture as the journal and the action record carry it.
type Captured struct {
	FileName                string `json:"fileName"`
	SHA256                  string `json:"sha256"`
	Bytes                   int64  `json:"bytes"`
	MimeType                string `json:"mimeType"`
	StartedAtMs             int64  `json:"captureStartedAtMonotonic"` // unix ms, whatever the name says
	CompletedAtMs           int64  `json:"captureCompletedAtMonotonic"`
	CapturedAt              string `json:"capturedAt"`
	Role                    string `json:"role"` // before, after
	DeclaredAfterIntervalMs *int64 `json:"declaredAfterIntervalMs,omitempty"`
	ActualWaitMs            *int64 `json:"actualWaitMs,omitempty"`
	Width                   int    `json:"width,omitempty"`
	Height                  int    `json:"height,omitempty"`
	Blank                   bool   `json:"blank,omitempty"`
}

// Descriptor is the picture as a receipt carries it.
func (c Captured) Descriptor(ids IDs, actionID, stepID, groupID string) protocol.Snapshot {
	return protocol.Snapshot{
		SessionID: ids.SessionID, AttemptID: ids.AttemptID, ExecutionID: ids.ExecutionID,
		ActionID: actionID, StepID: stepID, GroupID: groupID,
		Phase: c.Role, CapturedAt: c.CapturedAt, SHA256: c.SHA256, Bytes: c.Bytes, MimeType: c.MimeType,
		DeclaredAfterIntervalMs: c.DeclaredAfterIntervalMs, Blank: c.Blank, FileName: c.FileName,
	}
}
