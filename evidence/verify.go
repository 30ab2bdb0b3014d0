package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Verify checks the package in dir: the hash and size of every listed file, that no other file is there, the journal's chain,
// every rule of the analysis, and that the manifest says of each file what the evidence says. It names every problem with
// its file; they are sorted by path. It only reads, each file once, and needs nothing but dir. The error is of a folder that
// cannot be read at all, or of ctx.
func Verify(ctx context.Context, dir string) (Report, error) {
	r, err := verify(ctx, dir)
	if err != nil {
		return Report{}, fmt.Errorf("cannot verify %s: %w", dir, err)
	}
	return r, nil
}

func verify(ctx context.Context, dir string) (Report, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return Report{}, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return Report{}, err
	}
	if !info.IsDir() {
		return Report{}, errors.New("it is not a folder")
	}
	m, problems, err := readManifest(dir)
	if err != nil {
		problems = []Problem{{Kind: ProblemUnreadable, Path: manifestPath, Message: err.Error()}}
	}
	if len(m.Records) == 0 { // not a package: what else lies there is nobody's business
		return report(dir, m, problems, &analysis{material: &material{}}), nil
	}
	a, err := examine(ctx, dir, m.identity())
	if err != nil {
		return Report{}, err
	}
	return report(dir, m, problems, a), nil
}

// report puts together what the manifest and the analysis say.
func report(dir string, m Manifest, problems []Problem, a *analysis) Report {
	delete(a.digests, manifestPath)
	r := Report{PackageID: m.PackageID, SessionID: m.SessionID, TaskID: m.TaskID, Files: len(a.digests), Findings: []string{}}
	for _, d := range a.digests {
		r.Bytes += d.Bytes
	}
	if len(m.Records) > 0 {
		r.Snapshots, r.Execution, r.Findings = a.verdicts.snapshots, a.verdicts.execution, a.texts()
		problems = slices.Concat(problems, compareFiles(m, a), compareManifest(dir, m, a), a.problems)
	}
	slices.SortStableFunc(problems, func(x, y Problem) int {
		return cmp.Or(strings.Compare(x.Path, y.Path), cmp.Compare(x.Line, y.Line))
	})
	r.Problems = append([]Problem{}, problems...)
	r.OK = len(problems) == 0
	return r
}

// compareFiles holds the folder against the manifest's list.
func compareFiles(m Manifest, a *analysis) []Problem {
	listed := map[string]bool{}
	var problems []Problem
	var removed []Artifact
	for _, file := range m.all() {
		listed[file.Path] = true
		d, has := a.digests[file.Path]
		switch {
		case !has && a.unusable(file.Path):
		case !has:
			removed = append(removed, file)
		case d.Bytes != file.Bytes:
			problems = append(problems, Problem{Kind: ProblemChanged, Path: file.Path, Message: fmt.Sprintf("it has %d bytes, %d were sealed", d.Bytes, file.Bytes)})
		case d.SHA256 != file.SHA256:
			problems = append(problems, Problem{Kind: ProblemChanged, Path: file.Path, Message: "its bytes are not those that were sealed"})
		}
	}
	var added []string
	for _, rel := range sortedKeys(a.digests) {
		if !listed[rel] {
			added = append(added, rel)
		}
	}
	return append(problems, missingAndAdded(removed, added, a.digests)...)
}

// unusable reports whether a problem says already why the file at rel was not hashed.
func (a *analysis) unusable(rel string) bool {
	return slices.ContainsFunc(a.problems, func(p Problem) bool {
		return p.Path == rel && (p.Kind == ProblemUnsafe || p.Kind == ProblemUnreadable)
	})
}

// missingAndAdded names files that are gone and files that are new. A new file with the bytes of one that is gone is that file
// under another name.
func missingAndAdded(removed []Artifact, added []string, digests map[string]digest) []Problem {
	var problems []Problem
	for _, file := range removed {
		i := slices.IndexFunc(added, func(rel string) bool { return digests[rel] == digest{file.SHA256, file.Bytes} })
		if i < 0 {
			problems = append(problems, Problem{Kind: ProblemRemoved, Path: file.Path, Message: "it was sealed and is not there"})
			continue
		}
		problems = append(problems, Problem{Kind: ProblemRenamed, Path: file.Path, Message: "it was sealed under this name and is now " + added[i]})
		added = slices.Delete(added, i, i+1)
	}
	for _, rel := range added {
		problems = append(problems, Problem{Kind: ProblemAdded, Path: rel, Message: "it was not sealed"})
	}
	return problems
}

// compareManifest holds what the manifest says about files against the evidence.
func compareManifest(dir string, m Manifest, a *analysis) []Problem {
	var problems []Problem
	bad := func(path, format string, args ...any) {
		problems = append(problems, Problem{Kind: ProblemManifest, Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for _, file := range slices.Concat(m.Records, m.Snapshots) {
		if strings.HasPrefix(file.Path, extractionsDir) {
			bad(file.Path, "it was extracted, and the manifest does not list it as an attachment")
		}
	}
	for _, file := range m.Attachments {
		if !strings.HasPrefix(file.Path, extractionsDir) {
			bad(file.Path, "the manifest lists it as an attachment, and it was not extracted")
		}
	}
	if !a.damaged {
		problems = append(problems, compareSnapshots(m, a)...)
	}
	return append(problems, checkSelf(dir, m, a)...)
}

// compareSnapshots holds the manifest's snapshots against the journal's captures, one to one.
func compareSnapshots(m Manifest, a *analysis) []Problem {
	var problems []Problem
	captured := a.snapshotArtifacts()
	for _, file := range m.Snapshots {
		want, has := captured[file.Path]
		switch {
		case !has:
			problems = append(problems, Problem{Kind: ProblemManifest, Path: file.Path, Message: "the manifest lists a snapshot that the journal does not know"})
		case !sameSnapshot(file, want):
			problems = append(problems, Problem{Kind: ProblemManifest, Path: file.Path, Message: "the manifest does not say of the snapshot what the journal says"})
		}
		delete(captured, file.Path)
	}
	for _, rel := range sortedKeys(captured) {
		problems = append(problems, Problem{Kind: ProblemManifest, Path: rel, Message: "the journal knows a snapshot that the manifest does not list as one"})
	}
	return problems
}

func sameSnapshot(a, b Artifact) bool {
	x, y := a.DeclaredAfterIntervalMs, b.DeclaredAfterIntervalMs
	a.DeclaredAfterIntervalMs, b.DeclaredAfterIntervalMs = nil, nil
	return a == b && (x == nil) == (y == nil) && (x == nil || *x == *y)
}

// checkSelf applies selfFaults, which needs the opening text.
func checkSelf(dir string, m Manifest, a *analysis) []Problem {
	if _, has := a.digests[openingPath]; !has || a.damaged {
		return nil // said already
	}
	text, err := readBounded(filepath.Join(dir, openingPath), maxOpening)
	if err != nil {
		return []Problem{{Kind: ProblemUnreadable, Path: openingPath, Message: err.Error()}}
	}
	return selfFaults(m, string(text), a.captureSoftware())
}
