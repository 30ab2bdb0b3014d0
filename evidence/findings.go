package evidence

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// about is a finding on actions.
func about(actions []string, format string, args ...any) hit {
	return hit{text: fmt.Sprintf(format, args...), actions: actions}
}

func findRecordAlone(m *material, found func(hit)) {
	for _, r := range m.records {
		if a := m.actions[string(r.ActionID)]; a.start == nil && a.refusal == nil {
			found(about([]string{a.id}, "the record of %s has neither a start nor a refusal in the journal", a.id))
		}
	}
}

func findUncited(m *material, found func(hit)) {
	for _, a := range m.order {
		if a.record != nil {
			findUncitedIn(a, a.record.Snapshots, "the action record", found)
		}
		for _, e := range a.evidence {
			findUncitedIn(a, e.Snapshots, fmt.Sprintf("line %d of the journal", e.line), found)
		}
	}
}

func findUncitedIn(a *action, list json.RawMessage, where string, found func(hit)) {
	var cited []lenient[snapshot]
	if !present(list) || json.Unmarshal(list, &cited) != nil {
		return
	}
	for _, c := range a.captures {
		missing := true
		for _, s := range cited {
			missing = missing && citedCapture(s.Value, []*capture{c}) == nil
		}
		if missing {
			found(about([]string{a.id}, "%s does not cite the capture %s of %s", where, c.FileName, a.id))
		}
	}
}

// groupFacts is a group of actions that share one pair of pictures.
type groupFacts struct {
	id      string
	starts  []*event
	indexes []int // of the starts among all starts
	before  *capture
	after   *capture
	pairs   int // captures beyond one before and one after
}

// groups lists the groups that ask for pictures, in order of their first start.
func (m *material) groups() []*groupFacts {
	var all []*groupFacts
	byID := map[string]*groupFacts{}
	for i, e := range m.starts {
		p := e.SnapshotPlan.Value
		if p == nil || p.group() == "" || !p.captures() {
			continue
		}
		g := byID[p.group()]
		if g == nil {
			g = &groupFacts{id: p.group()}
			byID[g.id] = g
			all = append(all, g)
		}
		g.starts, g.indexes = append(g.starts, e), append(g.indexes, i)
	}
	for _, c := range m.captures {
		g := byID[c.event.group()]
		switch {
		case g == nil:
		case c.Role == "before" && g.before == nil:
			g.before = c
		case c.Role == "after" && g.after == nil:
			g.after = c
		default:
			g.pairs++
		}
	}
	return all
}

// whole reports whether the group is as its plan wants it: first, members, last, in a row, in one attempt, with one pair.
func (g *groupFacts) whole() bool {
	if len(g.starts) < 2 || g.before == nil || g.after == nil || g.pairs > 0 {
		return false
	}
	for i, e := range g.starts {
		want := text("member")
		switch i {
		case 0:
			want = "first"
		case len(g.starts) - 1:
			want = "last"
		}
		if e.SnapshotPlan.Value.Role != want || e.AttemptID != g.starts[0].AttemptID || g.indexes[i] != g.indexes[0]+i {
			return false
		}
	}
	return true
}

func (g *groupFacts) actions() []string {
	ids := make([]string, len(g.starts))
	for i, e := range g.starts {
		ids[i] = string(e.ActionID)
	}
	return ids
}

func findGroups(m *material, found func(hit)) {
	for _, g := range m.groups() {
		if !g.whole() {
			found(about(g.actions(), "snapshot group %s is not one whole sequence with one picture before and one after", g.id))
		}
	}
}

// pair is the pictures around an action, its own or its group's.
type pair struct {
	before, after *capture
	missing       string // what is missing, "" when nothing is
}

// pairOf looks up the pair a started action should have.
func (m *material) pairOf(a *action, groups []*groupFacts) pair {
	p := a.plan()
	if p == nil {
		return pair{missing: "has no snapshot plan"}
	}
	if !p.captures() {
		return pair{}
	}
	var found pair
	if p.group() == "" {
		for _, c := range a.captures {
			if c.Role == "before" {
				found.before = c
			} else {
				found.after = c
			}
		}
	}
	for _, g := range groups {
		if g.id == p.group() {
			found.before, found.after = g.before, g.after
			if !g.whole() {
				found.missing = "belongs to an incomplete snapshot group"
			}
		}
	}
	switch {
	case found.missing != "":
	case found.before == nil && found.after == nil:
		found.missing = "has neither a picture before nor one after"
	case found.before == nil:
		found.missing = "has no picture before"
	case found.after == nil:
		found.missing = "has no picture after"
	}
	return found
}

func findPairs(m *material, found func(hit)) {
	groups := m.groups()
	for _, e := range m.starts {
		a := m.actions[string(e.ActionID)]
		if p := m.pairOf(a, groups); p.missing != "" {
			found(about([]string{a.id}, "step %s %s", a.stepName(), p.missing))
		}
	}
}

func findNoRecord(m *material, found func(hit)) {
	for _, e := range m.starts {
		if a := m.actions[string(e.ActionID)]; a.record == nil {
			found(about([]string{a.id}, "%s started and has no action record", a.id))
		}
	}
}

func findUnlisted(m *material, found func(hit)) {
	for _, a := range m.order {
		if len(a.captures) == 0 {
			continue
		}
		if a.record != nil && !present(a.record.Snapshots) {
			found(about([]string{a.id}, "the record of %s lists none of its captures", a.id))
		}
		if len(a.evidence) == 0 {
			found(about([]string{a.id}, "the journal has no evidence line for the captures of %s", a.id))
		}
	}
}

func findFailures(m *material, found func(hit)) {
	for _, e := range m.events {
		switch e.Kind {
		case "evidence-failure", "capture-status", "resource-stop":
			if e.State == "incomplete" || e.State == "uncertain" {
				h := hit{text: fmt.Sprintf("line %d of the journal reports %s: %s", e.line, e.Kind, e.Diagnostic)}
				found(h)
			}
		}
	}
}

func findParts(m *material, found func(hit)) {
	for _, rel := range m.tree.names() {
		if strings.HasPrefix(rel, snapshotsDir) && strings.HasSuffix(rel, ".part") {
			found(hit{path: rel, text: "the capture " + path.Base(rel) + " was left unfinished"})
		}
	}
}

func findLostRequests(m *material, found func(hit)) {
	known := map[string]bool{}
	for _, e := range m.starts {
		known[string(e.ExecutionID)] = true
	}
	for _, r := range m.receipts {
		if m.judge(r) == StepRefused {
			known[string(r.ExecutionID)] = true
		}
	}
	for _, h := range m.hosts {
		id := string(h.ExecutionID)
		if id == "" || blank(h.Because) || h.diagnostic() || known[id] || m.completions[id] {
			continue
		}
		known[id] = true
		found(hit{path: h.path, text: "the request " + id + " was sent, and nothing says that it started, ended or was refused"})
	}
}

func findBadReceipts(m *material, found func(hit)) {
	m.receiptHits(found, StepRefused, StepFailed)
}

func findUncertainReceipts(m *material, found func(hit)) {
	m.receiptHits(found, StepUncertain)
}

// receiptHits finds the executions of which receipts say one of the outcomes: once each, however many copies say it.
func (m *material) receiptHits(found func(hit), outcomes ...string) {
	type key struct{ subject, outcome string }
	var order []key
	copies := map[key][]*receipt{}
	for _, r := range m.receipts {
		k := key{r.subject(), m.judge(r)}
		if !slices.Contains(outcomes, k.outcome) {
			continue
		}
		if copies[k] == nil {
			order = append(order, k)
		}
		copies[k] = append(copies[k], r)
	}
	for _, k := range order {
		found(m.receiptHit(copies[k], k.outcome))
	}
}

// receiptHit is the finding on the copies of one receipt. It names the first file of them, or else the journal's line.
func (m *material) receiptHit(copies []*receipt, outcome string) hit {
	r := copies[0]
	if i := slices.IndexFunc(copies, func(r *receipt) bool { return r.path != journalPath }); i >= 0 {
		r = copies[i]
	}
	h := hit{path: r.path, line: r.line, text: fmt.Sprintf("the receipt of %s in %s says %s", r.subject(), r.path, outcome)}
	for _, a := range m.order {
		if slices.ContainsFunc(copies, func(r *receipt) bool { return r.belongsTo(a) }) {
			h.actions = append(h.actions, a.id)
		}
	}
	if slices.ContainsFunc(copies, (*receipt).diagnostic) {
		h.steps = append(h.steps, diagnosticName(r))
	}
	return h
}

// findRejected finds receipts of the guest that claim an outcome which the host did not believe.
func findRejected(m *material, found func(hit)) {
	for _, rel := range m.in(guestReceiptsDir) {
		id := baseID(rel)
		if kind := m.papers[rel].object("outcome").text("kind"); m.rejected(id) && kind != StepUncertain {
			h := failure(rel, 0, "the guest's receipt %s says %s, and the host's verdict on it in %s is uncertain, which counts", rel, kind, hostReceiptsDir+path.Base(rel))
			for _, a := range m.order {
				if a.execution() == id {
					h.actions = append(h.actions, a.id)
				}
			}
			found(h)
		}
	}
}

func findIntents(m *material, found func(hit)) {
	captured := map[string]bool{}
	for _, c := range m.captures {
		captured[c.path] = true
	}
	for _, rel := range m.tree.names() {
		if m.intents[rel] && !captured[rel] {
			found(hit{path: rel, text: "the capture " + path.Base(rel) + " was written, and the recorder ended before it could say so"})
		}
	}
}

func findNotes(m *material, found func(hit)) {
	for _, h := range m.notes {
		found(h)
	}
}

func findMissingOutputs(m *material, found func(hit)) {
	seen := map[string]bool{}
	for _, o := range m.outputs() {
		if _, has := m.digests[o.path]; !has && !seen[o.path] {
			seen[o.path] = true
			found(hit{path: o.path, text: "the whole output " + path.Base(o.path) + " that a receipt names is missing"})
		}
	}
}

func blank(t text) bool { return strings.TrimSpace(string(t)) == "" }
