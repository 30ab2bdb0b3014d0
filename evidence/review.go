package evidence

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ReviewData is everything a reader of a package is shown, derived anew each time: nothing of it is stored. Sort steps by
// their details' at, and join by it.
type ReviewData struct {
	PackageID    string             `json:"packageId"`
	SessionID    string             `json:"sessionId"`
	TaskID       string             `json:"taskId"`
	Completeness string             `json:"completeness"` // Complete or Incomplete
	Execution    string             `json:"execution"`    // Passed, Failed or Uncertain
	Findings     []string           `json:"findings"`
	Reasons      Reasons            `json:"reasons"`
	Steps        []Step             `json:"steps"`
	Details      map[string]Details `json:"details"`
	Outputs      []FileFact         `json:"outputs"` // under extractions/
	Files        []FileFact         `json:"files"`   // of the package itself
}

// Reasons say why the verdicts are what they are, in plain words.
type Reasons struct {
	Snapshots []Reason `json:"snapshots"`
	Execution []Reason `json:"execution"`
	Defects   []Reason `json:"defects"`
}

// Reason is one of them, with the steps it concerns and what the reader can do.
type Reason struct {
	Text    string   `json:"text"`
	StepIDs []string `json:"stepIds"`
	Action  string   `json:"action,omitempty"`
}

// FileFact is a file of the package.
type FileFact struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// InvalidError is a package, or a recording, whose evidence contradicts itself.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	p := e.Problems[0]
	where := p.Path
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.Path, p.Line)
	}
	more := ""
	if n := len(e.Problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more problems)", n)
	}
	return fmt.Sprintf("the evidence is invalid: %s: %s%s", where, p.Message, more)
}

// Review derives the review data of the package in dir. It only reads, and it does not compare with the manifest's hashes:
// that is Verify's work. Evidence that contradicts itself is an *InvalidError.
func Review(ctx context.Context, dir string) (ReviewData, error) {
	manifest, problems, err := readManifest(dir)
	if err != nil {
		return ReviewData{}, fmt.Errorf("cannot review %s: %w", dir, err)
	}
	if len(problems) > 0 {
		return ReviewData{}, fmt.Errorf("cannot review %s: %w", dir, &InvalidError{problems})
	}
	a, err := examine(ctx, dir, manifest.identity())
	if err != nil {
		return ReviewData{}, fmt.Errorf("cannot review %s: %w", dir, err)
	}
	if len(a.problems) > 0 {
		return ReviewData{}, fmt.Errorf("cannot review %s: %w", dir, &InvalidError{a.problems})
	}
	return a.review(), nil
}

// examine reads and analyzes the recording or package in dir.
func examine(ctx context.Context, dir string, id Identity) (*analysis, error) {
	t, err := walkTree(dir)
	if err != nil {
		return nil, err
	}
	digests, unreadable, err := hashTree(ctx, dir, t)
	if err != nil {
		return nil, err
	}
	a := analyze(load(dir, id, t, digests))
	a.problems = slices.Concat(t.problems, unreadable, a.problems)
	return a, nil
}

func (a *analysis) review() ReviewData {
	r := ReviewData{
		PackageID: a.id.PackageID, SessionID: a.id.SessionID, TaskID: a.id.TaskID,
		Completeness: a.verdicts.snapshots, Execution: a.verdicts.execution, Findings: a.texts(),
		Reasons: a.reasons(), Steps: a.steps, Details: a.details, Outputs: []FileFact{}, Files: []FileFact{},
	}
	for _, rel := range a.tree.names() {
		if strings.HasPrefix(rel, extractionsDir) {
			r.Outputs = append(r.Outputs, FileFact{rel, a.tree.files[rel]})
		}
	}
	for _, rel := range []string{manifestPath, openingPath, "summary.json", "trajectory.json", "walkthrough.json"} {
		if size, has := a.tree.files[rel]; has {
			r.Files = append(r.Files, FileFact{rel, size})
		}
	}
	return r
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
