package evidence

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the packages of testdata/vectors anew, with what Verify says of them now")

// expectation is expect.json of a vector: what any verifier must say of the package beside it.
type expectation struct {
	About     string     `json:"about"`
	OK        bool       `json:"ok"`
	Snapshots string     `json:"snapshots,omitempty"`
	Execution string     `json:"execution,omitempty"`
	Findings  []string   `json:"findings"`
	Problems  []location `json:"problems"`
}

// location is a problem without its wording.
type location struct {
	Kind string `json:"kind"`
	Rule string `json:"rule,omitempty"`
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
}

// vector is a package: how it is recorded, and what is done to it after it was sealed.
type vector struct {
	name, about string
	record      func(r *recording)
	tamper      func(r *recording)
}

func captured(r *recording) { r.add(run{capture: "x11", output: "a long output"}) }

var vectors = []vector{
	{"sound-captured", "a captured run with a whole output", captured, nil},
	{"sound-no-capture", "runs of an image without capture software: nothing is missing", func(r *recording) { r.add(run{}) }, nil},
	{"sound-group", "three runs with one pair", func(r *recording) {
		r.add(run{capture: "cua-driver", role: "first", group: "g"})
		r.add(run{capture: "cua-driver", role: "member", group: "g"})
		r.add(run{capture: "cua-driver", role: "last", group: "g"})
	}, nil},
	{"sound-incomplete", "a completed run without its picture after", func(r *recording) { r.add(run{capture: "x11", skip: skip("after")}) }, nil},
	{"sound-failed", "a run with exit status 3 and a refused one", func(r *recording) { r.add(run{code: 3}); r.add(run{refused: true}) }, nil},
	{"older-layout", "a journal without a chain, an opening text of other words, fields we do not know", func(r *recording) {
		r.add(run{capture: "x11"})
		makeOlder(r)
	}, makeOlderManifest},
	{"older-layout-changed", "the same with one byte changed", func(r *recording) {
		r.add(run{capture: "x11"})
		makeOlder(r)
	}, func(r *recording) { makeOlderManifest(r); flip(r, "host/requests/execution-0001.json", 30) }},
	{"changed-record", "one byte of a record changed", captured, func(r *recording) { flip(r, "host/requests/execution-0001.json", 30) }},
	{"changed-snapshot", "one byte of a picture changed", captured, func(r *recording) { flip(r, r.snapshots()[0], 20) }},
	{"changed-output", "one byte of a whole output changed", captured, func(r *recording) { flip(r, "state/outputs/execution-0001.stdout", 3) }},
	{"changed-opening", "one byte of the opening text changed", captured, func(r *recording) { flip(r, openingPath, 60) }},
	{"changed-manifest-time", "the manifest's time changed", captured, func(r *recording) {
		replaceIn(r, manifestPath, `"createdAt": "2026-11-30`, `"createdAt": "2026-11-29`)
	}},
	{"changed-manifest-space", "a blank added to the manifest", captured, func(r *recording) { replaceIn(r, manifestPath, `"taskId": `, `"taskId":  `) }},
	{"changed-manifest-role", "a snapshot relabelled in the manifest", captured, func(r *recording) {
		replaceIn(r, manifestPath, `"role": "before"`, `"role": "after"`)
	}},
	{"added-file", "a file added", captured, func(r *recording) { r.write("host/events/2-b.json", []byte("{}\n")) }},
	{"added-snapshot", "a picture added", captured, func(r *recording) { r.write(snapshotsDir+"session-0demo/new.png", []byte("png")) }},
	{"removed-file", "a record removed", captured, func(r *recording) { _ = os.Remove(r.path("host/requests/execution-0001.json")) }},
	{"removed-snapshot", "a picture removed", captured, func(r *recording) { _ = os.Remove(r.path(r.snapshots()[0])) }},
	{"removed-opening", "the opening text removed", captured, func(r *recording) { _ = os.Remove(r.path(openingPath)) }},
	{"removed-manifest", "the manifest removed", captured, func(r *recording) { _ = os.Remove(r.path(manifestPath)) }},
	{"renamed-file", "a record renamed", captured, func(r *recording) {
		_ = os.Rename(r.path("host/requests/execution-0001.json"), r.path("host/requests/execution-9999.json"))
	}},
	{"swapped-files", "two pictures have changed names", captured, func(r *recording) {
		s := r.snapshots()
		_ = os.Rename(r.path(s[0]), r.path("t"))
		_ = os.Rename(r.path(s[1]), r.path(s[0]))
		_ = os.Rename(r.path("t"), r.path(s[1]))
	}},
	{"journal-edited", "line 3 of the journal edited", captured, func(r *recording) {
		lines(r, func(l []string) []string { l[2] = strings.Replace(l[2], "admitted", "recorded", 1); return l })
	}},
	{"journal-line-removed", "line 3 of the journal removed", captured, func(r *recording) {
		lines(r, func(l []string) []string { return append(l[:2:2], l[3:]...) })
	}},
	{"journal-reordered", "lines 3 and 4 of the journal exchanged", captured, func(r *recording) {
		lines(r, func(l []string) []string { l[2], l[3] = l[3], l[2]; return l })
	}},
	{"journal-cut", "the last line of the journal removed", captured, cutLastLine},
	{"journal-torn", "the journal cut in the middle of its last line", captured, func(r *recording) {
		lines(r, func(l []string) []string { l[len(l)-1] = l[len(l)-1][:20]; return l })
	}},
	{"journal-cut-resealed", "the last line of the journal removed and the manifest made to fit", captured, func(r *recording) {
		cutLastLine(r)
		relist(r, journalPath)
	}},
	{"journal-edited-resealed", "line 3 of the journal edited and the manifest made to fit", captured, func(r *recording) {
		lines(r, func(l []string) []string { l[2] = strings.Replace(l[2], "admitted", "recorded", 1); return l })
		relist(r, journalPath)
	}},
	{"snapshot-replaced-resealed", "a picture replaced and the manifest made to fit", captured, func(r *recording) {
		flip(r, r.snapshots()[0], 20)
		relist(r, r.snapshots()[0])
	}},
}

// TestVectors holds Verify against packages that are stored with what must be said of them. -update writes them anew.
func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			dir := filepath.Join("testdata", "vectors", v.name)
			if *update {
				writeVector(t, dir, v)
			}
			data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want expectation
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			got := expect(mustVerify(t, filepath.Join(dir, "package")), v.about)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("verification differs (-want +got):\n%s", diff)
			}
			if sound := v.tamper == nil || v.name == "older-layout"; got.OK != sound {
				t.Errorf("OK = %v, want %v", got.OK, sound)
			}
		})
	}
}

func TestEachVectorFolderIsInTheTable(t *testing.T) {
	known := map[string]bool{}
	for _, v := range vectors {
		known[v.name] = true
	}
	found, err := os.ReadDir(filepath.Join("testdata", "vectors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.IsDir() && !known[f.Name()] {
			t.Errorf("testdata/vectors/%s is of no vector", f.Name())
		}
	}
}

func expect(r Report, about string) expectation {
	e := expectation{About: about, OK: r.OK, Snapshots: r.Snapshots, Execution: r.Execution, Findings: r.Findings, Problems: []location{}}
	for _, p := range r.Problems {
		e.Problems = append(e.Problems, location{p.Kind, p.Rule, p.Path, p.Line})
	}
	return e
}

func writeVector(t *testing.T, dir string, v vector) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(filepath.Join(dir, "package"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRecording(t, abs)
	v.record(r)
	r.seal()
	if v.tamper != nil {
		v.tamper(r)
	}
	data, err := MarshalRecord(expect(mustVerify(t, abs), v.about))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "expect.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// flip changes one bit of a file.
func flip(r *recording, rel string, at int) {
	r.t.Helper()
	data, err := os.ReadFile(r.path(rel))
	if err != nil {
		r.t.Fatal(err)
	}
	data[at] ^= 1
	r.write(rel, data)
}

func replaceIn(r *recording, rel, from, to string) {
	r.t.Helper()
	data, err := os.ReadFile(r.path(rel))
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		r.t.Fatalf("%s does not hold %q", rel, from)
	}
	r.write(rel, []byte(strings.Replace(string(data), from, to, 1)))
}

// lines rewrites the journal's lines.
func lines(r *recording, change func([]string) []string) {
	r.t.Helper()
	data, err := os.ReadFile(r.path(journalPath))
	if err != nil {
		r.t.Fatal(err)
	}
	all := change(strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n"))
	text := strings.Join(all, "")
	if strings.HasSuffix(all[len(all)-1], "}") {
		text += "\n"
	}
	r.write(journalPath, []byte(text))
}

// relist makes the manifest's hash and size of one file what they are now, as somebody would who covers a change.
func relist(r *recording, rel string) {
	r.t.Helper()
	data, err := os.ReadFile(r.path(rel))
	if err != nil {
		r.t.Fatal(err)
	}
	m, problems, err := readManifest(r.dir)
	if err != nil || len(problems) > 0 {
		r.t.Fatal(problems, err)
	}
	for _, list := range [][]Artifact{m.Records, m.Snapshots, m.Attachments} {
		for i := range list {
			if list[i].Path == rel {
				list[i].SHA256, list[i].Bytes = sha(data), int64(len(data))
			}
		}
	}
	r.writeJSON(manifestPath, m)
}

// makeOlder takes from a recording what older recorders did not write.
func makeOlder(r *recording) {
	r.t.Helper()
	chain := regexp.MustCompile(`,"prev":"[0-9a-f]{64}"`)
	lines(r, func(l []string) []string {
		for i := range l {
			l[i] = chain.ReplaceAllString(l[i], "")
		}
		return l
	})
	for _, dir := range []string{"state/receiver/receipts/", "host/receiver-receipts/", "host/receipts/"} {
		r.edit(dir+"execution-0001.json", func(f fields) { delete(f, "journalHead") })
	}
}

func makeOlderManifest(r *recording) {
	r.t.Helper()
	text := []byte("Read index.html.\n")
	r.write(openingPath, text)
	relist(r, openingPath)
	r.edit(manifestPath, func(f fields) {
		f["openingInstructions"] = "Open index.html"
		f["humanReview"] = fields{"state": "pending"}
		delete(f, "captureSoftware")
	})
}
