package evidence

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
)

// Folders whose files say the same things twice, each named by the id it is about.
const (
	requestsDir         = "host/requests/"
	hostReceiptsDir     = "host/receipts/"
	guestReceiptsDir    = "host/receiver-receipts/" // the guest's bytes as the host pulled them
	diagnosticsDir      = "host/diagnostics/"
	submissionsDir      = "host/submissions/sessions/"
	stateReceiptsDir    = "state/receiver/receipts/"
	imageRecordsDir     = "host/image-evidence/records/action/" // as copied to prove a picture
	imageReceiptsDir    = "host/image-evidence/receiver/receipts/"
	startedDir          = "state/receiver/started/"
	executionRecordsDir = "state/records/execution/"
)

// paper is a JSON object as it stands in a file or a journal line, with every field.
type paper map[string]any

// readPaper reads an object; nil when data is anything else.
func readPaper(data []byte) paper {
	if first := bytes.TrimSpace(data); len(first) == 0 || first[0] != '{' {
		return nil
	}
	v, _ := decodeNumbers(data)
	fields, _ := v.(map[string]any)
	return fields
}

// text of a field, "" when it is none.
func (p paper) text(name string) string {
	s, _ := p[name].(string)
	return s
}

// object of a field, nil when it is none.
func (p paper) object(name string) paper {
	o, _ := p[name].(map[string]any)
	return o
}

// list of a field, nil when it is none.
func (p paper) list(name string) []any {
	l, _ := p[name].([]any)
	return l
}

// only is p with the named fields.
func (p paper) only(names ...string) paper {
	some := paper{}
	for _, name := range names {
		if v, has := p[name]; has {
			some[name] = v
		}
	}
	return some
}

// without is p less the named fields.
func (p paper) without(names ...string) paper {
	some := maps.Clone(p)
	for _, name := range names {
		delete(some, name)
	}
	return some
}

// stated is p less the fields that say nothing, at any depth: a writer may leave out what another writes as empty.
func (p paper) stated() paper {
	some := paper{}
	for name, v := range p {
		switch v := v.(type) {
		case nil:
		case string:
			if v != "" {
				some[name] = v
			}
		case map[string]any:
			some[name] = map[string]any(paper(v).stated())
		default:
			some[name] = v
		}
	}
	return some
}

// clash names the first field that both papers carry with different values, or "".
func clash(a, b paper) string {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		other, both := b[name]
		if !both {
			continue
		}
		if at, differ := clashOf(a[name], other); differ {
			return strings.TrimSuffix(name+"."+at, ".")
		}
	}
	return ""
}

func clashOf(a, b any) (at string, differ bool) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		at = clash(x, y)
		return at, !ok || at != ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return "", true
		}
		for i := range x {
			if at, differ := clashOf(x[i], y[i]); differ {
				return at, true
			}
		}
		return "", false
	}
	switch b.(type) {
	case map[string]any, []any:
		return "", true
	}
	return "", a != b
}

// statement is what a journal line says of an execution.
type statement struct {
	line   int
	fields paper
}

// said is what the journal says of one execution: its reason, its start, its end.
type said struct{ routing, start, end statement }

// hear keeps what a journal line says that files say too.
func (m *material) hear(e *event, raw []byte) {
	switch {
	case e.Kind == "annotation" && e.AnnotationType == "routing-decision", e.Kind == "execution-start", e.Kind == "execution-completion":
	case e.Kind == "snapshot-captured":
		if shot := readPaper(raw).object("snapshot"); shot != nil {
			m.shots[shot.text("fileName")] = shot
		}
		return
	default:
		return
	}
	s := m.said[string(e.ExecutionID)]
	if s == nil {
		s = &said{}
		m.said[string(e.ExecutionID)] = s
	}
	slot := map[text]*statement{"annotation": &s.routing, "execution-start": &s.start, "execution-completion": &s.end}[e.Kind]
	*slot = statement{e.line, readPaper(raw)}
}

// heard is never nil.
func (m *material) heard(execution string) *said {
	if s := m.said[execution]; s != nil {
		return s
	}
	return &said{}
}

// keepPaper keeps a file that others are held against.
func (m *material) keepPaper(data []byte, rel string) {
	if p := readPaper(data); p != nil {
		m.papers[rel] = p
	}
}

// in lists the papers directly in dir, sorted.
func (m *material) in(dir string) []string {
	var all []string
	for _, rel := range slices.Sorted(maps.Keys(m.papers)) {
		if path.Dir(rel)+"/" == dir {
			all = append(all, rel)
		}
	}
	return all
}

// baseID is the id in a file's name.
func baseID(rel string) string {
	name := strings.TrimSuffix(path.Base(rel), ".json")
	if strings.HasPrefix(rel, diagnosticsDir) {
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".request"), ".receipt")
	}
	return name
}

// short reports whether a host's receipt is its own verdict alone, without a receipt of the guest that it could use.
func (p paper) short() bool {
	for name := range p {
		if name != "executionId" && name != "outcome" {
			return false
		}
	}
	return true
}

// rejected reports whether the host had the guest's receipt and would not believe it: its own verdict is uncertain, and the
// guest's bytes lie beside it. What the guest says of this execution then proves nothing.
func (m *material) rejected(execution string) bool {
	own := m.papers[hostReceiptsDir+execution+".json"]
	_, pulled := m.digests[guestReceiptsDir+execution+".json"]
	return execution != "" && pulled && own != nil && own.short() && own.object("outcome").text("kind") == StepUncertain
}

// judge is what a receipt proves: one that the host rejected proves nothing, whatever it says.
func (m *material) judge(r *receipt) string {
	answered := baseID(r.path) // what it says of itself may be why it was rejected
	if r.envelope != nil {
		answered = string(r.envelope.ExecutionID)
	}
	if m.rejected(answered) || m.rejected(string(r.ExecutionID)) {
		return StepUncertain
	}
	return r.judge()
}
