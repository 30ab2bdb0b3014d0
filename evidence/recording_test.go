package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// sealedAt is when the packages of these tests are sealed.
var sealedAt = time.Date(2026, 11, 30, 10, 5, 0, 0, time.UTC)

var demoIdentity = Identity{PackageID: "pkg-relay-demo-1a2b3c4d", SessionID: "session-0demo", TaskID: "relay-demo-1a2b3c4d"}

type fields = map[string]any

// recording writes a recording folder line by line, as a receiver and its host would, with a clock of its own.
type recording struct {
	t       testing.TB
	dir     string
	journal *Journal
	at      time.Time
	runs    int
}

func newRecording(t testing.TB, dir string) *recording {
	t.Helper()
	r := &recording{t: t, dir: dir, at: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)}
	j, err := OpenJournal(r.path(journalPath))
	if err != nil {
		t.Fatal(err)
	}
	j.now = r.now
	r.journal = j
	t.Cleanup(func() { _ = j.Close() })
	return r
}

func (r *recording) now() time.Time {
	r.at = r.at.Add(10 * time.Millisecond)
	return r.at
}

func (r *recording) path(rel string) string { return filepath.Join(r.dir, filepath.FromSlash(rel)) }

func (r *recording) write(rel string, data []byte) {
	r.t.Helper()
	path := r.path(rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *recording) writeJSON(rel string, v any) {
	r.t.Helper()
	data, err := MarshalRecord(v)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(rel, data)
}

// line journals kind with the recording's ids. A nil value removes a field.
func (r *recording) line(kind string, f fields) string {
	r.t.Helper()
	all := fields{"kind": kind, "sessionId": demoIdentity.SessionID, "attemptId": "attempt-1"}
	for k, v := range f {
		all[k] = v
		if v == nil {
			delete(all, k)
		}
	}
	hash, err := r.journal.Append(all, Buffered)
	if err != nil {
		r.t.Fatal(err)
	}
	return hash
}

// run is one run and what goes wrong with it. The zero value is a whole run without capture software.
type run struct {
	step      string // default run-N
	capture   string // "" is none
	role      string // of a group; "" is single
	group     string
	skip      map[string]bool // "before", "after", "record", "receipts", "cite", "plan", "completion"
	code      int
	refused   bool
	uncertain bool // what the receipts say
	output    string
}

func skip(what ...string) map[string]bool {
	all := map[string]bool{}
	for _, w := range what {
		all[w] = true
	}
	return all
}

type ids struct{ execution, action, step string }

// add writes everything one run leaves behind.
func (r *recording) add(c run) ids {
	r.t.Helper()
	r.runs++
	id := ids{fmt.Sprintf("execution-%04d", r.runs), fmt.Sprintf("action-%04d", r.runs), c.step}
	if id.step == "" {
		id.step = fmt.Sprintf("run-%d", r.runs)
	}
	step := fields{"id": id.step, "title": "shell echo ok", "expected": "Exits with status 0", "inputMode": "ordinary"}
	r.writeJSON("host/requests/"+id.execution+".json", fields{"protocol": 1, "executionId": id.execution,
		"sessionId": demoIdentity.SessionID, "attemptId": "attempt-1", "because": "Because " + id.step, "step": step})
	r.line("annotation", fields{"annotationType": "routing-decision", "executionId": id.execution, "state": "pending",
		"because": "Because " + id.step, "step": step, "timeoutMs": 120000})
	if c.refused {
		r.line("action-refusal", fields{"actionId": id.action, "executionId": id.execution, "stepId": id.step, "state": "refused", "diagnostic": "no"})
		r.writeJSON("state/records/action/"+id.action+".json", fields{"actionId": id.action, "sessionId": demoIdentity.SessionID,
			"attemptId": "attempt-1", "stepId": id.step, "executionId": id.execution, "state": "refused"})
		r.receipts(c, id, fields{"kind": "refused", "diagnostic": "no", "reason": "validation"}, nil)
		return id
	}
	r.start(c, id)
	snapshots := r.pictures(c, id, "before")
	snapshots = append(snapshots, r.pictures(c, id, "after")...)
	if len(snapshots) > 0 && !c.skip["cite"] {
		r.line("snapshot-evidence", fields{"actionId": id.action, "state": "recorded", "snapshots": snapshots, "snapshotRole": roleOf(c), "groupId": orNil(c.group)})
	}
	r.finish(c, id, snapshots)
	return id
}

func roleOf(c run) string {
	if c.role == "" {
		return "single"
	}
	return c.role
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// wants says what the plan of c captures.
func (c run) wants(role string) bool {
	return c.capture != "" && map[string]map[string]bool{
		"before": {"single": true, "first": true}, "after": {"single": true, "last": true},
	}[role][roleOf(c)]
}

func (r *recording) start(c run, id ids) {
	plan := fields{"capture": "none", "reason": "image lists no capture software"}
	if c.capture != "" {
		plan = fields{"capture": c.capture, "capturesBefore": c.wants("before"), "capturesAfter": false, "role": roleOf(c)}
		if c.wants("after") {
			plan["capturesAfter"] = fields{"afterIntervalMs": 500}
		}
		if c.group != "" {
			plan["group"] = fields{"groupId": c.group}
		}
	}
	r.line("execution-start", fields{"executionId": id.execution, "state": "admitted", "argv": []string{"/bin/sh", "/w/" + id.execution + ".sh"}, "cwd": "/w"})
	start := fields{"stepId": id.step, "executionId": id.execution, "actionId": id.action, "state": "admitted",
		"title": "shell echo ok", "inputMode": "ordinary", "snapshotPlan": plan}
	if c.skip["plan"] {
		delete(start, "snapshotPlan")
	}
	r.line("action-start", start)
}

// pictures takes the picture of one role, when the plan has it and nothing goes wrong.
func (r *recording) pictures(c run, id ids, role string) []any {
	if !c.wants(role) {
		return nil
	}
	taken := r.now()
	name := fmt.Sprintf("a%06d-%s-%s-%s.png", r.journal.Lines()+2, taken.Format("20060102T150405.000Z"), role, id.execution)
	if c.skip[role] {
		r.line("capture-status", fields{"actionId": id.action, "state": "incomplete", "diagnostic": "no picture " + role})
		return nil
	}
	r.line("capture-intent", fields{"executionId": id.execution, "actionId": id.action, "role": role, "fileName": name})
	data := tinyPNG(r.t, uint8(r.runs), role == "after")
	r.write(snapshotsDir+demoIdentity.SessionID+"/"+name, data)
	s := fields{"fileName": name, "sha256": sha(data), "bytes": len(data), "capturedAt": taken.Format(TimeFormat), "role": role}
	if role == "after" {
		s["declaredAfterIntervalMs"] = 500
	}
	r.line("snapshot-captured", fields{"actionId": id.action, "state": "recorded", "snapshot": s, "groupId": orNil(c.group)})
	return []any{s}
}

func (r *recording) finish(c run, id ids, snapshots []any) {
	tool := fields{"kind": "success", "value": fields{"terminationConfirmed": true, "exitStatus": fields{"code": c.code, "signal": nil}, "stdout": "ok\n", "stderr": ""}}
	record := fields{"actionId": id.action, "sessionId": demoIdentity.SessionID, "attemptId": "attempt-1", "stepId": id.step,
		"executionId": id.execution, "state": "recorded", "title": "shell echo ok", "inputMode": "ordinary", "toolOutcome": tool}
	if len(snapshots) > 0 && !c.skip["cite"] {
		record["snapshots"], record["snapshotRole"] = snapshots, roleOf(c)
		if c.group != "" {
			record["groupId"] = c.group
		}
	}
	if !c.skip["completion"] {
		r.line("action-completion", fields{"executionId": id.execution, "actionId": id.action, "state": "recorded", "toolOutcome": tool})
	}
	if !c.skip["record"] {
		r.writeJSON("state/records/action/"+id.action+".json", record)
	}
	outcome := fields{"kind": "completed", "exitStatus": fields{"code": c.code, "signal": nil}}
	if c.uncertain {
		outcome = fields{"kind": "uncertain", "diagnostic": "the answer was lost"}
	}
	var extra fields
	if c.output != "" {
		rel := "outputs/" + id.execution + ".stdout"
		r.write("state/"+rel, []byte(c.output))
		extra = fields{"stdoutStream": fields{"bytes": len(c.output), "path": rel, "saved": len(c.output), "sha256": sha([]byte(c.output))}}
	}
	r.receipts(c, id, outcome, extra)
}

// receipts writes the guest's and the host's.
func (r *recording) receipts(c run, id ids, outcome, extra fields) {
	if c.skip["receipts"] {
		return
	}
	receipt := fields{"executionId": id.execution, "sessionId": demoIdentity.SessionID, "outcome": outcome, "stdout": "ok\n", "stderr": ""}
	for k, v := range extra {
		receipt[k] = v
	}
	state := "recorded"
	if c.refused {
		state = "refused"
	}
	head := r.line("execution-completion", fields{"executionId": id.execution, "state": state, "response": receipt})
	receipt["journalHead"] = head
	r.writeJSON("state/receiver/started/"+id.execution+".json", fields{"executionId": id.execution})
	for _, dir := range []string{"state/receiver/receipts/", "host/receiver-receipts/", "host/receipts/"} {
		r.writeJSON(dir+id.execution+".json", receipt)
	}
}

// seal seals the recording and fails the test when it cannot.
func (r *recording) seal() Delivery {
	r.t.Helper()
	d, err := Seal(r.t.Context(), r.dir, demoIdentity, sealedAt)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// edit rewrites a JSON file of the recording.
func (r *recording) edit(rel string, change func(fields)) {
	r.t.Helper()
	data, err := os.ReadFile(r.path(rel))
	if err != nil {
		r.t.Fatal(err)
	}
	var v fields
	if err := json.Unmarshal(data, &v); err != nil {
		r.t.Fatal(err)
	}
	change(v)
	r.writeJSON(rel, v)
}

// snapshots lists the recording's snapshot files.
func (r *recording) snapshots() []string {
	r.t.Helper()
	found, err := filepath.Glob(r.path(snapshotsDir + "*/*"))
	if err != nil {
		r.t.Fatal(err)
	}
	for i, f := range found {
		found[i], _ = filepath.Rel(r.dir, f)
	}
	return found
}

func tinyPNG(t testing.TB, seed uint8, after bool) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	img.Pix[0] = seed
	if after {
		img.Pix[3] = 255
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// kinds lists problems as "kind path" for comparison.
func kinds(problems []Problem) []string {
	all := []string{}
	for _, p := range problems {
		all = append(all, p.Kind+" "+p.Path)
	}
	return all
}

// mustVerify verifies without expecting a result.
func mustVerify(t testing.TB, dir string) Report {
	t.Helper()
	r, err := Verify(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
