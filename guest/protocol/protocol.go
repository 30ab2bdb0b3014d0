// Package protocol is what the host says to the receiver inside a guest and what it hears back: the request file, the
// receipt file, the names of the runtime's verbs, and the one line each verb answers. It holds types and their rules only,
// so that both sides, built from different commits, can be compared field by field.
//
// Documents never travel on a command's output: a backend merges the two streams and keeps only their tail. They travel as
// files, pulled and checked by hash. A verb prints exactly one answer line, marked by AnswerPrefix, so that a warning on the
// same stream cannot be taken for it.
package protocol

// Version of the request and receipt shapes. A receiver refuses a request of another version.
const Version = 1

// Bounds of a run. Sizes are bytes, times milliseconds.
const (
	MaxRequest       = 1 << 20   // request file
	MaxScript        = 8 << 20   // script file, as the receiver accepts it
	MaxInlineCode    = 1 << 20   // code in a tool call, UTF-8 bytes
	DefaultTimeoutMs = 120_000   // of the script itself
	MaxTimeoutMs     = 3_600_000 //
	DefaultWaitMs    = 500       // between the script's end and the after-capture
	MaxWaitMs        = 300_000   //
	StreamKept       = 32 << 10  // first and last bytes of each stream in the receipt
	StreamFileMax    = 64 << 20  // bytes of one stream kept as a file in the guest's state
	MaxSnapshot      = 64 << 20  // bytes of one capture
	MaxLeftover      = 256       // processes a receipt names
	DispatchMarginMs = 180_000   // what the host adds to timeout and wait for the whole receiver command
)

// RuntimeName is the file name of the guest runtime, in the guest root and as argv[0] of the multi-call binary.
const RuntimeName = "relay-guest"

// Languages a script may be written in.
const (
	Shell      = "shell"
	JavaScript = "javascript"
	TypeScript = "typescript"
	Python     = "python"
)

// Extension is the file extension of a script in language, or "" for a language we do not know.
func Extension(language string) string {
	switch language {
	case Shell:
		return ".sh"
	case JavaScript:
		return ".js"
	case TypeScript:
		return ".ts"
	case Python:
		return ".py"
	}
	return ""
}

// Request is the exact content of requests/<executionId>.json. The host writes it durably before it sends anything.
type Request struct {
	Protocol    int       `json:"protocol"`
	ExecutionID string    `json:"executionId"`
	SessionID   string    `json:"sessionId"` // the recording, not the MCP session
	AttemptID   string    `json:"attemptId"` // always "attempt-1"
	Because     string    `json:"because"`
	Language    string    `json:"language"`
	Script      Script    `json:"script"`
	Cwd         string    `json:"cwd"`
	TimeoutMs   int64     `json:"timeoutMs"`
	Step        Step      `json:"step"`
	Snapshots   Snapshots `json:"snapshots"`
}

// Script names the pushed file; the receiver hashes it again and builds argv itself.
type Script struct {
	Path   string `json:"path"` // absolute, in the guest
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Origin string `json:"origin"` // "inline" or "file"
	Name   string `json:"name,omitempty"`
}

// Step is how the run appears in the evidence.
type Step struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Expected  string `json:"expected,omitempty"`
	InputMode string `json:"inputMode,omitempty"` // "ordinary" or "accessibility"
}

// Ways of capture a plan can name.
const (
	CaptureNone      = "none"       // no snapshots; Snapshots.Reason says why, and that is no gap
	CaptureX11       = "x11"        // the receiver's own, over the guest's X display
	CaptureCuaDriver = "cua-driver" // the image's own capture program
)

// Snapshots is the plan of captures. It is always explicit, so "no capture software" can never be taken for lost evidence.
type Snapshots struct {
	Capture         string `json:"capture"`
	Reason          string `json:"reason,omitempty"` // with CaptureNone
	Driver          string `json:"driver,omitempty"` // with CaptureCuaDriver: the program
	AfterIntervalMs *int64 `json:"afterIntervalMs,omitempty"`
	Group           *Group `json:"group,omitempty"`
}

// Group brackets consecutive runs with one pair of captures.
type Group struct {
	GroupID         string `json:"groupId"`
	Phase           string `json:"phase"` // first, member, last
	AfterIntervalMs *int64 `json:"afterIntervalMs,omitempty"`
}

// Outcome kinds.
const (
	Completed = "completed" // it ran to its own end; ExitStatus judges it
	Refused   = "refused"   // proved that nothing was dispatched
	Uncertain = "uncertain" // it may have run
)

// Reasons of a refusal, in Outcome.Reason. Each proves that nothing was dispatched.
const (
	ReasonValidation = "validation" // the request breaks a rule
	ReasonGroup      = "group"      // the request does not fit the open snapshot group, or no group is open
	ReasonIdentity   = "identity"   // other bytes than announced: the script's, or those of a known execution id
	ReasonCapture    = "capture"    // the picture before the run could not be taken
	ReasonBusy       = "busy"       // another run is in progress, or one left processes that could not be ended
	ReasonSpawn      = "spawn"      // the script could not be started: its interpreter or folder is missing
	ReasonDamaged    = "damaged"    // the recording's journal is damaged; it was left as found
	ReasonStorage    = "storage"    // what must be durable before a dispatch could not be written
	ReasonCancelled  = "cancelled"  // the run was called off, or the receiver died, before its dispatch
	ReasonHost       = "host"       // the host refused, so nothing reached the guest
)

// Outcome of a run.
type Outcome struct {
	Kind       string      `json:"kind"`
	ExitStatus *ExitStatus `json:"exitStatus,omitempty"` // with Completed
	Diagnostic string      `json:"diagnostic,omitempty"` // with the others, at most 64 KiB
	Reason     string      `json:"reason,omitempty"`     // with Refused: one of the Reason constants
}

// ExitStatus has exactly one of the two set.
type ExitStatus struct {
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
}

// Image statuses a receipt may carry.
const (
	ImageAvailable      = "available"
	ImageNotRequested   = "not-requested"
	ImageCaptureFailed  = "capture-failed"
	ImageCaptureUnknown = "capture-unknown"
)

// ImageEvidence is what the receiver captured of one run, taken from its journal.
type ImageEvidence struct {
	Status     string     `json:"status"`
	Diagnostic string     `json:"diagnostic,omitempty"`
	Snapshots  []Snapshot `json:"snapshots"`
}

// Snapshot describes one captured original under state/snapshots/<sessionId>/<fileName>.
type Snapshot struct {
	SessionID               string `json:"sessionId"`
	AttemptID               string `json:"attemptId"`
	ExecutionID             string `json:"executionId"`
	ActionID                string `json:"actionId"`
	StepID                  string `json:"stepId,omitempty"`
	GroupID                 string `json:"groupId,omitempty"`
	Phase                   string `json:"phase"` // before, after
	CapturedAt              string `json:"capturedAt"`
	SHA256                  string `json:"sha256"`
	Bytes                   int64  `json:"bytes"`
	MimeType                string `json:"mimeType"`
	DeclaredAfterIntervalMs *int64 `json:"declaredAfterIntervalMs,omitempty"`
	Blank                   bool   `json:"blank,omitempty"` // one colour all over: a fact, not a fault
	FileName                string `json:"fileName"`
}

// Stream is one output stream of a script beyond the text in the receipt.
type Stream struct {
	Bytes   int64  `json:"bytes"`             // written by the script
	Omitted int64  `json:"omitted,omitempty"` // left out between head and tail of the text, where a line says so
	Path    string `json:"path,omitempty"`    // relative to state/, when the text is not the whole
	Saved   int64  `json:"saved,omitempty"`   // bytes in that file, at most StreamFileMax
	SHA256  string `json:"sha256,omitempty"`  // of that file
}

// Process is one that a script left running when it ended by itself.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// Receipt is the receiver's written answer for one execution id: state/receiver/receipts/<executionId>.json. A later
// request with the same id and bytes gets the same receipt back, whatever happened since.
type Receipt struct {
	ExecutionID          string        `json:"executionId"`
	SessionID            string        `json:"sessionId,omitempty"`
	RequestSHA256        string        `json:"requestSha256,omitempty"`
	ActionID             string        `json:"actionId,omitempty"`
	TimeoutMs            int64         `json:"timeoutMs,omitempty"`
	Outcome              Outcome       `json:"outcome"`
	ImageEvidence        ImageEvidence `json:"imageEvidence"`
	Stdout               *string       `json:"stdout,omitempty"` // only when something was dispatched
	Stderr               *string       `json:"stderr,omitempty"`
	StdoutStream         *Stream       `json:"stdoutStream,omitempty"`
	StderrStream         *Stream       `json:"stderrStream,omitempty"`
	TimedOut             bool          `json:"timedOut,omitempty"`
	OutputTruncated      bool          `json:"outputTruncated,omitempty"`
	TerminationConfirmed *bool         `json:"terminationConfirmed,omitempty"` // nil: unknown
	Leftover             []Process     `json:"leftover,omitempty"`             // at most MaxLeftover of them
	LeftoverTotal        int           `json:"leftoverTotal,omitempty"`        // how many there were
	StartedAt            string        `json:"startedAt,omitempty"`
	EndedAt              string        `json:"endedAt,omitempty"`
	JournalHead          string        `json:"journalHead,omitempty"` // hash of the last journal line of this run
}
