package evidence

import (
	"encoding/json"
	"fmt"
	"strings"
)

// failure is a hit on a place.
func failure(path string, line int, format string, args ...any) hit {
	return hit{path: path, line: line, text: fmt.Sprintf(format, args...)}
}

func checkIdentity(m *material, found func(hit)) {
	for _, f := range []struct{ name, value string }{
		{"packageId", m.id.PackageID}, {"sessionId", m.id.SessionID}, {"taskId", m.id.TaskID},
	} {
		if strings.TrimSpace(f.value) == "" {
			found(failure(manifestPath, 0, "the %s is blank", f.name))
		}
	}
	if err := SafePath(m.id.SessionID); m.id.SessionID != "" && err != nil {
		found(failure(manifestPath, 0, "the sessionId cannot be a folder: %v", err))
	}
}

func checkRecords(m *material, found func(hit)) {
	for _, r := range m.records {
		a := m.actions[string(r.ActionID)]
		if r.SessionID != "" && string(r.SessionID) != m.id.SessionID {
			found(failure(r.path, 0, "the record belongs to another recording, %s", r.SessionID))
		}
		if a.start != nil && r.AttemptID != a.start.AttemptID {
			found(failure(r.path, 0, "the record is of attempt %q, its start of %q", r.AttemptID, a.start.AttemptID))
		}
		if a.completion != nil && present(r.ToolOutcome) && !sameJSON(r.ToolOutcome, a.completion.ToolOutcome) {
			found(failure(r.path, 0, "the record's outcome is not the one that line %d of the journal states", a.completion.line))
		}
		m.checkRecordPaper(r, a, found)
	}
}

func checkCompletions(m *material, found func(hit)) {
	for _, e := range m.events {
		if e.Kind == "action-completion" && e.ActionID != "" && m.actions[string(e.ActionID)].start == nil {
			found(failure(journalPath, e.line, "%s completed without a start", e.ActionID))
		}
	}
}

func checkCaptures(m *material, found func(hit)) {
	seen := map[string]bool{}
	for _, c := range m.captures {
		why := m.captureFault(c)
		if seen[c.path] {
			why = "a second capture of the same file"
		}
		seen[c.path] = true
		if why != "" {
			found(failure(journalPath, c.event.line, "capture %s: %s", c.FileName, why))
			continue
		}
		m.checkCaptureFile(c, found)
	}
}

// captureFault says what is wrong with a capture line, or "".
func (m *material) captureFault(c *capture) string {
	a := m.actions[string(c.event.ActionID)]
	switch {
	case a == nil || a.start == nil:
		return "its action never started"
	case c.event.line <= a.start.line || a.completion != nil && c.event.line >= a.completion.line:
		return "it does not lie between the start and the completion of its action"
	case c.FileName == "" || strings.Contains(string(c.FileName), "/") || SafePath(c.path) != nil:
		return "its file name is unsafe"
	case c.Role != "before" && c.Role != "after":
		return fmt.Sprintf("its role is %q", c.Role)
	case !validHash(string(c.SHA256)) || !wholeNumber(c.Bytes):
		return "its hash or size is malformed"
	case c.event.AttemptID != a.start.AttemptID:
		return "it belongs to another attempt than its action"
	}
	if _, ok := c.time(); !ok {
		return fmt.Sprintf("its time %q is malformed", c.CapturedAt)
	}
	return planFault(c, a.plan())
}

func planFault(c *capture, p *plan) string {
	switch {
	case p == nil:
		return "its action has no plan"
	case c.event.group() != p.group():
		return fmt.Sprintf("it names group %q, the plan %q", c.event.group(), p.group())
	case !p.captures():
		return "the plan asks for no capture"
	case c.Role == "before" && !p.CapturesBefore:
		return "the plan asks for no picture before"
	case c.Role == "before":
		return ""
	case !c.AfterIntervalMs.Set || c.AfterIntervalMs.Value < 0:
		return "it states no interval"
	case p.CapturesAfter.Value == nil:
		return "the plan asks for no picture after"
	case p.CapturesAfter.Value.AfterIntervalMs != c.AfterIntervalMs:
		return "its interval is not the planned one"
	}
	return ""
}

func (m *material) checkCaptureFile(c *capture, found func(hit)) {
	d, has := m.digests[c.path]
	switch {
	case !has:
		found(failure(c.path, 0, "the capture that line %d of the journal states is missing", c.event.line))
	case d.SHA256 != string(c.SHA256) || float64(d.Bytes) != c.Bytes.Value:
		found(failure(c.path, 0, "its bytes are not those of capture time, which line %d of the journal states", c.event.line))
	}
}

func checkOrphans(m *material, found func(hit)) {
	captured := map[string]bool{}
	for _, c := range m.captures {
		captured[c.path] = true
	}
	for _, rel := range m.tree.names() {
		if strings.HasPrefix(rel, snapshotsDir) && !strings.HasSuffix(rel, ".part") && !captured[rel] && !m.intents[rel] {
			found(failure(rel, 0, "no journal line says that this snapshot was captured"))
		}
	}
}

func checkReferences(m *material, found func(hit)) {
	for _, r := range m.records {
		m.checkReference(reference{r.path, 0, m.actions[string(r.ActionID)], r.Snapshots, string(r.GroupID), r.SnapshotRole}, found)
	}
	for _, e := range m.events {
		if e.Kind == "snapshot-evidence" && e.ActionID != "" {
			m.checkReference(reference{journalPath, e.line, m.actions[string(e.ActionID)], e.Snapshots, e.group(), e.SnapshotRole}, found)
		}
	}
}

// reference is a list of captures that a record or a line cites.
type reference struct {
	path  string
	line  int
	of    *action
	list  json.RawMessage
	group string
	role  text
}

func (m *material) checkReference(r reference, found func(hit)) {
	if len(r.list) == 0 {
		return
	}
	bad := func(format string, args ...any) { found(failure(r.path, r.line, format, args...)) }
	var cited []lenient[snapshot]
	switch {
	case r.of.start == nil:
		bad("it cites captures of %s, which never started", r.of.id)
		return
	case json.Unmarshal(r.list, &cited) != nil || string(r.list) == "null":
		bad("its list of captures is not a list")
		return
	}
	if p := r.of.plan(); p != nil && (r.group != p.group() || r.role != "" && r.role != p.Role) {
		bad("its group or role is not the plan's")
	}
	used := map[*capture]bool{}
	for _, c := range cited {
		match := citedCapture(c.Value, r.of.captures)
		switch {
		case match == nil:
			bad("it cites a picture that is no capture of %s", r.of.id)
		case used[match]:
			bad("it cites %s twice", match.FileName)
		default:
			used[match] = true
		}
	}
}

// citedCapture finds the capture that a citation describes in every field.
func citedCapture(s *snapshot, captures []*capture) *capture {
	if s == nil {
		return nil
	}
	for _, c := range captures {
		if s.SHA256 == c.SHA256 && s.Bytes == c.Bytes && s.Role == c.Role && s.CapturedAt == c.CapturedAt &&
			s.AfterIntervalMs == c.AfterIntervalMs && (s.FileName == "" || s.FileName == c.FileName) {
			return c
		}
	}
	return nil
}

func checkPairsOnce(m *material, found func(hit)) {
	first := map[string]*capture{}
	for _, c := range m.captures {
		owner := pairKey(c)
		key := owner + " " + string(c.Role)
		if first[key] != nil {
			found(failure(journalPath, c.event.line, "%s has a second picture %s; the first is line %d", owner, c.Role, first[key].event.line))
			continue
		}
		first[key] = c
	}
}

func checkPairOrder(m *material, found func(hit)) {
	before := map[string]*capture{}
	for _, c := range m.captures {
		key := pairKey(c)
		if c.Role == "before" && before[key] == nil {
			before[key] = c
		}
	}
	for _, c := range m.captures {
		b := before[pairKey(c)]
		if c.Role != "after" || b == nil {
			continue
		}
		taken, ok := c.time()
		started, okBefore := b.time()
		if b.event.line > c.event.line || ok && okBefore && taken.Before(started) {
			found(failure(journalPath, c.event.line, "the picture after was taken before the picture before of line %d", b.event.line))
		}
	}
}

// pairKey names the pair a capture belongs to.
func pairKey(c *capture) string {
	if g := c.event.group(); g != "" {
		return "group " + g
	}
	return "action " + string(c.event.ActionID)
}

func checkStepNames(m *material, found func(hit)) {
	seen := map[string]bool{}
	for _, n := range stepNames(m) {
		if seen[n.id] {
			found(failure(n.path, n.line, "two steps are called %q", n.id))
		}
		seen[n.id] = true
	}
}

func checkOutputs(m *material, found func(hit)) {
	for _, o := range m.outputs() {
		if d, has := m.digests[o.path]; has && (d.SHA256 != string(o.stream.SHA256) || float64(d.Bytes) != o.stream.Saved.Value) {
			found(failure(o.path, 0, "its bytes are not those that the receipt %s names", o.receipt.path))
		}
	}
}

// output is a stream of a receipt with its file's place in the package.
type output struct {
	receipt *receipt
	stream  *stream
	path    string
}

// outputs lists the whole outputs that receipts name. A path that is no safe one names nothing.
func (m *material) outputs() []output {
	var all []output
	for _, r := range m.receipts {
		for _, s := range []*stream{r.StdoutStream.Value, r.StderrStream.Value} {
			if s != nil && s.Path != "" && SafePath("state/"+string(s.Path)) == nil {
				all = append(all, output{r, s, "state/" + string(s.Path)})
			}
		}
	}
	return all
}

func checkHeads(m *material, found func(hit)) {
	if !m.chained {
		return
	}
	for _, r := range m.receipts {
		if r.JournalHead != "" && !m.lineHashes[string(r.JournalHead)] {
			h := failure(journalPath, 0, "lines are missing: %s vouches for a line that is not there, so the end was cut off or rewritten", r.path)
			h.kind = ProblemJournal
			found(h)
		}
	}
}

func validHash(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// wholeNumber reports whether n is a size: a whole number from 0 that JSON carries exactly.
func wholeNumber(n number) bool {
	return n.Set && n.Value >= 0 && n.Value <= 1<<53 && n.Value == float64(int64(n.Value))
}
