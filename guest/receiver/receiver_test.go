package receiver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

func TestRunLeavesItsStoryInTheJournal(t *testing.T) {
	g := newGuest(t)
	receipt := g.shell("echo ok; echo no >&2; exit 3")
	wantExit(t, receipt, 3)
	if *receipt.Stdout != "ok\n" || *receipt.Stderr != "no\n" || receipt.StdoutStream != nil || receipt.OutputTruncated {
		t.Errorf("output is %s", asJSON(t, receipt))
	}
	wantKinds := []string{"routing-decision", "execution-start", "action-start", "capture-intent", "snapshot-captured",
		"capture-intent", "snapshot-captured", "snapshot-evidence", "action-completion", "execution-completion"}
	if diff := cmp.Diff(wantKinds, g.kinds(receipt.ExecutionID)); diff != "" {
		t.Error(diff)
	}
	if receipt.JournalHead == "" || receipt.SessionID != "session-A" || receipt.ActionID == "" {
		t.Errorf("receipt is %s", asJSON(t, receipt))
	}
	images := receipt.ImageEvidence
	if images.Status != protocol.ImageAvailable || len(images.Snapshots) != 2 {
		t.Fatalf("image evidence is %s", asJSON(t, images))
	}
	for _, s := range images.Snapshots {
		data, err := os.ReadFile(g.join("state", "snapshots", "session-A", s.FileName))
		if err != nil || hexSum(data) != s.SHA256 || int64(len(data)) != s.Bytes {
			t.Errorf("snapshot %s: %v", s.FileName, err)
		}
	}
	for _, file := range []string{"receiver/started/execution-0001.json", "receiver/receipts/execution-0001.json",
		"records/execution/execution-0001.json", "records/action/" + receipt.ActionID + ".json"} {
		if _, err := os.Stat(g.join("state", file)); err != nil {
			t.Error(err)
		}
	}
	if left := g.files("state", "outputs"); len(left) != 0 {
		t.Errorf("outputs that fit the receipt stay as files: %v", left)
	}
}

func TestSameRequestAgainGetsTheSameReceiptAndRunsNothing(t *testing.T) {
	g := newGuest(t)
	req := g.push(protocol.Shell, "echo x >> ran")
	first := g.run(req, Options{Capturer: &fakeCapturer{}})
	second := g.run(req, Options{Capturer: &fakeCapturer{}})
	if a, b := asJSON(t, first), asJSON(t, second); a != b {
		t.Errorf("receipts differ:\n%s\n%s", a, b)
	}
	if n := g.count("ran"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestKnownIDWithOtherBytesIsRefused(t *testing.T) {
	g := newGuest(t)
	req := g.push(protocol.Shell, "echo x >> ran")
	g.run(req, Options{Capturer: &fakeCapturer{}})
	before := g.files("state")
	req.Because = "something else"
	g.request(req)
	want(t, g.run(req, Options{Capturer: &fakeCapturer{}}), protocol.Refused, protocol.ReasonIdentity)
	if diff := cmp.Diff(before, g.files("state")); diff != "" || g.count("ran") != 1 {
		t.Errorf("it left traces: %s", diff)
	}
}

func TestEachLanguageRuns(t *testing.T) {
	for _, row := range []struct{ name, language, tool, code, want string }{
		{"shell", protocol.Shell, "sh", `printf '%s' "shell $PWD"`, "shell "},
		{"javascript", protocol.JavaScript, "node", `process.stdout.write("js " + process.cwd())`, "js "},
		{"python", protocol.Python, "python3", "import os\nprint('py ' + os.getcwd(), end='')", "py "},
	} {
		t.Run(row.name, func(t *testing.T) {
			need(t, row.tool, "install it")
			g := newGuest(t)
			receipt := g.run(g.push(row.language, row.code, noSnapshots), Options{})
			wantExit(t, receipt, 0)
			if got := *receipt.Stdout; got != row.want+g.join("workspace") {
				t.Errorf("stdout is %q", got)
			}
		})
	}
}

// Missing interpreters prove that nothing ran: refused, and the message names what is missing.
func TestTypescriptNeedsTsxOrANodeThatStripsTypes(t *testing.T) {
	for _, row := range []struct{ name, tsx, node, want string }{
		{"tsx", "echo tsx \"$1\"", "", "tsx "},
		{"new node", "", `[ "$1" = --version ] && echo v22.6.0 || echo node "$1"`, "node --experimental-strip-types"},
		{"newer node", "", `[ "$1" = --version ] && echo v24.0.1 || echo node "$1"`, "node --experimental-strip-types"},
		{"old node", "", "echo v22.5.9", ""},
		{"odd node", "", "echo hello", ""},
		{"nothing", "", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			bin := t.TempDir()
			for name, code := range map[string]string{"tsx": row.tsx, "node": row.node} {
				if code != "" {
					if err := os.WriteFile(bin+"/"+name, []byte("#!/bin/sh\n"+code+"\n"), 0o700); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Setenv("PATH", bin)
			g := newGuest(t)
			receipt := g.run(g.push(protocol.TypeScript, "let a: number = 1", noSnapshots), Options{})
			if row.want != "" {
				wantExit(t, receipt, 0)
				if !strings.HasPrefix(*receipt.Stdout, row.want) {
					t.Errorf("stdout is %q", *receipt.Stdout)
				}
				return
			}
			want(t, receipt, protocol.Refused, protocol.ReasonSpawn)
			if !strings.Contains(receipt.Outcome.Diagnostic, "tsx") || receipt.Stdout != nil {
				t.Errorf("receipt is %s", asJSON(t, receipt))
			}
		})
	}
}

func TestRequestThatBreaksARuleIsRefusedOnRecord(t *testing.T) {
	hour, minus, over := int64(3_600_000), int64(-1), int64(300_001)
	for _, row := range []struct {
		name string
		edit func(*protocol.Request)
	}{
		{"blank reason", func(r *protocol.Request) { r.Because = " \n" }},
		{"missing snapshots", func(r *protocol.Request) { r.Snapshots = protocol.Snapshots{} }},
		{"interval missing", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = nil }},
		{"interval -1", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = &minus }},
		{"interval 300001", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = &over }},
		{"timeout 0", func(r *protocol.Request) { r.TimeoutMs = 0 }},
		{"timeout -1", func(r *protocol.Request) { r.TimeoutMs = -1 }},
		{"timeout over an hour", func(r *protocol.Request) { r.TimeoutMs = hour + 1 }},
		{"language", func(r *protocol.Request) { r.Language = "perl" }},
		{"script outside", func(r *protocol.Request) { r.Script.Path = "/etc/passwd" }},
		{"script above", func(r *protocol.Request) { r.Script.Path = r.Cwd + "/../../x.sh" }},
		{"cwd relative", func(r *protocol.Request) { r.Cwd = "workspace" }},
		{"cwd NUL", func(r *protocol.Request) { r.Cwd = "/a\x00b" }},
		{"other protocol", func(r *protocol.Request) { r.Protocol = 99 }},
		{"no reason for no capture", func(r *protocol.Request) { r.Snapshots = protocol.Snapshots{Capture: protocol.CaptureNone} }},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			receipt := g.shell("echo x >> ran", row.edit)
			want(t, receipt, protocol.Refused, protocol.ReasonValidation)
			kinds := g.kinds(receipt.ExecutionID)
			if diff := cmp.Diff([]string{"routing-decision", "action-refusal", "execution-completion"}, kinds); diff != "" {
				t.Error(diff)
			}
			if records := g.files("state", "records", "action"); len(records) != 1 {
				t.Errorf("action records: %v", records)
			}
			if g.count("ran") != 0 || receipt.Stdout != nil || len(receipt.ImageEvidence.Snapshots) != 0 {
				t.Errorf("receipt is %s", asJSON(t, receipt))
			}
		})
	}
}

func TestRequestOfAnotherShapeIsRefusedOnRecord(t *testing.T) {
	for _, row := range []struct{ name, old, new string }{
		{"fraction", `"timeoutMs":60000`, `"timeoutMs":0.5`},
		{"unknown field", `"timeoutMs":60000`, `"timeoutMs":60000,"argv":["/bin/true"]`},
		{"string for a number", `"timeoutMs":60000`, `"timeoutMs":"60000"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			req := g.push(protocol.Shell, "echo x >> ran")
			path := g.join("requests", req.ExecutionID+".json")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.Replace(data, []byte(row.old), []byte(row.new), 1)
			if bytes.Equal(changed, data) {
				t.Fatal("nothing was changed")
			}
			g.write(path, string(changed))
			want(t, g.run(req, Options{Capturer: &fakeCapturer{}}), protocol.Refused, protocol.ReasonValidation)
			if g.count("ran") != 0 {
				t.Error("it ran")
			}
		})
	}
}

func TestRequestWithoutUsableIDLeavesNoFile(t *testing.T) {
	for _, row := range []struct{ name, file, content string }{
		{"too large", "big", `{"executionId":"big","sessionId":"s","attemptId":"a","because":"` + strings.Repeat("x", protocol.MaxRequest) + `"}`},
		{"not JSON", "junk", "junk"},
		{"null", "null", "null"},
		{"escaping id", "x", `{"executionId":"../escape","sessionId":"s","attemptId":"a"}`},
		{"session missing", "x", `{"executionId":"x","attemptId":"a"}`},
		{"other file name", "y", `{"executionId":"x","sessionId":"s","attemptId":"a"}`},
		{"missing", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			if row.file != "" {
				g.write(g.join("requests", row.file+".json"), row.content)
			}
			receipt, written, err := Run(t.Context(), g.path, g.join("requests", row.file+".json"), Options{})
			if err != nil || written != "" {
				t.Fatalf("%q %v", written, err)
			}
			want(t, receipt, protocol.Refused, protocol.ReasonValidation)
			if left := g.files("state"); len(left) != 0 {
				t.Errorf("files: %v", left)
			}
		})
	}
}

func TestScriptThatIsNotTheOneAnnouncedCostsNoCapture(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*protocol.Request)
	}{
		{"hash", func(r *protocol.Request) { r.Script.SHA256 = strings.Repeat("0", 64) }},
		{"size", func(r *protocol.Request) { r.Script.Bytes++ }},
		{"missing", func(r *protocol.Request) { r.Script.Path += "x" }},
		{"link", func(r *protocol.Request) {
			link := r.Script.Path + ".link"
			if err := os.Symlink(r.Script.Path, link); err != nil {
				panic(err)
			}
			r.Script.Path = link
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			camera := &fakeCapturer{}
			receipt := g.run(g.push(protocol.Shell, "echo x >> ran", row.edit), Options{Capturer: camera})
			want(t, receipt, protocol.Refused, protocol.ReasonIdentity)
			if camera.calls != 0 || g.count("ran") != 0 {
				t.Errorf("%d captures, ran %d times", camera.calls, g.count("ran"))
			}
		})
	}
}

// The before-capture guards the dispatch: without it nothing runs, and the begun action is closed as refused.
func TestFailedBeforeCaptureRefuses(t *testing.T) {
	g := newGuest(t)
	camera := &fakeCapturer{fail: map[int]error{1: errLens}}
	req := g.push(protocol.Shell, "echo x >> ran")
	receipt := g.run(req, Options{Capturer: camera})
	want(t, receipt, protocol.Refused, protocol.ReasonCapture)
	if receipt.ImageEvidence.Status != protocol.ImageCaptureFailed || len(receipt.ImageEvidence.Snapshots) != 0 || g.count("ran") != 0 {
		t.Errorf("receipt is %s", asJSON(t, receipt))
	}
	kinds := g.kinds(receipt.ExecutionID)
	if slices.Contains(kinds, "action-completion") || !slices.Contains(kinds, "action-refusal") {
		t.Errorf("journal: %v", kinds)
	}
	for _, e := range g.journal() {
		if e.Kind == "action-refusal" && (e.Dispatched == nil || *e.Dispatched) {
			t.Errorf("the refusal does not say that nothing was dispatched: %s", asJSON(t, e))
		}
	}
	// Capture works again: the next id runs, the first keeps its receipt.
	wantExit(t, g.run(g.push(protocol.Shell, "echo x >> ran"), Options{Capturer: camera}), 0)
	if again := g.run(req, Options{Capturer: camera}); asJSON(t, again) != asJSON(t, receipt) {
		t.Errorf("the first receipt changed: %s", asJSON(t, again))
	}
}

// Execution and evidence are judged apart: a missing after-picture takes nothing from a known exit status.
func TestMissingAfterCaptureLeavesCompleted(t *testing.T) {
	g := newGuest(t)
	receipt := g.run(g.push(protocol.Shell, "echo done; exit 4"), Options{Capturer: &fakeCapturer{fail: map[int]error{2: errLens}}})
	wantExit(t, receipt, 4)
	images := receipt.ImageEvidence
	if images.Status != protocol.ImageCaptureFailed || len(images.Snapshots) != 1 || images.Snapshots[0].Phase != "before" || !strings.Contains(images.Diagnostic, errLens.Error()) {
		t.Errorf("image evidence is %s", asJSON(t, images))
	}
	if !slices.Contains(g.kinds(receipt.ExecutionID), "capture-status") || *receipt.Stdout != "done\n" {
		t.Errorf("journal: %v", g.kinds(receipt.ExecutionID))
	}
	wantExit(t, g.shell("true"), 0)
}

func TestAfterPictureWaitsForItsInterval(t *testing.T) {
	g := newGuest(t)
	interval := int64(150)
	receipt := g.shell("true", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = &interval })
	wantExit(t, receipt, 0)
	if d := receipt.ImageEvidence.Snapshots[1].DeclaredAfterIntervalMs; d == nil || *d != interval {
		t.Errorf("declared interval is %s", asJSON(t, d))
	}
	for _, e := range g.journal() {
		if e.Kind == "snapshot-captured" && e.Snapshot.Role == "after" && *e.Snapshot.ActualWaitMs < interval {
			t.Errorf("it waited %d ms", *e.Snapshot.ActualWaitMs)
		}
	}
}

func TestRunWithoutCaptureSaysSo(t *testing.T) {
	g := newGuest(t)
	receipt := g.run(g.push(protocol.Shell, "true", noSnapshots), Options{Capturer: &fakeCapturer{fail: map[int]error{1: errLens}}})
	wantExit(t, receipt, 0)
	if receipt.ImageEvidence.Status != protocol.ImageNotRequested || len(receipt.ImageEvidence.Snapshots) != 0 {
		t.Errorf("image evidence is %s", asJSON(t, receipt.ImageEvidence))
	}
	data, err := os.ReadFile(g.join("state", "journal", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	plan := `"snapshotPlan":{"capturesBefore":false,"capturesAfter":false,"role":"single","capture":"none","reason":"image lists no capture software"}`
	if !bytes.Contains(data, []byte(plan)) {
		t.Errorf("no explicit plan in %s", data)
	}
}

func TestArgumentsAreNotInterpreted(t *testing.T) {
	g := newGuest(t)
	receipt := g.shell("echo '$(touch evil)'", func(r *protocol.Request) {
		r.Because = "$(touch evil)"
		r.Step.Title = "`touch evil`; touch evil"
		r.Script.Name = "$(touch evil)"
	})
	wantExit(t, receipt, 0)
	if *receipt.Stdout != "$(touch evil)\n" || len(g.files("workspace")) != 0 {
		t.Errorf("stdout %q, files %v", *receipt.Stdout, g.files("workspace"))
	}
}

func TestMissingFolderProvesThatNothingRan(t *testing.T) {
	g := newGuest(t)
	receipt := g.shell("echo x", func(r *protocol.Request) { r.Cwd = "/nowhere/at/all" })
	want(t, receipt, protocol.Refused, protocol.ReasonSpawn)
	if !strings.Contains(receipt.Outcome.Diagnostic, "/nowhere/at/all") {
		t.Error(receipt.Outcome.Diagnostic)
	}
}

func TestScriptKilledByASignalIsCompleted(t *testing.T) {
	g := newGuest(t)
	receipt := g.shell("kill -TERM $$")
	want(t, receipt, protocol.Completed, "")
	if got := asJSON(t, receipt.Outcome.ExitStatus); got != `{"code":null,"signal":"SIGTERM"}` {
		t.Error(got)
	}
}

// A torn tail is somebody's lost line: the journal stays as found and nothing runs.
func TestDamagedJournalRefusesAndStaysUntouched(t *testing.T) {
	g := newGuest(t)
	wantExit(t, g.shell("true"), 0)
	path := g.join("state", "journal", "events.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := string(data[:len(data)-10])
	g.write(path, torn)
	receipt := g.shell("echo x >> ran")
	want(t, receipt, protocol.Refused, protocol.ReasonDamaged)
	if after, _ := os.ReadFile(path); string(after) != torn || g.count("ran") != 0 {
		t.Error("the journal was changed, or the script ran")
	}
	if _, err := os.Stat(g.join("state", "receiver", "receipts", receipt.ExecutionID+".json")); err != nil {
		t.Error(err)
	}
}

func TestJournalLinesFormOneChain(t *testing.T) {
	g := newGuest(t)
	for range 3 {
		wantExit(t, g.shell("true"), 0)
	}
	data, err := os.ReadFile(g.join("state", "journal", "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		var l struct {
			Seq      int `json:"seq"`
			Snapshot *struct {
				FileName string `json:"fileName"`
			} `json:"snapshot"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Seq != i {
			t.Fatalf("line %d has seq %d: %v", i, l.Seq, err)
		}
		// Names of pictures carry the seq of the line that describes them.
		if l.Snapshot != nil && !strings.HasPrefix(l.Snapshot.FileName, fmt.Sprintf("a%06d-", i)) {
			t.Errorf("line %d describes %s", i, l.Snapshot.FileName)
		}
	}
}
