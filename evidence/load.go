package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Places of a package, relative to its folder.
const (
	manifestPath   = "manifest.json"
	openingPath    = "OPENING.txt"
	journalPath    = "state/journal/events.jsonl"
	snapshotsDir   = "state/snapshots/"
	extractionsDir = "extractions/"
	stepsDir       = "host/steps"
)

// maxJSON bounds a record that analysis reads.
const maxJSON = 16 << 20

// material is everything analysis looks at, read once.
type material struct {
	dir     string
	id      Identity
	tree    tree
	digests map[string]digest

	events      []*event
	lineHashes  map[string]bool
	chained     bool
	damaged     bool // the journal is missing or bad
	starts      []*event
	actions     map[string]*action
	order       []*action // starts in journal order, then refusals without a start, then records alone
	captures    []*capture
	intents     map[string]bool // snapshot paths that a capture was about to write
	completions map[string]bool // execution ids that a journal line ends
	records     []*actionRecord
	hosts       []*hostRecord
	receipts    []*receipt
	papers      map[string]paper // files whose every field is held against others, by path
	said        map[string]*said // by execution
	shots       map[string]paper // captures as the journal describes them, by file name

	problems []Problem // found while reading
	notes    []hit     // findings found while reading
}

// action is all that is known of one action.
type action struct {
	id         string
	start      *event
	completion *event
	refusal    *event
	record     *actionRecord
	captures   []*capture
	evidence   []*event // snapshot-evidence lines
}

func (a *action) plan() *plan {
	if a.start == nil {
		return nil
	}
	return a.start.SnapshotPlan.Value
}

// from is the first of the lines and records that describe the action and satisfies the picker.
func (a *action) field(pick func(*event) text, fromRecord func(*actionRecord) text) string {
	for _, e := range []*event{a.start, a.refusal, a.completion} {
		if e != nil && pick(e) != "" {
			return string(pick(e))
		}
	}
	if a.record != nil {
		return string(fromRecord(a.record))
	}
	return ""
}

func (a *action) execution() string {
	return a.field(func(e *event) text { return e.ExecutionID }, func(r *actionRecord) text { return r.ExecutionID })
}

func (a *action) attempt() string {
	return a.field(func(e *event) text { return e.AttemptID }, func(r *actionRecord) text { return r.AttemptID })
}

// stepName is the step id the caller chose, or the action's own id.
func (a *action) stepName() string {
	if s := a.field(func(e *event) text { return e.StepID }, func(r *actionRecord) text { return r.StepID }); s != "" {
		return s
	}
	return a.id
}

// load reads the evidence below dir, of files that could be hashed. What is not right becomes a problem.
func load(dir string, id Identity, t tree, digests map[string]digest) *material {
	m := &material{
		dir: dir, id: id, tree: t, digests: digests, lineHashes: map[string]bool{}, actions: map[string]*action{},
		intents: map[string]bool{}, completions: map[string]bool{},
		papers: map[string]paper{}, said: map[string]*said{}, shots: map[string]paper{},
	}
	m.loadJournal()
	for _, rel := range sortedKeys(digests) {
		m.loadFile(rel)
	}
	m.orderActions()
	return m
}

func (m *material) problem(rule, file string, line int, format string, args ...any) {
	m.problems = append(m.problems, Problem{Kind: ProblemEvidence, Rule: rule, Path: file, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (m *material) loadJournal() {
	if _, has := m.digests[journalPath]; !has {
		if m.neverRan() {
			return
		}
		m.problem("H2", journalPath, 0, "the journal is missing")
		m.damaged = true
		return
	}
	f, err := os.Open(filepath.Join(m.dir, filepath.FromSlash(journalPath)))
	if err == nil {
		var read JournalRead
		read, err = ReadJournal(f, func(l JournalLine) error {
			e := &event{line: l.Number}
			decodeObject(l.Raw, e)
			m.lineHashes[l.Hash] = true
			m.hear(e, l.Raw)
			m.event(e)
			return nil
		})
		m.chained = read.Chained
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		m.journalFault(err)
	}
}

// neverRan says that nothing in the package speaks of a run: the receiver writes a journal with the first one, and a machine
// may be finished before that.
func (m *material) neverRan() bool {
	for rel := range m.digests {
		if strings.HasPrefix(rel, requestsDir) || strings.HasPrefix(rel, guestReceiptsDir) || strings.HasPrefix(rel, hostReceiptsDir) ||
			strings.HasPrefix(rel, "state/") {
			return false
		}
	}
	return true
}

func (m *material) journalFault(err error) {
	m.damaged = true
	p := Problem{Kind: ProblemJournal, Rule: "H2", Path: journalPath, Message: err.Error()}
	var damaged *DamagedError
	if errors.As(err, &damaged) {
		p.Line, p.Message = damaged.Line, damaged.Why
	}
	m.problems = append(m.problems, p)
}

// event files a journal line under its action. A line that breaks a rule of its own is a problem and is not filed.
func (m *material) event(e *event) {
	m.events = append(m.events, e)
	if e.SessionID != "" && string(e.SessionID) != m.id.SessionID {
		m.problem("H3", journalPath, e.line, "the line belongs to another recording, %s", e.SessionID)
	}
	switch e.Kind {
	case "action-start", "action-completion", "action-refusal":
		m.actionEvent(e)
	case "snapshot-captured":
		m.captureEvent(e)
	case "snapshot-evidence":
		if e.ActionID != "" {
			a := m.action(string(e.ActionID))
			a.evidence = append(a.evidence, e)
		}
	case "capture-intent":
		m.intents[snapshotsDir+string(e.SessionID)+"/"+string(e.FileName)] = true
	case "annotation":
		if e.AnnotationType == "routing-decision" {
			m.hosts = append(m.hosts, &hostRecord{ExecutionID: e.ExecutionID, ActionID: e.ActionID, StepID: e.StepID, Because: e.Because,
				EvidenceMode: e.EvidenceMode, Step: e.Step, At: e.WrittenAt, path: journalPath})
		}
	case "execution-completion":
		m.completions[string(e.ExecutionID)] = true
		if present(e.Response) {
			m.receipt(e.Response, journalPath, e)
			e.Response = nil // with its output the largest part of a journal
		}
	}
}

func (m *material) action(id string) *action {
	a := m.actions[id]
	if a == nil {
		a = &action{id: id}
		m.actions[id] = a
	}
	return a
}

func (m *material) actionEvent(e *event) {
	if e.ActionID == "" {
		m.problem("H4", journalPath, e.line, "the %s line names no action", e.Kind)
		return
	}
	a := m.action(string(e.ActionID))
	slot := map[text]**event{"action-start": &a.start, "action-completion": &a.completion, "action-refusal": &a.refusal}[e.Kind]
	if *slot != nil {
		m.problem("H4", journalPath, e.line, "a second %s line of %s; the first is line %d", e.Kind, a.id, (*slot).line)
		return
	}
	*slot = e
	if e.Kind == "action-start" {
		m.starts = append(m.starts, e)
	}
}

func (m *material) captureEvent(e *event) {
	if e.Snapshot.Value == nil {
		m.problem("H7", journalPath, e.line, "the capture line describes no snapshot")
		return
	}
	c := &capture{snapshot: *e.Snapshot.Value, event: e}
	session := string(e.SessionID)
	if session == "" {
		session = m.id.SessionID
	}
	c.path = snapshotsDir + session + "/" + string(c.FileName)
	m.captures = append(m.captures, c)
	a := m.action(string(e.ActionID))
	a.captures = append(a.captures, c)
}

// loadFile reads one file, when it lies in a folder that analysis knows. Others are carried, not judged.
func (m *material) loadFile(rel string) {
	dir, name := path.Split(rel)
	if !strings.HasSuffix(name, ".json") || isTemp(name) {
		return
	}
	var use func(data []byte, rel string)
	switch {
	case dir == "state/records/action/", dir == "state/records/actions/":
		use = m.actionRecord
	case dir == hostReceiptsDir, dir == guestReceiptsDir, dir == stateReceiptsDir:
		use = func(data []byte, rel string) { m.receipt(data, rel, nil) }
	case dir == diagnosticsDir:
		use = m.diagnosticFile
	case dir == requestsDir, strings.HasPrefix(dir, "host/submissions/"):
		use = m.hostRecord
	case dir == startedDir, dir == executionRecordsDir, dir == imageRecordsDir, dir == imageReceiptsDir:
		use = func([]byte, string) {}
	default:
		return
	}
	if m.tree.files[rel] > maxJSON {
		m.problem("H12", rel, 0, "it has %d bytes, more than a record may have", m.tree.files[rel])
		return
	}
	data, err := os.ReadFile(filepath.Join(m.dir, filepath.FromSlash(rel)))
	if err != nil {
		m.problems = append(m.problems, Problem{Kind: ProblemUnreadable, Path: rel, Message: err.Error()})
		return
	}
	m.keepPaper(data, rel)
	use(data, rel)
}

func (m *material) actionRecord(data []byte, rel string) {
	r := &actionRecord{path: rel}
	if !decodeObject(data, r) || r.ActionID == "" {
		m.problem("H5", rel, 0, "the action record names no action")
		return
	}
	a := m.action(string(r.ActionID))
	if a.record != nil {
		m.problem("H5", rel, 0, "a second record of %s; the first is %s", a.id, a.record.path)
		return
	}
	a.record = r
	m.records = append(m.records, r)
}

func (m *material) diagnosticFile(data []byte, rel string) {
	if strings.HasSuffix(rel, ".receipt.json") {
		m.receipt(data, rel, nil)
		return
	}
	m.hostRecord(data, rel)
}

func (m *material) hostRecord(data []byte, rel string) {
	if !json.Valid(data) {
		m.problem("H12", rel, 0, "it is not JSON")
		return
	}
	h := &hostRecord{path: rel}
	if decodeObject(data, h) {
		m.hosts = append(m.hosts, h)
		m.nestedRequest(h)
	}
}

// nestedRequest adds the request that a record carries, so that its reason is found too.
func (m *material) nestedRequest(h *hostRecord) {
	inner := &hostRecord{path: h.path}
	if !present(h.Request) || !decodeObject(h.Request, inner) {
		return
	}
	if inner.ExecutionID == "" {
		inner.ExecutionID = h.ExecutionID
	}
	m.hosts = append(m.hosts, inner)
}

// receipt files a receipt from a file or, with its envelope, from the journal. The guest's own bytes are kept as they came,
// so that one which is no JSON is a finding: the host's verdict on that run already says uncertain.
func (m *material) receipt(data []byte, rel string, envelope *event) {
	r := &receipt{path: rel, envelope: envelope}
	if envelope != nil {
		r.line = envelope.line
	}
	if !json.Valid(data) {
		if rel == journalPath || strings.HasPrefix(rel, guestReceiptsDir) || strings.HasPrefix(rel, "state/") {
			m.notes = append(m.notes, hit{rule: "F13", path: rel, text: "the guest's receipt " + path.Base(rel) + " is not JSON"})
			return
		}
		m.problem("H12", rel, 0, "it is not JSON")
		return
	}
	if !decodeObject(data, r) {
		m.problem("H13", rel, r.line, "the receipt is not an object")
		return
	}
	if m.receiptIdentity(data, r) {
		m.receipts = append(m.receipts, r)
	}
}

// receiptIdentity holds a receipt to its identities: each one given is a text, the recording's and the envelope's.
func (m *material) receiptIdentity(data []byte, r *receipt) bool {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(data, &fields) // an object, as decodeObject saw
	ok := true
	bad := func(format string, args ...any) {
		m.problem("H13", r.path, r.line, format, args...)
		ok = false
	}
	for name, value := range map[string]text{"executionId": r.ExecutionID, "actionId": r.ActionID, "sessionId": r.SessionID} {
		if _, given := fields[name]; given && strings.TrimSpace(string(value)) == "" {
			bad("the receipt's %s is blank or no text", name)
		}
	}
	if r.ExecutionID == "" && r.ActionID == "" {
		bad("the receipt names neither an execution nor an action")
	}
	if r.SessionID != "" && string(r.SessionID) != m.id.SessionID {
		bad("the receipt belongs to another recording, %s", r.SessionID)
	}
	if e := r.envelope; e != nil {
		if r.ExecutionID != "" && e.ExecutionID != "" && r.ExecutionID != e.ExecutionID {
			bad("the receipt names execution %s in the journal line of %s", r.ExecutionID, e.ExecutionID)
		}
		if r.ActionID != "" && e.ActionID != "" && r.ActionID != e.ActionID {
			bad("the receipt names action %s in the journal line of %s", r.ActionID, e.ActionID)
		}
	}
	return ok
}

// orderActions puts the actions in the order in which review shows them.
func (m *material) orderActions() {
	seen := map[string]bool{}
	add := func(id string) {
		if !seen[id] {
			seen[id] = true
			m.order = append(m.order, m.actions[id])
		}
	}
	for _, e := range m.starts {
		add(string(e.ActionID))
	}
	for _, e := range m.events {
		if e.Kind == "action-refusal" && e.ActionID != "" {
			add(string(e.ActionID))
		}
	}
	for _, r := range m.records {
		add(string(r.ActionID))
	}
}
