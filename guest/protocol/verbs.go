package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Verbs of the guest runtime: argv is <guestRoot>/relay-guest VERB ARGS... Each prints one answer line (AnswerPrefix plus
// compact JSON) and exits 0; a failure prints an answer with "error" and exits 1. Paths are absolute in the guest; root is
// the guest root. A path argument must lie in its root, with no symlink at or below it.
const (
	VerbHello     = "hello"      // -> Hello
	VerbPrepare   = "prepare"    // root target -> {}: parents of target made, 0700
	VerbMkdir     = "mkdir"      // root target -> {}: target and parents made, 0700
	VerbSize      = "size"       // root tree -> Size: stat-only walk
	VerbScan      = "scan"       // root tree frame -> Fact of frame: hashes every file, writes the JSON list of Facts to frame
	VerbFact      = "fact"       // root file -> Fact
	VerbArchive   = "archive"    // root tree archive mode(all|present) paths... -> Fact of archive (without hash), frames of guest/frame
	VerbRemove    = "remove"     // root file -> {}: a missing file is fine
	VerbInvoke    = "invoke"     // root request -> Ack: runs the receiver
	VerbWindow    = "window"     // text -> {}: a plain window with the text, until the display goes; for a first look at a guest
	VerbIdle      = "idle"       // root waitMs -> Idle: waits so long at most until no run is in progress, and changes nothing
	VerbImageFact = "image-fact" // root file maxBytes -> ImageFact
)

// AnswerPrefix marks the one line of a verb's output that is its answer.
const AnswerPrefix = "relay-guest-answer: "

// Answer errors, as codes in Failure.Code. They are stable.
const (
	CodeMissing  = "missing"   // the file or tree does not exist
	CodeUnsafe   = "unsafe"    // symlink, special file, or outside the root
	CodeChanged  = "changed"   // the source changed while it was read
	CodeSpace    = "no-space"  // not enough room for the archive
	CodeTooLarge = "too-large" // over the bound given
	CodeInvalid  = "invalid"   // bad arguments
	CodeNotImage = "not-image" // image-fact: not an image by its first bytes
	CodeIO       = "io"        // everything else
)

// Failure is the answer of a verb that could not do its work.
type Failure struct {
	Code    string `json:"error"`
	Message string `json:"message"`
	Path    string `json:"path,omitempty"`
}

func (f *Failure) Error() string { return f.Message }

// Fact of one regular file. Path is relative to the tree with "/", or "" when the tree is a single file.
type Fact struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Bytes  int64  `json:"bytes"`
}

// Size of a tree. The sum of sparse files that no disk could hold stops at the largest number.
type Size struct {
	Bytes   int64 `json:"bytes"`
	Files   int64 `json:"files"`
	Largest int64 `json:"largest,omitempty"` // of one file; 0 also from a runtime that does not tell
}

// Hello says what the runtime is; SHA256 is of its own file.
type Hello struct {
	Protocol int    `json:"protocol"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes"`
	Display  string `json:"display,omitempty"` // DISPLAY as scripts will see it
}

// ImageFact adds the file's identity, so that a replaced file with equal bytes is noticed.
type ImageFact struct {
	Fact
	Identity string `json:"identity"`
	MimeType string `json:"mimeType"`
}

// Idle says whether a run is in progress in the guest, and which, where that can be told.
type Idle struct {
	Busy        bool   `json:"busy"`
	ExecutionID string `json:"executionId,omitempty"`
}

// Ack is all that invoke says: the receipt file carries the rest.
type Ack struct {
	ExecutionID string `json:"executionId"`
	Outcome     string `json:"outcome"`
	Reason      string `json:"reason,omitempty"`
	Diagnostic  string `json:"diagnostic,omitempty"` // at most 1 KiB of it
	Receipt     string `json:"receipt,omitempty"`    // path of the receipt file, when there is one
}

// ErrNoAnswer means the output holds no answer line: the command died, or something else ran.
var ErrNoAnswer = errors.New("no answer line in the command's output")

// Answer renders v as an answer line with its newline.
func Answer(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot encode answer: %w", err)
	}
	return append(append([]byte(AnswerPrefix), b...), '\n'), nil
}

// ParseAnswer finds the last answer line in output and decodes it into v. An answer with an error code is returned as a
// *Failure; an output without an answer line as ErrNoAnswer.
func ParseAnswer(output string, v any) error {
	i := strings.LastIndex(output, AnswerPrefix)
	if i < 0 || (i > 0 && output[i-1] != '\n') {
		return ErrNoAnswer
	}
	line, _, whole := strings.Cut(output[i+len(AnswerPrefix):], "\n")
	if !whole {
		return ErrNoAnswer
	}
	var f Failure
	if err := json.Unmarshal([]byte(line), &f); err == nil && f.Code != "" {
		return &f
	}
	if err := json.Unmarshal([]byte(line), v); err != nil {
		return fmt.Errorf("cannot read answer line: %w", err)
	}
	return nil
}
