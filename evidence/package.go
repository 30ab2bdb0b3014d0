package evidence

// Identity names a recording. All three are stated in its manifest.
type Identity struct {
	PackageID string // pkg-<purpose>
	SessionID string // of the recording, as in every journal line
	TaskID    string // the purpose
}

// Verdicts of a package.
const (
	Complete   = "complete"   // snapshots: every capture that was planned is there
	Incomplete = "incomplete" // snapshots: some finding bears on them
	Passed     = "passed"     // execution: every step completed
	Failed     = "failed"     // execution: some step is known to have failed or to have been refused
	Uncertain  = "uncertain"  // execution: nothing failed, but not everything is known to have completed
)

// Delivery is what sealing answers: where the package is and what its evidence says. The same package always gives the same.
type Delivery struct {
	ManifestPath     string   `json:"manifestPath"`
	DeliveryVerified bool     `json:"deliveryVerified"`
	Snapshots        string   `json:"snapshots"` // Complete or Incomplete
	Execution        string   `json:"execution"` // Passed, Failed or Uncertain
	Findings         []string `json:"findings"`
}

// Report is the result of verification. OK is true exactly when there is no problem; findings are facts about a sound
// package, not problems of it.
type Report struct {
	OK        bool      `json:"ok"`
	PackageID string    `json:"packageId"`
	SessionID string    `json:"sessionId"`
	TaskID    string    `json:"taskId"`
	Files     int       `json:"files"` // files whose hash was recomputed
	Bytes     int64     `json:"bytes"`
	Snapshots string    `json:"snapshots,omitempty"` // absent when the evidence cannot be judged
	Execution string    `json:"execution,omitempty"`
	Findings  []string  `json:"findings"`
	Problems  []Problem `json:"problems"`
}

// Problem is one thing wrong with a package. Path is relative to the package, "" for the package itself.
type Problem struct {
	Kind    string `json:"kind"`           // one of the Problem constants
	Rule    string `json:"rule,omitempty"` // of the analysis, as H7
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"` // of a journal, from 1
	Message string `json:"message"`
}

// Kinds of problems. They are stable.
const (
	ProblemChanged    = "changed"    // a listed file has other bytes than the manifest says
	ProblemAdded      = "added"      // a file the manifest does not list
	ProblemRemoved    = "removed"    // a listed file that is not there
	ProblemRenamed    = "renamed"    // a listed file that is there under another name
	ProblemUnsafe     = "unsafe"     // a symlink, special file, second hard link, or a name no package may hold
	ProblemUnreadable = "unreadable" // a file or folder that the reader may not or cannot read
	ProblemManifest   = "manifest"   // manifest.json breaks its own rules or contradicts the folder
	ProblemJournal    = "journal"    // the journal is damaged, or lines that something vouches for are missing
	ProblemEvidence   = "evidence"   // records contradict each other: a hard failure of the analysis
)
