package evidence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestVerdicts holds one recording per rule of the review against its verdicts and findings.
func TestVerdicts(t *testing.T) {
	type want struct {
		snapshots, execution string
		steps                []string // name:execution
		findings             []string // rules
	}
	tests := []struct {
		name  string
		build func(r *recording)
		want  want
	}{
		{"a whole captured run passes", func(r *recording) { r.add(run{capture: "x11"}) },
			want{Complete, Passed, []string{"run-1:completed"}, nil}},
		{"a run without capture software has no gap", func(r *recording) { r.add(run{}) },
			want{Complete, Passed, []string{"run-1:completed"}, nil}},
		{"a missing plan is a gap", func(r *recording) { r.add(run{skip: skip("plan")}) },
			want{Incomplete, Uncertain, []string{"run-1:uncertain"}, []string{"F4"}}},
		{"completed without its picture after is uncertain", func(r *recording) { r.add(run{}); r.add(run{capture: "x11", skip: skip("after")}) },
			want{Incomplete, Uncertain, []string{"run-1:completed", "run-2:uncertain"}, []string{"F4", "F7"}}},
		{"a nonzero exit fails", func(r *recording) { r.add(run{capture: "x11", code: 3}) },
			want{Complete, Failed, []string{"run-1:failed"}, []string{"F10"}}},
		{"a refused run fails", func(r *recording) { r.add(run{refused: true}) },
			want{Complete, Failed, []string{"run-1:refused"}, []string{"F10"}}},
		{"an uncertain receipt makes a completed step uncertain", func(r *recording) { r.add(run{uncertain: true}) },
			want{Complete, Uncertain, []string{"run-1:uncertain"}, []string{"F11"}}},
		{"a good receipt does not repair a missing completion", func(r *recording) { r.add(run{skip: skip("completion")}) },
			want{Complete, Uncertain, []string{"run-1:incomplete"}, nil}},
		{"no record makes a step uncertain", func(r *recording) { r.add(run{skip: skip("record")}) },
			want{Complete, Uncertain, []string{"run-1:uncertain"}, []string{"F5"}}},
		{"uncited captures are defects only", func(r *recording) { r.add(run{capture: "x11", skip: skip("cite")}) },
			want{Complete, Passed, []string{"run-1:completed"}, []string{"F6", "F6"}}},
		{"a lost request makes the execution uncertain", func(r *recording) {
			r.add(run{capture: "x11"})
			r.writeJSON("host/requests/execution-lost.json", fields{"executionId": "execution-lost", "because": "It matters"})
		}, want{Complete, Uncertain, []string{"run-1:completed"}, []string{"F9"}}},
		{"no steps at all is uncertain", func(*recording) {}, want{Complete, Uncertain, nil, nil}},
		{"a group shares one pair", func(r *recording) {
			r.add(run{capture: "x11", role: "first", group: "g"})
			r.add(run{capture: "x11", role: "member", group: "g"})
			r.add(run{capture: "x11", role: "last", group: "g"})
		}, want{Complete, Passed, []string{"run-1:completed", "run-2:completed", "run-3:completed"}, nil}},
		{"a group without its last is incomplete", func(r *recording) {
			r.add(run{capture: "x11", role: "first", group: "g"})
			r.add(run{capture: "x11", role: "member", group: "g"})
		}, want{Incomplete, Uncertain, []string{"run-1:uncertain", "run-2:uncertain"}, []string{"F3", "F4", "F4"}}},
		{"an interrupted group is incomplete", func(r *recording) {
			r.add(run{capture: "x11", role: "first", group: "g"})
			r.add(run{})
			r.add(run{capture: "x11", role: "last", group: "g"})
		}, want{Incomplete, Uncertain, []string{"run-1:uncertain", "run-2:completed", "run-3:uncertain"}, []string{"F3", "F4", "F4"}}},
		{"a repeated step id gets the action behind it", func(r *recording) { r.add(run{step: "s"}); r.add(run{step: "s"}) },
			want{Complete, Passed, []string{"s:completed", "s@action-0002:completed"}, nil}},
		{"an unfinished capture is a finding", func(r *recording) {
			r.add(run{capture: "x11"})
			r.write(snapshotsDir+"session-0demo/.x.png.part", []byte("half"))
		}, want{Incomplete, Passed, []string{"run-1:completed"}, []string{"F8"}}},
		{"a snapshot that an intent explains is a finding", func(r *recording) {
			r.add(run{capture: "x11"})
			r.line("capture-intent", fields{"actionId": "action-x", "role": "before", "fileName": "cut.png"})
			r.write(snapshotsDir+"session-0demo/cut.png", []byte("png"))
		}, want{Incomplete, Passed, []string{"run-1:completed"}, []string{"F12"}}},
		{"a garbled receipt from the guest is a defect", func(r *recording) {
			r.add(run{})
			r.write("host/receiver-receipts/execution-x.json", []byte("{torn"))
		}, want{Complete, Passed, []string{"run-1:completed"}, []string{"F13"}}},
		{"a whole output that is gone is a defect", func(r *recording) {
			r.add(run{output: "long"})
			_ = os.Remove(r.path("state/outputs/execution-0001.stdout"))
		}, want{Complete, Passed, []string{"run-1:completed"}, []string{"F14"}}},
		{"a record without a start is a defect and an incomplete step", func(r *recording) {
			r.writeJSON("state/records/actions/a.json", fields{"actionId": "a", "sessionId": "session-0demo", "state": "pending"})
		}, want{Complete, Uncertain, []string{"a:incomplete"}, []string{"F1"}}},
		{"a diagnostic is a step without pictures", func(r *recording) {
			r.writeJSON("host/diagnostics/d.request.json", fields{"executionId": "d", "evidenceMode": "diagnostic", "because": "why", "at": "2026-11-30T10:00:00.000Z"})
			r.writeJSON("host/diagnostics/d.receipt.json", fields{"executionId": "d", "evidenceMode": "diagnostic", "output": "hi\n",
				"outcome": fields{"kind": "completed", "exitStatus": fields{"code": 0, "signal": nil}}})
		}, want{Complete, Passed, []string{"diagnostic-d:completed"}, nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecording(t, t.TempDir())
			tt.build(r)
			d := r.seal()
			a, err := examine(t.Context(), r.dir, demoIdentity)
			if err != nil {
				t.Fatal(err)
			}
			got := want{d.Snapshots, d.Execution, nil, nil}
			for _, s := range a.steps {
				got.steps = append(got.steps, s.ID+":"+s.Execution)
			}
			for _, h := range a.findings {
				got.findings = append(got.findings, h.rule)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("verdicts differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInvalidEvidenceIsNotSealed breaks one rule each; nothing may be written then.
func TestInvalidEvidenceIsNotSealed(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(r *recording)
		want  string // rule
	}{
		{"blank task", nil, "H1"},
		{"no journal", func(r *recording) { _ = os.Remove(r.path(journalPath)) }, "H2"},
		{"torn journal", func(r *recording) { appendTo(r, journalPath, `{"kind":`) }, "H2"},
		{"line of another recording", func(r *recording) { r.line("note", fields{"sessionId": "session-other"}) }, "H3"},
		{"second start", func(r *recording) { r.line("action-start", fields{"actionId": "action-0001"}) }, "H4"},
		{"start without action", func(r *recording) { r.line("action-start", nil) }, "H4"},
		{"record with another outcome", func(r *recording) {
			r.edit("state/records/action/action-0001.json", func(f fields) { f["toolOutcome"] = fields{"kind": "failure"} })
		}, "H5"},
		{"record of another attempt", func(r *recording) {
			r.edit("state/records/action/action-0001.json", func(f fields) { f["attemptId"] = "attempt-2" })
		}, "H5"},
		{"completion without start", func(r *recording) { r.line("action-completion", fields{"actionId": "action-x"}) }, "H6"},
		{"capture of an unknown action", func(r *recording) {
			r.line("snapshot-captured", fields{"actionId": "action-x", "snapshot": fields{"fileName": "x.png"}})
		}, "H7"},
		{"capture after completion", func(r *recording) {
			r.line("snapshot-captured", fields{"actionId": "action-0001", "snapshot": fields{"fileName": "x.png"}})
		}, "H7"},
		{"other bytes than at capture time", func(r *recording) { appendTo(r, r.snapshots()[0], "x") }, "H7"},
		{"capture file gone", func(r *recording) { _ = os.Remove(r.path(r.snapshots()[0])) }, "H7"},
		{"orphan snapshot", func(r *recording) { r.write(snapshotsDir+"session-0demo/o.png", []byte("png")) }, "H8"},
		{"foreign reference", func(r *recording) {
			r.edit("state/records/action/action-0001.json", func(f fields) { f["snapshots"].([]any)[0].(fields)["sha256"] = strings.Repeat("0", 64) })
		}, "H9"},
		{"two pictures before", func(r *recording) { extraCapture(r, "before", "2026-11-30T10:00:09.000Z") }, "H10"},
		{"picture after taken first", func(r *recording) { extraCapture(r, "after", "2026-11-30T09:00:00.000Z") }, "H11"},
		{"capture that the plan does not ask for", func(r *recording) {
			r.start(run{}, ids{"execution-x", "action-x", "x"})
			r.pictures(run{capture: "x11"}, ids{"execution-x", "action-x", "x"}, "before")
		}, "H7"},
		{"host record that is not JSON", func(r *recording) { r.write("host/requests/x.json", []byte("{")) }, "H12"},
		{"receipt of another recording", func(r *recording) {
			r.edit("host/receipts/execution-0001.json", func(f fields) { f["sessionId"] = "session-other" })
		}, "H13"},
		{"receipt with a blank identity", func(r *recording) {
			r.edit("host/receipts/execution-0001.json", func(f fields) { f["executionId"] = " " })
		}, "H13"},
		{"two diagnostics of one name", func(r *recording) {
			for _, name := range []string{"a", "b"} {
				r.writeJSON("host/diagnostics/"+name+".receipt.json", fields{"executionId": "d", "outcome": fields{"kind": "uncertain"}})
			}
		}, "H14"},
		{"whole output with other bytes", func(r *recording) { appendTo(r, "state/outputs/execution-0002.stdout", "x") }, "H15"},
		{"journal cut at its end", func(r *recording) { cutLastLine(r) }, "H16"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecording(t, t.TempDir())
			r.add(run{capture: "x11"})
			r.add(run{output: "a long output"})
			id := demoIdentity
			if tt.spoil == nil {
				id.TaskID = " "
			} else {
				tt.spoil(r)
			}
			_, err := Seal(t.Context(), r.dir, id, sealedAt)
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("Seal = %v, want an InvalidError", err)
			}
			rules := map[string]bool{}
			for _, p := range invalid.Problems {
				rules[p.Rule] = true
			}
			if !rules[tt.want] {
				t.Errorf("rules broken: %v, want %s among them", invalid.Problems, tt.want)
			}
			for _, rel := range []string{manifestPath, openingPath} {
				if _, err := os.Lstat(r.path(rel)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s was left behind", rel)
				}
			}
		})
	}
}

// extraCapture starts an action whose picture before is sound, and adds one more picture.
func extraCapture(r *recording, role, at string) {
	c, id := run{capture: "x11"}, ids{"execution-x", "action-x", "x"}
	r.start(c, id)
	r.pictures(c, id, "before")
	data := []byte("png")
	name := "extra-" + role + ".png"
	r.write(snapshotsDir+"session-0demo/"+name, data)
	s := fields{"fileName": name, "sha256": sha(data), "bytes": len(data), "capturedAt": at, "role": role}
	if role == "after" {
		s["declaredAfterIntervalMs"] = 500
	}
	r.line("snapshot-captured", fields{"actionId": id.action, "state": "recorded", "snapshot": s})
}

func appendTo(r *recording, rel, more string) {
	r.t.Helper()
	data, err := os.ReadFile(r.path(rel))
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(rel, append(data, more...))
}

func cutLastLine(r *recording) {
	r.t.Helper()
	data, err := os.ReadFile(r.path(journalPath))
	if err != nil {
		r.t.Fatal(err)
	}
	cut := strings.LastIndex(strings.TrimSuffix(string(data), "\n"), "\n")
	r.write(journalPath, data[:cut+1])
}

// demoPackage seals a recording with one of everything.
func demoPackage(t testing.TB) *recording {
	t.Helper()
	r := newRecording(t, t.TempDir())
	r.add(run{capture: "x11"})
	r.add(run{output: "a long output"})
	r.write("extractions/report/5b0c/result.json", []byte("{}\n"))
	r.write("host/events/1-a.json", []byte("{}\n"))
	r.seal()
	return r
}

func TestSealAgainVerifiesAndAnswersTheSame(t *testing.T) {
	r := newRecording(t, t.TempDir())
	r.add(run{capture: "x11"})
	first := r.seal()
	before, err := os.ReadFile(r.path(manifestPath))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Seal(t.Context(), r.dir, demoIdentity, sealedAt.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the second delivery differs (-first +again):\n%s", diff)
	}
	after, err := os.ReadFile(r.path(manifestPath))
	if err != nil || string(before) != string(after) {
		t.Errorf("the manifest was rewritten (%v)", err)
	}
	other := demoIdentity
	other.TaskID = "relay-other-1a2b3c4d"
	if _, err := Seal(t.Context(), r.dir, other, sealedAt); err == nil {
		t.Error("a package was sealed again under another task")
	}
}

func TestSealGoesOnAfterOneThatDiedBetweenItsTwoFiles(t *testing.T) {
	r := newRecording(t, t.TempDir())
	r.add(run{capture: "x11"})
	r.seal()
	if err := os.Remove(r.path(manifestPath)); err != nil {
		t.Fatal(err)
	}
	if _, err := Seal(t.Context(), r.dir, demoIdentity, sealedAt.Add(time.Minute)); err != nil {
		t.Errorf("Seal = %v", err)
	}
}

// countdown is a context that ends after it was asked so many times, wherever that is.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestSealThatEndsAnywhereLeavesNothingOfItsOwn(t *testing.T) {
	r := newRecording(t, t.TempDir())
	r.add(run{capture: "x11"})
	stops := 0
	for ; ; stops++ {
		_, err := Seal(&countdown{t.Context(), stops}, r.dir, demoIdentity, sealedAt)
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for _, rel := range []string{manifestPath, openingPath} {
			if _, err := os.Lstat(r.path(rel)); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%s was left when it ended at %d", rel, stops)
			}
		}
	}
	if stops < 20 {
		t.Errorf("it could end in only %d places", stops)
	}
}

func TestSealRefusesForeignOpeningText(t *testing.T) {
	r := newRecording(t, t.TempDir())
	r.add(run{})
	r.write(openingPath, []byte("mine\n"))
	if _, err := Seal(t.Context(), r.dir, demoIdentity, sealedAt); err == nil {
		t.Error("Seal took over a file that it did not write")
	}
	if data, err := os.ReadFile(r.path(openingPath)); err != nil || string(data) != "mine\n" {
		t.Errorf("the file is now %q, %v", data, err)
	}
}

func TestSealRefusesLeftStepFolders(t *testing.T) {
	r := newRecording(t, t.TempDir())
	r.add(run{})
	r.write("host/steps/execution-0001/x", []byte("x"))
	if _, err := Seal(t.Context(), r.dir, demoIdentity, sealedAt); err == nil || !strings.Contains(err.Error(), "host/steps") {
		t.Errorf("Seal = %v, want it to name host/steps", err)
	}
}

func TestManifestClassifiesFiles(t *testing.T) {
	r := demoPackage(t)
	m, problems, err := readManifest(r.dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if len(m.Snapshots) != 2 || m.Snapshots[0].Role != "before" || m.Snapshots[1].Role != "after" || *m.Snapshots[1].DeclaredAfterIntervalMs != 500 {
		t.Errorf("snapshots = %+v", m.Snapshots)
	}
	if len(m.Attachments) != 1 || m.Attachments[0].DeclaredType != "declared-extraction" {
		t.Errorf("attachments = %+v", m.Attachments)
	}
	if !cmp.Equal(m.CaptureSoftware, []string{"x11"}) {
		t.Errorf("captureSoftware = %v", m.CaptureSoftware)
	}
	if !strings.Contains(m.OpeningInstructions, `"mcp-relay verify PATH"`) {
		t.Error("the opening text does not say how to verify")
	}
}

func TestReviewShowsStepsWithTheirReasonsAndPictures(t *testing.T) {
	r := demoPackage(t)
	review, err := Review(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	s := review.Steps[0]
	if s.Because != "Because run-1" || s.Expected != "Exits with status 0" || s.Snapshots == nil || s.Snapshots.Before == "" || s.Snapshots.After == "" {
		t.Errorf("step = %+v", s)
	}
	d := review.Details["run-1"]
	if d.Output == nil || d.Output.Stdout != "ok\n" || *d.Output.Exit != 0 || d.At == "" || len(d.Argv) != 2 {
		t.Errorf("details = %+v", d)
	}
	if len(review.Outputs) != 1 || len(review.Files) != 2 || len(review.Reasons.Execution) != 0 {
		t.Errorf("review = %+v", review)
	}
}

func TestEveryFindingComesWithAReasonAndAdvice(t *testing.T) {
	r := newRecording(t, t.TempDir())
	r.add(run{capture: "x11", skip: skip("after")})
	r.add(run{skip: skip("record")})
	r.writeJSON("host/requests/execution-lost.json", fields{"executionId": "execution-lost", "because": "It matters"})
	r.seal()
	review, err := Review(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, reasons := range map[string][]Reason{"snapshots": review.Reasons.Snapshots, "execution": review.Reasons.Execution, "defects": review.Reasons.Defects} {
		if len(reasons) == 0 {
			t.Errorf("no reasons for %s", name)
		}
		for _, reason := range reasons {
			if reason.Action == "" || !strings.HasSuffix(reason.Text, ".") {
				t.Errorf("%s: %+v lacks advice or a full stop", name, reason)
			}
		}
	}
}

func TestVerifyAcceptsAPackageThroughASymlink(t *testing.T) {
	r := demoPackage(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(r.dir, link); err != nil {
		t.Fatal(err)
	}
	if got := mustVerify(t, link); !got.OK {
		t.Errorf("problems: %v", got.Problems)
	}
}

func TestVerifyOfSomethingElse(t *testing.T) {
	if _, err := Verify(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v, want not-exist", err)
	}
	if got := mustVerify(t, t.TempDir()); got.OK || len(got.Problems) != 1 || got.Problems[0].Kind != ProblemManifest {
		t.Errorf("an empty folder: %+v", got)
	}
}
