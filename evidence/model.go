package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"
)

// The types below read evidence of any age: a field of another type than expected is read as absent, so that one odd value
// becomes a finding or a failure of its own rule instead of hiding the whole record.

// text is a string field.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = text(s)
	}
	return nil
}

// number is a numeric field.
type number struct {
	Set   bool
	Value float64
}

func (n *number) UnmarshalJSON(data []byte) error {
	var v float64
	if string(data) != "null" && json.Unmarshal(data, &v) == nil {
		*n = number{Set: true, Value: v}
	}
	return nil
}

// lenient is an object field; nil when it is anything else.
type lenient[T any] struct{ Value *T }

func (l *lenient[T]) UnmarshalJSON(data []byte) error {
	var v T
	if decodeObject(data, &v) {
		l.Value = &v
	}
	return nil
}

// event is a journal line.
type event struct {
	Kind           text                `json:"kind"`
	AnnotationType text                `json:"annotationType"`
	SessionID      text                `json:"sessionId"`
	AttemptID      text                `json:"attemptId"`
	ExecutionID    text                `json:"executionId"`
	ActionID       text                `json:"actionId"`
	StepID         text                `json:"stepId"`
	State          text                `json:"state"`
	Title          text                `json:"title"`
	InputMode      text                `json:"inputMode"`
	Because        text                `json:"because"`
	Diagnostic     text                `json:"diagnostic"`
	EvidenceMode   text                `json:"evidenceMode"`
	WrittenAt      text                `json:"writtenAt"`
	Role           text                `json:"role"`     // capture-intent
	FileName       text                `json:"fileName"` // capture-intent
	SnapshotRole   text                `json:"snapshotRole"`
	GroupID        text                `json:"groupId"`
	Group          json.RawMessage     `json:"group"`
	Step           lenient[stepFields] `json:"step"`
	SnapshotPlan   lenient[plan]       `json:"snapshotPlan"`
	Snapshot       lenient[snapshot]   `json:"snapshot"`
	Snapshots      json.RawMessage     `json:"snapshots"`
	ToolOutcome    json.RawMessage     `json:"toolOutcome"`
	Response       json.RawMessage     `json:"response"`
	Argv           json.RawMessage     `json:"argv"`
	Cwd            text                `json:"cwd"`

	line int
}

// group is the group a capture event names, as a text or as an object.
func (e *event) group() string {
	if e.GroupID != "" {
		return string(e.GroupID)
	}
	var s string
	if json.Unmarshal(e.Group, &s) == nil {
		return s
	}
	var g groupRef
	if json.Unmarshal(e.Group, &g) == nil {
		return string(g.GroupID)
	}
	return ""
}

type stepFields struct {
	ID        text `json:"id"`
	Title     text `json:"title"`
	Expected  text `json:"expected"`
	InputMode text `json:"inputMode"`
}

type groupRef struct {
	GroupID text `json:"groupId"`
}

// plan is what an action was to capture.
type plan struct {
	Capture        text              `json:"capture"`
	Reason         text              `json:"reason"`
	CapturesBefore bool              `json:"capturesBefore"`
	CapturesAfter  lenient[after]    `json:"capturesAfter"`
	Role           text              `json:"role"`
	Group          lenient[groupRef] `json:"group"`
}

type after struct {
	AfterIntervalMs number `json:"afterIntervalMs"`
}

// captures reports whether the plan asks for any picture, by itself or through its group. A plan that says "none" says why,
// and that nothing is missing.
func (p *plan) captures() bool { return p.Capture != "none" }

func (p *plan) group() string {
	if p.Group.Value == nil {
		return ""
	}
	return string(p.Group.Value.GroupID)
}

// snapshot is a capture as the journal and the records describe it.
type snapshot struct {
	FileName        text   `json:"fileName"`
	SHA256          text   `json:"sha256"`
	Bytes           number `json:"bytes"`
	CapturedAt      text   `json:"capturedAt"`
	Role            text   `json:"role"`
	AfterIntervalMs number `json:"declaredAfterIntervalMs"`
}

// capture is a snapshot-captured line with what it belongs to.
type capture struct {
	snapshot
	path  string // in the package
	event *event
}

// time of the capture; ok is false when it is not written as evidence writes times.
func (s snapshot) time() (time.Time, bool) {
	at, err := time.Parse(TimeFormat, string(s.CapturedAt))
	return at, err == nil && at.Format(TimeFormat) == string(s.CapturedAt)
}

// actionRecord is state/records/action/<actionId>.json.
type actionRecord struct {
	ActionID     text            `json:"actionId"`
	SessionID    text            `json:"sessionId"`
	AttemptID    text            `json:"attemptId"`
	StepID       text            `json:"stepId"`
	ExecutionID  text            `json:"executionId"`
	State        text            `json:"state"`
	Title        text            `json:"title"`
	InputMode    text            `json:"inputMode"`
	StartedAt    text            `json:"startRetainedAt"`
	ToolOutcome  json.RawMessage `json:"toolOutcome"`
	Snapshots    json.RawMessage `json:"snapshots"`
	SnapshotRole text            `json:"snapshotRole"`
	GroupID      text            `json:"groupId"`

	path string
}

// hostRecord is any object that may say why a run was made: a request, a submission, a routing line of the journal.
type hostRecord struct {
	ExecutionID  text                `json:"executionId"`
	ActionID     text                `json:"actionId"`
	StepID       text                `json:"stepId"`
	Because      text                `json:"because"`
	Expected     text                `json:"expected"`
	EvidenceMode text                `json:"evidenceMode"`
	At           text                `json:"at"`
	Argv         json.RawMessage     `json:"argv"`
	Step         lenient[stepFields] `json:"step"`
	Request      json.RawMessage     `json:"request"`

	path string
}

func (h *hostRecord) step() string {
	if h.Step.Value != nil && h.Step.Value.ID != "" {
		return string(h.Step.Value.ID)
	}
	return string(h.StepID)
}

func (h *hostRecord) expected() string {
	if h.Step.Value != nil && h.Step.Value.Expected != "" {
		return string(h.Step.Value.Expected)
	}
	return string(h.Expected)
}

func (h *hostRecord) diagnostic() bool {
	return h.EvidenceMode == "diagnostic" || strings.HasPrefix(h.path, "host/diagnostics/")
}

// receipt is a receiver's or the host's answer for an execution, wherever it is kept.
type receipt struct {
	ExecutionID  text            `json:"executionId"`
	ActionID     text            `json:"actionId"`
	SessionID    text            `json:"sessionId"`
	EvidenceMode text            `json:"evidenceMode"`
	Outcome      json.RawMessage `json:"outcome"`
	Stdout       *text           `json:"stdout"`
	Stderr       *text           `json:"stderr"`
	Output       *text           `json:"output"`
	TimedOut     bool            `json:"timedOut"`
	JournalHead  text            `json:"journalHead"`
	StdoutStream lenient[stream] `json:"stdoutStream"`
	StderrStream lenient[stream] `json:"stderrStream"`

	path     string // file it was read from
	line     int    // of the journal
	envelope *event // the journal line that carries it
}

// stream is an output whose whole is a file of its own.
type stream struct {
	Path   text   `json:"path"`
	Saved  number `json:"saved"`
	SHA256 text   `json:"sha256"`
}

func (r *receipt) diagnostic() bool {
	return r.EvidenceMode == "diagnostic" || strings.HasPrefix(r.path, "host/diagnostics/")
}

// exitStatus keeps absent and null apart.
type exitStatus struct {
	Code   json.RawMessage `json:"code"`
	Signal json.RawMessage `json:"signal"`
}

type receiptOutcome struct {
	Kind       text                `json:"kind"`
	ExitStatus lenient[exitStatus] `json:"exitStatus"`
	Diagnostic text                `json:"diagnostic"`
}

// toolOutcome is how an action ended, as the journal has it.
type toolOutcome struct {
	Kind  text               `json:"kind"`
	Value lenient[toolValue] `json:"value"`
}

type toolValue struct {
	ExitStatus    lenient[exitStatus] `json:"exitStatus"`
	Code          json.RawMessage     `json:"code"`
	ExitCode      json.RawMessage     `json:"exitCode"`
	Signal        text                `json:"signal"`
	TimedOut      bool                `json:"timedOut"`
	OutputRefused bool                `json:"outputRefused"`
	Stdout        text                `json:"stdout"`
	Stderr        text                `json:"stderr"`
}

// sameJSON compares two JSON texts by value.
func sameJSON(a, b []byte) bool {
	x, okX := decodeNumbers(a)
	y, okY := decodeNumbers(b)
	return okX && okY && reflect.DeepEqual(x, y)
}

func decodeNumbers(data []byte) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err := dec.Decode(&v)
	return v, err == nil
}

// decodeObject reads a JSON object into v. A field of another type than v's is left as it was.
func decodeObject(data []byte, v any) bool {
	if first := bytes.TrimSpace(data); len(first) == 0 || first[0] != '{' {
		return false
	}
	var odd *json.UnmarshalTypeError
	err := json.Unmarshal(data, v)
	return err == nil || errors.As(err, &odd)
}

// present reports whether an optional raw field was given.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
