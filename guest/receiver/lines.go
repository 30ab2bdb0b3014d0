package receiver

import (
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver/admission"
)

// The lines of the journal and the records beside it. Names of kinds and fields never change; fields are only added.

// States of a line or record.
const (
	statePending    = "pending"
	stateAdmitted   = "admitted"
	stateRecorded   = "recorded"
	stateRefused    = "refused"
	stateUncertain  = "uncertain"
	stateIncomplete = "incomplete"
)

// event is any line of the journal; every kind uses some of the fields.
type event struct {
	Kind           string `json:"kind"`
	AnnotationType string `json:"annotationType,omitempty"`
	admission.IDs
	StepID   string `json:"stepId,omitempty"`
	ActionID string `json:"actionId,omitempty"`
	GroupID  string `json:"groupId,omitempty"`
	State    string `json:"state"`

	Because        string               `json:"because,omitempty"`
	Step           *protocol.Step       `json:"step,omitempty"`
	TimeoutMs      int64                `json:"timeoutMs,omitempty"`
	Snapshots      *protocol.Snapshots  `json:"snapshotRequest,omitempty"`
	Argv           []string             `json:"argv,omitempty"`
	Cwd            string               `json:"cwd,omitempty"`
	ScriptIdentity *scriptIdentity      `json:"scriptIdentity,omitempty"`
	Group          *protocol.Group      `json:"group,omitempty"`
	Title          string               `json:"title,omitempty"`
	InputMode      string               `json:"inputMode,omitempty"`
	SnapshotPlan   *admission.Plan      `json:"snapshotPlan,omitempty"`
	Snapshot       *admission.Captured  `json:"snapshot,omitempty"`
	FileName       string               `json:"fileName,omitempty"` // of capture-intent, which comes before the picture
	Role           string               `json:"role,omitempty"`     // of capture-intent
	Cited          []admission.Captured `json:"snapshots,omitempty"`
	SnapshotRole   string               `json:"snapshotRole,omitempty"`
	ToolOutcome    *toolOutcome         `json:"toolOutcome,omitempty"`
	Reason         string               `json:"reason,omitempty"`
	Diagnostic     string               `json:"diagnostic,omitempty"`
	Dispatched     *bool                `json:"inputDispatched,omitempty"`
	PriorSessionID string               `json:"priorSessionId,omitempty"`
	PriorAttemptID string               `json:"priorAttemptId,omitempty"`
	Response       *protocol.Receipt    `json:"response,omitempty"`
}

type scriptIdentity struct {
	SHA256     string `json:"sha256"`
	Bytes      int64  `json:"bytes"`
	Language   string `json:"language"`
	RemotePath string `json:"remotePath"`
	Origin     string `json:"origin"`
	Name       string `json:"name,omitempty"`
}

// toolOutcome is what the dispatch gave, whatever the exit status.
type toolOutcome struct {
	Kind  string     `json:"kind"` // success, failure
	Value *toolValue `json:"value,omitempty"`
	Error *toolError `json:"error,omitempty"`
}

type toolError struct {
	ErrorName string `json:"errorName"`
	Message   string `json:"message"`
}

type toolValue struct {
	ExitStatus           *protocol.ExitStatus `json:"exitStatus,omitempty"` // nil: not known
	Stdout               string               `json:"stdout"`
	Stderr               string               `json:"stderr"`
	StdoutStream         *protocol.Stream     `json:"stdoutStream,omitempty"`
	StderrStream         *protocol.Stream     `json:"stderrStream,omitempty"`
	TimedOut             bool                 `json:"timedOut"`
	OutputTruncated      bool                 `json:"outputTruncated"`
	TerminationConfirmed *bool                `json:"terminationConfirmed,omitempty"`
	Leftover             []protocol.Process   `json:"leftover,omitempty"`
}

// actionRecord is records/action/<actionId>.json.
type actionRecord struct {
	ActionID string `json:"actionId"`
	admission.IDs
	StepID         string               `json:"stepId,omitempty"`
	State          string               `json:"state"`
	Title          string               `json:"title,omitempty"`
	InputMode      string               `json:"inputMode,omitempty"`
	ToolOutcome    *toolOutcome         `json:"toolOutcome,omitempty"`
	EvidenceStatus string               `json:"evidenceStatus,omitempty"` // retained, failed, unconfirmed, not-applicable
	Snapshots      []admission.Captured `json:"snapshots,omitempty"`
	SnapshotRole   string               `json:"snapshotRole,omitempty"`
	GroupID        string               `json:"groupId,omitempty"`
	Diagnostic     string               `json:"diagnostic,omitempty"`
}

// executionRecord is records/execution/<executionId>.json.
type executionRecord struct {
	admission.IDs
	ActionID   string               `json:"actionId,omitempty"`
	State      string               `json:"state"`
	Argv       []string             `json:"argv,omitempty"`
	ExitStatus *protocol.ExitStatus `json:"exitStatus,omitempty"`
}
