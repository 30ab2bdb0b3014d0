package guest

import "encoding/json"

// The inputs of the tools, as mcpgate has checked them against their schemas. Rules that need the project, the record or
// the backend are checked here in guest, before anything leaves a trace.

// SearchInput of relay_search.
type SearchInput struct {
	Name string `json:"name"`
	OS   string `json:"os,omitempty"`
}

// ProbeInput of relay_probe. Scope is "host" or "guest"; Guest goes with the latter only.
type ProbeInput struct {
	Scope string `json:"scope,omitempty"`
	Guest string `json:"guest,omitempty"`
}

// Declaration is one declared output: Path below the workspace, under Name in the package.
type Declaration struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// AcquireInput of relay_acquire. TTLHours 0 means the default of 4.
type AcquireInput struct {
	Task          string        `json:"task"`
	Image         string        `json:"image"`
	Extractions   []Declaration `json:"extractions"`
	TTLHours      float64       `json:"ttlHours,omitempty"`
	Env           string        `json:"env,omitempty"`
	FullWorkspace bool          `json:"fullWorkspace,omitempty"`
	VNC           *bool         `json:"vnc,omitempty"`
}

// StageFile is one project file for support/Path.
type StageFile struct {
	Local string `json:"local"`
	Path  string `json:"path"`
}

// StageInput of relay_stage.
type StageInput struct {
	Guest          string      `json:"guest"`
	ResetRecording bool        `json:"resetRecording,omitempty"`
	Workspace      string      `json:"workspace,omitempty"`
	Files          []StageFile `json:"files,omitempty"`
	NodePath       string      `json:"nodePath,omitempty"`
	CuaDriver      string      `json:"cuaDriver,omitempty"`
}

// ScriptStep overrides parts of the derived step.
type ScriptStep struct {
	ID        string `json:"id,omitempty"`
	Title     string `json:"title,omitempty"`
	Expected  string `json:"expected,omitempty"`
	InputMode string `json:"inputMode,omitempty"`
}

// ScriptGroup brackets consecutive runs.
type ScriptGroup struct {
	GroupID         string `json:"groupId"`
	Phase           string `json:"phase"`
	AfterIntervalMs *int64 `json:"afterIntervalMs,omitempty"`
}

// ScriptSnapshots overrides the plan of captures.
type ScriptSnapshots struct {
	AfterIntervalMs *int64       `json:"afterIntervalMs,omitempty"`
	Group           *ScriptGroup `json:"group,omitempty"`
}

// Script is the input of relay_script: exactly one of Code (with Inline) and LocalPath.
type Script struct {
	Guest      string           `json:"guest"`
	Language   string           `json:"language"`
	Inline     bool             `json:"inline"`
	Code       *string          `json:"code,omitempty"`
	LocalPath  string           `json:"localPath,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Step       *ScriptStep      `json:"step,omitempty"`
	Snapshots  *ScriptSnapshots `json:"snapshots,omitempty"`
	TimeoutMs  *int64           `json:"timeoutMs,omitempty"`
	Diagnostic bool             `json:"diagnostic,omitempty"`
}

// ImageTarget is one closed branch: display (SessionID, ExecutionID, Phase), application (Name, Path) or reference (ImageID).
type ImageTarget struct {
	Source      string `json:"source"`
	SessionID   string `json:"sessionId,omitempty"`
	ExecutionID string `json:"executionId,omitempty"`
	Phase       string `json:"phase,omitempty"`
	Name        string `json:"name,omitempty"`
	Path        string `json:"path,omitempty"`
	ImageID     string `json:"imageId,omitempty"`
}

// ImageInput of relay_image; Guest may be empty.
type ImageInput struct {
	Guest  string      `json:"guest,omitempty"`
	Target ImageTarget `json:"target"`
}

// ExtractInput of relay_extract.
type ExtractInput struct {
	Guest string   `json:"guest"`
	Names []string `json:"names"`
}

// NamedInput of relay_finish and relay_release.
type NamedInput struct {
	Guest string `json:"guest"`
}

// Result is what a tool answers: a value that marshals to the JSON of the contract, and for image-bearing tools the
// identity that leads the text, with the image itself.
type Result struct {
	Value any // marshalled with two spaces; must not contain imageDelivery when Delivery is set
	// Delivery is set for relay_script and relay_image: the first line of the text.
	Delivery *ImageDelivery
	Image    []byte // attached image, or nil
	MimeType string
	Failed   bool // the result is an error result
}

// ImageDelivery is the identity line's content.
type ImageDelivery struct {
	Status          string          `json:"status"`
	Image           json.RawMessage `json:"image,omitempty"` // the descriptor with its imageId
	Presentation    json.RawMessage `json:"presentation,omitempty"`
	Diagnostic      string          `json:"diagnostic,omitempty"`
	ExecutionFailed bool            `json:"-"` // rendered beside imageDelivery, not in it
}
