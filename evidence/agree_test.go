package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fullRun is a run with every paper that a host and a receiver write of it, every field filled.
type fullRun struct {
	id      ids
	refused bool
	answer  func(receipt fields) // changes the guest's receipt before it is written
	forge   func(receipt fields) // changes it after the journal has it
	verdict fields               // the host's own outcome, when it rejects the receipt
}

func (r *recording) full(c fullRun) {
	r.t.Helper()
	id, session := c.id, demoIdentity.SessionID
	script := fields{"path": "/g/scripts/" + id.step + ".sh", "sha256": sha([]byte(id.step)), "bytes": 12, "origin": "inline", "name": id.execution}
	step := fields{"id": id.step, "title": "shell echo ok", "expected": "Exits with status 0", "inputMode": "ordinary"}
	snapshots := fields{"capture": "x11", "afterIntervalMs": 500}
	request := "host/requests/" + id.execution + ".json"
	r.writeJSON(request, fields{"protocol": 1, "executionId": id.execution, "sessionId": session, "attemptId": "attempt-1",
		"because": "Because it matters", "language": "shell", "script": script, "cwd": "/g/workspace", "timeoutMs": 120000, "step": step, "snapshots": snapshots})
	r.writeJSON("state/receiver/started/"+id.execution+".json", fields{"executionId": id.execution, "requestSha256": r.sum(request)})
	r.line("annotation", fields{"annotationType": "routing-decision", "executionId": id.execution, "state": "pending",
		"because": "Because it matters", "step": step, "timeoutMs": 120000, "snapshotRequest": snapshots})

	receipt := fields{"executionId": id.execution, "sessionId": session, "requestSha256": r.sum(request), "actionId": id.action, "timeoutMs": 120000,
		"imageEvidence": fields{"status": "capture-unknown", "snapshots": []any{}}}
	state := "recorded"
	if c.refused {
		state = "refused"
		r.refuseFull(c, receipt)
	} else {
		r.carryFull(c, receipt)
	}
	if c.answer != nil {
		c.answer(receipt)
	}
	head := r.line("execution-completion", fields{"executionId": id.execution, "state": state, "response": receipt})
	receipt["journalHead"] = head
	if c.forge != nil {
		c.forge(receipt)
	}
	for _, dir := range []string{"state/receiver/receipts/", "host/receiver-receipts/", "host/receipts/"} {
		r.writeJSON(dir+id.execution+".json", receipt)
	}
	outcome := receipt["outcome"]
	if c.verdict != nil {
		outcome = c.verdict
		r.writeJSON("host/receipts/"+id.execution+".json", fields{"executionId": id.execution, "outcome": outcome})
	}
	r.submission(id, outcome)
}

// submission writes the host's own note on a request that is there.
func (r *recording) submission(id ids, outcome any) {
	state := "uncertain"
	if o, _ := outcome.(fields); o["kind"] == "completed" {
		state = "completed"
	}
	remote := "/g/scripts/" + id.step + ".sh"
	r.writeJSON("host/submissions/sessions/"+demoIdentity.SessionID+"/"+id.execution+".json", fields{"executionId": id.execution,
		"sessionId": demoIdentity.SessionID, "argv": []any{"shell", remote}, "submittedAt": "2026-11-30T09:59:59.000Z", "state": state, "outcome": outcome,
		"script": fields{"scriptId": "code-" + id.execution, "remotePath": remote, "language": "shell", "sha256": sha([]byte(id.step))}})
}

func (r *recording) refuseFull(c fullRun, receipt fields) {
	id := c.id
	r.line("action-refusal", fields{"actionId": id.action, "executionId": id.execution, "stepId": id.step, "state": "refused", "reason": "spawn", "diagnostic": "no interpreter"})
	r.writeJSON("state/records/action/"+id.action+".json", fields{"actionId": id.action, "sessionId": demoIdentity.SessionID, "attemptId": "attempt-1",
		"executionId": id.execution, "stepId": id.step, "state": "refused", "title": "shell echo ok", "inputMode": "ordinary", "diagnostic": "no interpreter", "evidenceStatus": "not-applicable"})
	r.writeJSON("state/records/execution/"+id.execution+".json", fields{"executionId": id.execution, "sessionId": demoIdentity.SessionID,
		"attemptId": "attempt-1", "actionId": id.action, "state": "refused"})
	receipt["outcome"] = fields{"kind": "refused", "reason": "spawn", "diagnostic": "no interpreter"}
}

func (r *recording) carryFull(c fullRun, receipt fields) {
	id := c.id
	argv := []any{"/bin/sh", "/g/scripts/" + id.step + ".sh"}
	r.line("execution-start", fields{"executionId": id.execution, "state": "admitted", "argv": argv, "cwd": "/g/workspace", "timeoutMs": 120000,
		"step":           fields{"id": id.step, "title": "shell echo ok", "expected": "Exits with status 0", "inputMode": "ordinary"},
		"scriptIdentity": fields{"sha256": sha([]byte(id.step)), "bytes": 12, "language": "shell", "remotePath": argv[1], "origin": "inline", "name": id.execution}})
	r.line("action-start", fields{"stepId": id.step, "executionId": id.execution, "actionId": id.action, "state": "admitted", "title": "shell echo ok",
		"inputMode": "ordinary", "snapshotPlan": fields{"capture": "x11", "capturesBefore": true, "capturesAfter": fields{"afterIntervalMs": 500}, "role": "single"}})
	pictures := run{capture: "x11"}
	taken := append(r.pictures(pictures, id, "before"), r.pictures(pictures, id, "after")...)
	r.line("snapshot-evidence", fields{"actionId": id.action, "state": "recorded", "snapshots": taken, "snapshotRole": "single"})
	output := "outputs/" + id.execution + ".stdout"
	r.write("state/"+output, []byte("a long output"))
	exit, stream := fields{"code": 0, "signal": nil}, fields{"bytes": 13, "path": output, "saved": 13, "sha256": sha([]byte("a long output"))}
	tool := fields{"kind": "success", "value": fields{"exitStatus": exit, "stdout": "a long\n", "stderr": "warned\n", "stdoutStream": stream, "timedOut": false}}
	r.line("action-completion", fields{"executionId": id.execution, "actionId": id.action, "state": "recorded", "toolOutcome": tool})
	r.writeJSON("state/records/action/"+id.action+".json", fields{"actionId": id.action, "sessionId": demoIdentity.SessionID, "attemptId": "attempt-1",
		"executionId": id.execution, "stepId": id.step, "state": "recorded", "title": "shell echo ok", "inputMode": "ordinary", "toolOutcome": tool,
		"evidenceStatus": "retained", "snapshots": taken, "snapshotRole": "single"})
	r.writeJSON("state/records/execution/"+id.execution+".json", fields{"executionId": id.execution, "sessionId": demoIdentity.SessionID,
		"attemptId": "attempt-1", "actionId": id.action, "state": "recorded", "argv": argv, "exitStatus": exit})
	maps.Copy(receipt, fields{"outcome": fields{"kind": "completed", "exitStatus": exit}, "stdout": "a long\n", "stderr": "warned\n", "stdoutStream": stream,
		"terminationConfirmed": true, "startedAt": "2026-11-30T10:00:00.100Z", "endedAt": "2026-11-30T10:00:00.200Z",
		"imageEvidence": fields{"status": "available", "snapshots": taken}})
}

func (r *recording) sum(rel string) string {
	r.t.Helper()
	data, err := os.ReadFile(r.path(rel))
	must(r.t, err)
	return sha(data)
}

// fullPackage seals a recording with every kind of file.
func fullPackage(t testing.TB) *recording {
	t.Helper()
	r := newRecording(t, t.TempDir())
	done, refused := ids{"execution-0001", "action-0001", "run-1"}, ids{"execution-0002", "action-0002", "run-2"}
	r.full(fullRun{id: done})
	r.full(fullRun{id: refused, refused: true})
	unsent := ids{"execution-unsent", "", "run-3"}
	r.writeJSON("host/requests/execution-unsent.json", fields{"executionId": unsent.execution, "sessionId": demoIdentity.SessionID, "because": "Never sent",
		"language": "shell", "script": fields{"path": "/g/scripts/run-3.sh", "sha256": sha([]byte("run-3"))}})
	notPushed := fields{"kind": "refused", "reason": "host", "diagnostic": "not pushed"}
	r.writeJSON("host/receipts/execution-unsent.json", fields{"executionId": unsent.execution, "outcome": notPushed})
	r.submission(unsent, notPushed)
	r.writeJSON("host/submissions/sessions/session-0demo.json", fields{"sessionId": demoIdentity.SessionID, "taskId": demoIdentity.TaskID,
		"target": "machine-service:m1", "createdAt": "2026-11-30T09:59:00.000Z", "state": "closed", "executions": []any{"execution-0001", "execution-0002", "execution-unsent"}})
	r.writeJSON("host/diagnostics/diagnostic-1.request.json", fields{"executionId": "diagnostic-1", "at": "2026-11-30T10:00:00.000Z", "evidenceMode": "diagnostic",
		"because": "Look", "language": "shell", "inline": true, "timeoutMs": 1000, "argv": []any{"/bin/sh", "-c", "id"}})
	r.writeJSON("host/diagnostics/diagnostic-1.receipt.json", fields{"executionId": "diagnostic-1", "at": "2026-11-30T10:00:01.000Z", "evidenceMode": "diagnostic",
		"outcome": fields{"kind": "completed", "exitStatus": fields{"code": 0, "signal": nil}}, "output": "root\n", "outputStreams": "both", "timeoutMs": 1000})
	r.writeJSON("host/events/1-a.json", fields{"type": "acquired", "at": "2026-11-30T09:58:00.000Z"})
	r.writeJSON("host/extractions/e1.json", fields{"name": "report", "sha256": sha([]byte("{}\n"))})
	r.writeJSON("host/images/i1/delivery-1.json", fields{"status": "delivered", "imageId": "i1"})
	for _, c := range []string{"records/action/action-0001.json", "receiver/receipts/execution-0001.json"} {
		data, err := os.ReadFile(r.path("state/" + c))
		must(t, err)
		r.write("host/image-evidence/"+c, data)
	}
	r.writeJSON("state/receiver/groups.json", fields{"used": []any{"g"}})
	r.write("extractions/report/5b0c/result.bin", []byte("result"))
	r.seal()
	return r
}

// undetectable lists what the package says only once, so that an edit with a manifest that fits it passes Verify. The list may
// only become shorter: whoever adds a rule takes rows away.
var undetectable = []string{
	"extractions/report/5b0c/result.bin",
	"host/diagnostics/diagnostic-#.receipt.json at",
	"host/diagnostics/diagnostic-#.receipt.json outcome.exitStatus.code",
	"host/diagnostics/diagnostic-#.receipt.json outcome.kind",
	"host/diagnostics/diagnostic-#.receipt.json output",
	"host/diagnostics/diagnostic-#.receipt.json outputStreams",
	"host/diagnostics/diagnostic-#.request.json argv",
	"host/diagnostics/diagnostic-#.request.json at",
	"host/diagnostics/diagnostic-#.request.json because",
	"host/diagnostics/diagnostic-#.request.json language",
	"host/events/#-a.json at",
	"host/events/#-a.json type",
	"host/extractions/e#.json name",
	"host/extractions/e#.json sha256",
	"host/images/i1/delivery-#.json imageId",
	"host/images/i1/delivery-#.json status",
	"host/requests/execution-unsent.json because", // nothing but the host's own words remains of what was never sent
	"host/submissions/sessions/session-#demo.json createdAt",
	"host/submissions/sessions/session-#demo.json state",
	"host/submissions/sessions/session-#demo.json target",
	"host/submissions/sessions/session-0demo/execution-#.json script.scriptId",
	"host/submissions/sessions/session-0demo/execution-#.json submittedAt",
	"host/submissions/sessions/session-0demo/execution-unsent.json script.scriptId",
	"host/submissions/sessions/session-0demo/execution-unsent.json submittedAt",
	"state/receiver/groups.json used",
	"state/records/action/action-#.json evidenceStatus",
}

// TestEditsThatTheManifestFollows flips one digit or letter in every value of every file and makes the manifest fit: what the
// package says twice is found, and what it says once is exactly what is listed above.
func TestEditsThatTheManifestFollows(t *testing.T) {
	r := fullPackage(t)
	if got := mustVerify(t, r.dir); !got.OK {
		t.Fatalf("the package is not sound: %v", got.Problems)
	}
	all, err := walkTree(r.dir)
	must(t, err)
	manifest, err := os.ReadFile(r.path(manifestPath))
	must(t, err)
	passed := map[string]bool{}
	for _, rel := range all.names() {
		if rel == manifestPath {
			continue
		}
		data, err := os.ReadFile(r.path(rel))
		must(t, err)
		for _, f := range flips(t, rel, data) {
			r.write(rel, f.data)
			relist(r, rel)
			got := mustVerify(t, r.dir)
			if got.OK {
				passed[f.kind] = true
			}
			r.write(manifestPath, manifest)
		}
		r.write(rel, data)
	}
	if diff := cmp.Diff(undetectable, slices.Sorted(maps.Keys(passed))); diff != "" {
		t.Errorf("edits that pass (-listed +found):\n%s", diff)
	}
}

// flipped is a file with one value changed.
type flipped struct {
	kind string // of file and field
	data []byte
}

var numbersInNames = regexp.MustCompile(`[0-9]+(-[0-9TZ.]+)*`)

func flips(t *testing.T, rel string, data []byte) []flipped {
	kind := path.Dir(rel) + "/" + numbersInNames.ReplaceAllString(path.Base(rel), "#")
	switch {
	case strings.HasSuffix(rel, ".json"):
		return flipValues(t, kind, data)
	case strings.HasSuffix(rel, ".jsonl"):
		var all []flipped
		for i, line := range bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
			at := bytes.Index(data, line)
			for _, f := range flipValues(t, fmt.Sprint(kind, ":", i+1), line) {
				all = append(all, flipped{f.kind, slices.Concat(data[:at], f.data, data[at+len(line):])})
			}
		}
		return all
	}
	changed := slices.Clone(data)
	changed[len(changed)/2] ^= 1
	return []flipped{{strings.TrimPrefix(path.Dir(rel)+"/"+path.Base(rel), "./"), changed}}
}

// flipValues flips one character in each string and number of a JSON text.
func flipValues(t *testing.T, kind string, data []byte) []flipped {
	var all []flipped
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		object, key bool
		name        string
	}
	var stack []level
	for {
		from := dec.InputOffset()
		token, err := dec.Token()
		if err != nil {
			break
		}
		if top := len(stack) - 1; top >= 0 && stack[top].object && token != json.Delim('}') {
			if stack[top].key = !stack[top].key; stack[top].key {
				stack[top].name = token.(string)
				continue
			}
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				stack = append(stack, level{object: v == '{'})
			} else {
				stack = stack[:len(stack)-1]
			}
		case string, json.Number:
			var names []string
			for _, l := range stack {
				if l.name != "" {
					names = append(names, l.name)
				}
			}
			if changed := flipIn(data, int(from), int(dec.InputOffset())); changed != nil {
				if !json.Valid(changed) {
					t.Fatalf("%s: flipping %v spoils the JSON", kind, token)
				}
				all = append(all, flipped{kind + " " + strings.Join(names, "."), changed})
			}
		}
	}
	return all
}

// flipIn changes the digit or letter nearest to the middle of data[from:to]; nil when there is none.
func flipIn(data []byte, from, to int) []byte {
	changed := slices.Clone(data)
	for d := 0; d < to-from; d++ {
		i := from + (to-from)/2
		if i += d / 2; d%2 == 1 {
			i = from + (to-from)/2 - (d+1)/2
		}
		if i < from || i >= to || i > 0 && data[i-1] == '\\' {
			continue
		}
		switch c := data[i]; {
		case c == '9':
			changed[i] = '8'
		case c >= '0' && c < '9', c >= 'a' && c < 'z', c >= 'A' && c < 'Z':
			changed[i]++
		case c == 'z' || c == 'Z':
			changed[i]--
		default:
			continue
		}
		return changed
	}
	return nil
}

// TestAReceiptThatTheHostRejectedProvesNothing: the guest says refused, and its receipt is not one that may be believed.
func TestAReceiptThatTheHostRejectedProvesNothing(t *testing.T) {
	uncertain := fields{"kind": "uncertain", "diagnostic": "the receiver says refused, and its receipt cannot be used"}
	tests := []struct {
		name    string
		run     fullRun
		want    string
		finding string // rule
	}{
		{"a refusal without a diagnostic", fullRun{refused: true, verdict: uncertain, answer: func(f fields) { f["outcome"] = fields{"kind": "refused", "reason": "spawn"} }}, Uncertain, "F15"},
		{"a refusal that the host rejected", fullRun{refused: true, verdict: uncertain}, Uncertain, "F15"},
		{"a completion that the host rejected", fullRun{verdict: uncertain}, Uncertain, "F15"},
		{"the answer to another request", fullRun{refused: true, verdict: uncertain, answer: func(f fields) { f["requestSha256"] = sha(nil) }}, Uncertain, "F15"},
		{"an answer that does not name its execution", fullRun{refused: true, verdict: uncertain, answer: func(f fields) { delete(f, "executionId") }}, Uncertain, "F15"},
		{"a forged refusal of a run that the journal has", fullRun{verdict: uncertain, forge: func(f fields) { f["outcome"] = fields{"kind": "refused"} }}, Uncertain, "F15"},
		{"a refusal that the host believed", fullRun{refused: true}, Failed, "F10"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecording(t, t.TempDir())
			tt.run.id = ids{"execution-0001", "action-0001", "run-1"}
			r.full(tt.run)
			if d := r.seal(); d.Execution != tt.want {
				t.Errorf("execution = %s, want %s: %v", d.Execution, tt.want, d.Findings)
			}
			a, err := examine(t.Context(), r.dir, demoIdentity)
			must(t, err)
			var text string
			for _, h := range a.findings {
				if h.rule == tt.finding {
					text = h.text
				}
			}
			if tt.finding == "F15" {
				for _, rel := range []string{"host/receipts/execution-0001.json", "host/receiver-receipts/execution-0001.json"} {
					if !strings.Contains(text, rel) {
						t.Errorf("the finding %q does not name %s", text, rel)
					}
				}
			}
			if text == "" {
				t.Errorf("no %s among %v", tt.finding, a.findings)
			}
		})
	}
}

// TestMalformedReceiptsAreUncertain, also where no host has judged them.
func TestMalformedReceiptsAreUncertain(t *testing.T) {
	tests := []struct{ name, outcome, want string }{
		{"a refusal with its diagnostic", `{"kind":"refused","diagnostic":"no"}`, StepRefused},
		{"a refusal without", `{"kind":"refused"}`, StepUncertain},
		{"a refusal with a blank one", `{"kind":"refused","diagnostic":" "}`, StepUncertain},
		{"completed with a code", `{"kind":"completed","exitStatus":{"code":0,"signal":null}}`, StepCompleted},
		{"completed with another code", `{"kind":"completed","exitStatus":{"code":3,"signal":null}}`, StepFailed},
		{"completed by a signal", `{"kind":"completed","exitStatus":{"code":null,"signal":"SIGKILL"}}`, StepFailed},
		{"completed with both", `{"kind":"completed","exitStatus":{"code":3,"signal":"SIGKILL"}}`, StepUncertain},
		{"completed with neither", `{"kind":"completed","exitStatus":{"code":null,"signal":null}}`, StepUncertain},
		{"completed without a status", `{"kind":"completed"}`, StepUncertain},
		{"another word", `{"kind":"done"}`, StepUncertain},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (&receipt{Outcome: json.RawMessage(tt.outcome)}).judge(); got != tt.want {
				t.Errorf("judge(%s) = %s, want %s", tt.outcome, got, tt.want)
			}
		})
	}
}

// TestPapersOfOneExecutionAgree spoils one paper each and wants the rule with the file.
func TestPapersOfOneExecutionAgree(t *testing.T) {
	const id = "execution-0001.json"
	tests := []struct {
		name, rel string
		spoil     func(f fields)
		want      string
	}{
		{"a request under another name", "host/requests/" + id, func(f fields) { f["executionId"] = "execution-9" }, "H17"},
		{"a start under another name", "state/receiver/started/" + id, func(f fields) { f["executionId"] = "execution-9" }, "H17"},
		{"a list with an execution that is not there", "host/submissions/sessions/session-0demo.json", func(f fields) { f["executions"] = []any{"execution-9"} }, "H17"},
		{"a start for other bytes", "state/receiver/started/" + id, func(f fields) { f["requestSha256"] = sha(nil) }, "H18 host/requests/" + id},
		{"a host's receipt that says more", "host/receipts/" + id, func(f fields) { f["stdout"] = "another" }, "H19"},
		{"a short verdict that says completed", "host/receipts/execution-unsent.json", func(f fields) { f["outcome"] = fields{"kind": "completed"} }, "H19"},
		{"a pulled receipt with other bytes", "host/receiver-receipts/" + id, func(f fields) { f["unknown"] = "x" }, "H19"},
		{"a reason that is not the journal's", "host/requests/" + id, func(f fields) { f["because"] = "Another" }, "H20"},
		{"a submission of another script", "host/submissions/sessions/session-0demo/" + id, func(f fields) { f["script"].(fields)["sha256"] = sha(nil) }, "H20"},
		{"a submission with another end", "host/submissions/sessions/session-0demo/" + id, func(f fields) { f["state"] = "uncertain" }, "H20"},
		{"an execution record with another exit", "state/records/execution/" + id, func(f fields) { f["exitStatus"].(fields)["code"] = 1 }, "H21"},
		{"an execution record of another action", "state/records/execution/" + id, func(f fields) { f["actionId"] = "action-0002" }, "H21"},
		{"an action record in another state", "state/records/action/action-0001.json", func(f fields) { f["state"] = "refused" }, "H5"},
		{"an action record with another title", "state/records/action/action-0001.json", func(f fields) { f["title"] = "x" }, "H5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fullPackage(t)
			r.edit(tt.rel, tt.spoil)
			relist(r, tt.rel)
			rule, where, named := strings.Cut(tt.want, " ")
			if !named {
				where = tt.rel
			}
			got := mustVerify(t, r.dir)
			if !slices.ContainsFunc(got.Problems, func(p Problem) bool { return p.Rule == rule && p.Path == where }) {
				t.Errorf("problems = %+v, want %s of %s", got.Problems, rule, where)
			}
		})
	}
}

// TestWhatADeathLeavesAgrees: papers may differ where the receiver died or the disk was full, and where one says less.
func TestWhatADeathLeavesAgrees(t *testing.T) {
	const id = "execution-0001.json"
	tests := []struct {
		name, rel string
		change    func(f fields)
	}{
		{"an action record that stayed under way", "state/records/action/action-0002.json", func(f fields) { f["state"] = "admitted" }},
		{"a copy of an action record that was under way", "host/image-evidence/records/action/action-0001.json", func(f fields) {
			f["state"], f["evidenceStatus"] = "admitted", "not-applicable"
			delete(f, "toolOutcome")
			delete(f, "snapshots")
		}},
		{"an execution record without its exit", "state/records/execution/" + id, func(f fields) { delete(f, "exitStatus") }},
		{"a submission that stayed pending", "host/submissions/sessions/session-0demo/" + id, func(f fields) { f["state"] = "pending"; delete(f, "outcome") }},
		{"a start without the hash", "state/receiver/started/" + id, func(f fields) { delete(f, "requestSha256") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fullPackage(t)
			r.edit(tt.rel, tt.change)
			relist(r, tt.rel)
			if got := mustVerify(t, r.dir); !got.OK {
				t.Errorf("problems = %+v", got.Problems)
			}
		})
	}
}
