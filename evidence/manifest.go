package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// manifestVersion is the only one there is.
const manifestVersion = 1

// maxManifest bounds manifest.json, in bytes: far more files than a disk of evidence holds.
const maxManifest = 256 << 20

// provenance of every snapshot: taken around a dispatch, by the recorder.
const provenance = "dispatch-captured"

// declaredType of every attachment.
const declaredType = "declared-extraction"

// Manifest lists every file of a package except itself.
type Manifest struct {
	ManifestVersion     int               `json:"manifestVersion"`
	PackageID           string            `json:"packageId"`
	SessionID           string            `json:"sessionId"`
	TaskID              string            `json:"taskId"`
	CreatedAt           string            `json:"createdAt"`
	CaptureSoftware     []string          `json:"captureSoftware,omitempty"` // ways of capture that plans name, sorted
	Attempts            []json.RawMessage `json:"attempts"`                  // always empty, as are segments and media
	Segments            []json.RawMessage `json:"segments"`
	Records             []Artifact        `json:"records"`
	Snapshots           []Artifact        `json:"snapshots,omitempty"`   // captured originals
	Attachments         []Artifact        `json:"attachments,omitempty"` // everything extracted
	Media               []json.RawMessage `json:"media"`
	OpeningInstructions string            `json:"openingInstructions"` // the text of OPENING.txt

	raw []byte // as read
}

// Artifact is one file. The fields after Bytes are of snapshots, DeclaredType of attachments.
type Artifact struct {
	Path                    string   `json:"path"`
	SHA256                  string   `json:"sha256"`
	Bytes                   int64    `json:"bytes"`
	ActionID                string   `json:"actionId,omitempty"`
	GroupID                 string   `json:"groupId,omitempty"`
	Role                    string   `json:"role,omitempty"`
	DeclaredAfterIntervalMs *float64 `json:"declaredAfterIntervalMs,omitempty"`
	CapturedAt              string   `json:"capturedAt,omitempty"`
	Provenance              string   `json:"provenance,omitempty"`
	DeclaredType            string   `json:"declaredType,omitempty"`
}

func (m Manifest) identity() Identity { return Identity{m.PackageID, m.SessionID, m.TaskID} }

// all artifacts, in the manifest's order.
func (m Manifest) all() []Artifact { return slices.Concat(m.Records, m.Snapshots, m.Attachments) }

// buildManifest describes what analysis saw, and the opening text that will be written beside it.
func buildManifest(a *analysis, now time.Time) Manifest {
	m := Manifest{
		ManifestVersion: manifestVersion, PackageID: a.id.PackageID, SessionID: a.id.SessionID, TaskID: a.id.TaskID,
		CreatedAt: now.UTC().Format(TimeFormat), CaptureSoftware: a.captureSoftware(),
		Attempts: []json.RawMessage{}, Segments: []json.RawMessage{}, Media: []json.RawMessage{}, Records: []Artifact{},
	}
	m.OpeningInstructions = opening(m)
	text := []byte(m.OpeningInstructions)
	digests := map[string]digest{openingPath: {SHA256: hashLine(text), Bytes: int64(len(text))}}
	for rel, d := range a.digests {
		if rel != openingPath {
			digests[rel] = d
		}
	}
	captured := a.snapshotArtifacts()
	for _, rel := range sortedKeys(digests) {
		file := Artifact{Path: rel, SHA256: digests[rel].SHA256, Bytes: digests[rel].Bytes}
		snapshot, isSnapshot := captured[rel]
		switch {
		case isSnapshot:
			m.Snapshots = append(m.Snapshots, snapshot)
		case strings.HasPrefix(rel, extractionsDir):
			file.DeclaredType = declaredType
			m.Attachments = append(m.Attachments, file)
		default:
			m.Records = append(m.Records, file)
		}
	}
	return m
}

// snapshotArtifacts is what the manifest must say of each capture, by path.
func (m *material) snapshotArtifacts() map[string]Artifact {
	all := map[string]Artifact{}
	for _, c := range m.captures {
		file := Artifact{
			Path: c.path, SHA256: string(c.SHA256), Bytes: int64(c.Bytes.Value), ActionID: string(c.event.ActionID),
			GroupID: c.event.group(), Role: string(c.Role), CapturedAt: string(c.CapturedAt), Provenance: provenance,
		}
		if c.AfterIntervalMs.Set {
			interval := c.AfterIntervalMs.Value
			file.DeclaredAfterIntervalMs = &interval
		}
		all[c.path] = file
	}
	return all
}

// captureSoftware lists the ways of capture that plans name.
func (m *material) captureSoftware() []string {
	var all []string
	for _, e := range m.starts {
		if p := e.SnapshotPlan.Value; p != nil && p.captures() && p.Capture != "" {
			all = append(all, string(p.Capture))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readManifest reads manifest.json and holds it to its own rules. Problems leave a manifest that may be partly empty; the
// error is of a folder or file that cannot be read.
func readManifest(dir string) (Manifest, []Problem, error) {
	data, err := readBounded(filepath.Join(dir, manifestPath), maxManifest)
	if errors.Is(err, os.ErrNotExist) {
		return Manifest{}, []Problem{{Kind: ProblemManifest, Path: manifestPath, Message: "there is no manifest: the folder is not a sealed package"}}, nil
	}
	if err != nil {
		return Manifest{}, nil, fmt.Errorf("cannot read manifest: %w", err)
	}
	m, problems := parseManifest(data)
	return m, problems, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}

// parseManifest reads a manifest of ours or of an older layout.
func parseManifest(data []byte) (Manifest, []Problem) {
	m := Manifest{raw: data}
	var problems []Problem
	bad := func(format string, args ...any) {
		problems = append(problems, Problem{Kind: ProblemManifest, Path: manifestPath, Message: fmt.Sprintf(format, args...)})
	}
	if err := json.Unmarshal(data, &m); err != nil {
		bad("it is not a manifest: %v", err)
		return m, problems
	}
	if m.ManifestVersion != manifestVersion {
		bad("its version is %d, not %d", m.ManifestVersion, manifestVersion)
	}
	for name, list := range map[string][]json.RawMessage{"attempts": m.Attempts, "segments": m.Segments, "media": m.Media} {
		if list == nil || len(list) > 0 {
			bad("its %s are not an empty list", name)
		}
	}
	if m.Records == nil {
		bad("its records are not a list")
	}
	seen := map[string]bool{}
	for _, a := range m.all() {
		if why := artifactFault(a, seen); why != "" {
			bad("entry %q: %s", a.Path, why)
		}
		seen[a.Path] = true
	}
	if !seen[openingPath] {
		bad("it does not list %s", openingPath)
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	return m, problems
}

func artifactFault(a Artifact, seen map[string]bool) string {
	if err := SafePath(a.Path); err != nil {
		return err.Error()
	}
	switch {
	case a.Path == manifestPath:
		return "a manifest cannot list itself"
	case seen[a.Path]:
		return "it is listed twice"
	case a.Bytes < 0 || !validHash(a.SHA256):
		return "its hash or size is malformed"
	}
	return ""
}

// selfFaults holds a manifest to what the opening text and its own form say, so that no byte of it can change unnoticed.
// It applies to packages that this program sealed, which their opening text, hashed like any file, tells.
func selfFaults(m Manifest, text string, capture []string) []Problem {
	if !isOurs(text) {
		return nil
	}
	var problems []Problem
	bad := func(message string) {
		problems = append(problems, Problem{Kind: ProblemManifest, Path: manifestPath, Message: message})
	}
	if m.OpeningInstructions != text || opening(m) != text {
		bad("its identity, time, capture software or instructions are not those of " + openingPath)
	}
	if again, err := MarshalRecord(m); err != nil || !bytes.Equal(again, m.raw) {
		bad("it is not written as a manifest is: bytes of it were changed")
	}
	if !slices.Equal(m.CaptureSoftware, capture) {
		bad("its capture software is not what the plans name")
	}
	if !slices.IsSortedFunc(m.Records, byPath) || !slices.IsSortedFunc(m.Snapshots, byPath) || !slices.IsSortedFunc(m.Attachments, byPath) {
		bad("its entries are not in order")
	}
	for _, file := range m.Records {
		if file != (Artifact{Path: file.Path, SHA256: file.SHA256, Bytes: file.Bytes}) {
			bad("it says more of the record " + file.Path + " than is known")
		}
	}
	for _, file := range m.Attachments {
		if file != (Artifact{Path: file.Path, SHA256: file.SHA256, Bytes: file.Bytes, DeclaredType: declaredType}) {
			bad("it says more of the attachment " + file.Path + " than is known")
		}
	}
	return problems
}

func byPath(a, b Artifact) int { return strings.Compare(a.Path, b.Path) }
