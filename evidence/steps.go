package evidence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Outcomes of a step.
const (
	StepCompleted  = "completed"
	StepFailed     = "failed"
	StepRefused    = "refused"    // it is proved that nothing ran
	StepUncertain  = "uncertain"  // it may have run, or its evidence does not let it be judged
	StepIncomplete = "incomplete" // it started, and no end is known
)

// Step is one run as review shows it.
type Step struct {
	ID        string         `json:"id"`
	ActionID  string         `json:"actionId,omitempty"`
	InputMode string         `json:"inputMode"`
	AttemptID string         `json:"attemptId"`
	Title     string         `json:"title"`
	Execution string         `json:"execution"` // one of the Step constants
	State     string         `json:"state"`
	Expected  string         `json:"expected,omitempty"`
	Observed  string         `json:"observed,omitempty"`
	Because   string         `json:"because,omitempty"`
	Snapshots *StepSnapshots `json:"snapshots,omitempty"`
}

// StepSnapshots are paths in the package.
type StepSnapshots struct {
	Before                  string   `json:"before,omitempty"`
	After                   string   `json:"after,omitempty"`
	GroupID                 string   `json:"groupId,omitempty"`
	DeclaredAfterIntervalMs *float64 `json:"declaredAfterIntervalMs,omitempty"`
}

// Details of a step.
type Details struct {
	At       string      `json:"at,omitempty"`
	BeforeAt string      `json:"beforeAt,omitempty"`
	AfterAt  string      `json:"afterAt,omitempty"`
	Argv     []string    `json:"argv,omitempty"`
	Output   *StepOutput `json:"output,omitempty"`
}

// StepOutput is how a step's command ended and what it printed.
type StepOutput struct {
	Exit     *int    `json:"exit"`
	Signal   *string `json:"signal"`
	TimedOut bool    `json:"timedOut,omitempty"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
}

// judge is what a receipt says of its execution. Only exit code 0 with a signal that is expressly null is a success. A receipt
// that is malformed proves nothing: a refusal says why, and what completed has a code or a signal, not both.
func (r *receipt) judge() string {
	var o receiptOutcome
	if !decodeObject(r.Outcome, &o) {
		return StepUncertain
	}
	switch {
	case o.Kind == "refused" && !blank(o.Diagnostic):
		return StepRefused
	case o.Kind != "completed" || o.ExitStatus.Value == nil:
		return StepUncertain
	}
	status := o.ExitStatus.Value
	code, isNumber := jsonNumber(status.Code)
	switch {
	case isNumber && jsonText(status.Signal) != "":
		return StepUncertain
	case isNumber && code != 0 || jsonText(status.Signal) != "":
		return StepFailed
	case isNumber && string(status.Signal) == "null":
		return StepCompleted
	}
	return StepUncertain
}

// belongsTo ties a receipt to an action by identity, never by step id; where both have an identity they must agree.
func (r *receipt) belongsTo(a *action) bool {
	execution := a.execution()
	byAction := r.ActionID != "" && string(r.ActionID) == a.id
	byExecution := r.ExecutionID != "" && string(r.ExecutionID) == execution
	if r.ActionID != "" && r.ExecutionID != "" && execution != "" {
		return byAction && byExecution
	}
	return byAction || byExecution
}

func (r *receipt) subject() string { return cmp.Or(string(r.ExecutionID), string(r.ActionID)) }

func diagnosticName(r *receipt) string { return "diagnostic-" + r.subject() }

// named is a step's name with the place that gives it.
type named struct {
	id     string
	action *action
	path   string
	line   int
}

// stepActions lists the actions that are steps: all but those of diagnostics, which have a receipt of their own.
func stepActions(m *material) []*action {
	diagnostics := map[string]bool{}
	for _, r := range m.receipts {
		if strings.HasPrefix(r.path, "host/diagnostics/") {
			diagnostics[string(r.ExecutionID)] = true
		}
	}
	var all []*action
	for _, a := range m.order {
		if e := a.execution(); e == "" || !diagnostics[e] {
			all = append(all, a)
		}
	}
	return all
}

// stepNames gives each step its name: the caller's step id, with the action's behind it when it is taken already.
func stepNames(m *material) []named {
	var all []named
	taken := map[string]bool{}
	for _, a := range stepActions(m) {
		n := named{id: a.stepName(), action: a, path: journalPath}
		if a.start != nil {
			n.line = a.start.line
		}
		if taken[n.id] {
			n.id += "@" + a.id
		}
		taken[n.id] = true
		all = append(all, n)
	}
	for _, r := range diagnosticReceipts(m) {
		all = append(all, named{id: diagnosticName(r), path: r.path})
	}
	return all
}

func diagnosticReceipts(m *material) []*receipt {
	var all []*receipt
	for _, r := range m.receipts {
		if strings.HasPrefix(r.path, "host/diagnostics/") {
			all = append(all, r)
		}
	}
	return all
}

// deriveSteps makes the step list and its details.
func deriveSteps(m *material) ([]Step, map[string]Details) {
	groups := m.groups()
	steps, details := []Step{}, map[string]Details{}
	for _, n := range stepNames(m) {
		if n.action == nil {
			continue
		}
		s, d := m.actionStep(n, groups)
		steps = append(steps, s)
		details[s.ID] = d
	}
	for _, r := range diagnosticReceipts(m) {
		s, d := m.diagnosticStep(r)
		steps = append(steps, s)
		details[s.ID] = d
	}
	return steps, details
}

func (m *material) actionStep(n named, groups []*groupFacts) (Step, Details) {
	a := n.action
	receipts := m.receiptsOf(a)
	pictures := pair{}
	if a.start != nil {
		pictures = m.pairOf(a, groups)
	}
	because, expected := m.intent(a)
	s := Step{
		ID: n.id, ActionID: a.id, AttemptID: cmp.Or(a.attempt(), "unknown-attempt"), Because: because, Expected: expected,
		InputMode: cmp.Or(a.field(func(e *event) text { return e.InputMode }, func(r *actionRecord) text { return r.InputMode }), "unknown"),
		Title:     cmp.Or(a.field(func(e *event) text { return e.Title }, func(r *actionRecord) text { return r.Title }), a.id),
		State:     a.state(),
		Execution: m.reconcile(a, a.ownOutcome(pictures), receipts),
		Observed:  observed(a, receipts),
		Snapshots: stepSnapshots(a, pictures),
	}
	return s, m.actionDetails(a, pictures, receipts)
}

func (m *material) receiptsOf(a *action) []*receipt {
	var all []*receipt
	for _, r := range m.receipts {
		if r.belongsTo(a) {
			all = append(all, r)
		}
	}
	return all
}

func (a *action) state() string {
	switch {
	case a.record != nil && a.record.State != "":
		return string(a.record.State)
	case a.start != nil && a.start.State != "":
		return string(a.start.State)
	}
	return "unknown"
}

// ownOutcome judges an action by its journal lines, its record and its pictures. Without its pair or its record a completed
// action is uncertain: what it did cannot be seen.
func (a *action) ownOutcome(pictures pair) string {
	outcome := a.journalOutcome()
	if outcome == StepCompleted && (pictures.missing != "" || a.record == nil || a.record.State != "recorded") {
		return StepUncertain
	}
	return outcome
}

func (a *action) journalOutcome() string {
	switch {
	case a.refusal != nil || a.record != nil && a.record.State == "refused":
		return StepRefused
	case a.completion == nil:
		return StepIncomplete
	case a.completion.State == "uncertain" || !present(a.completion.ToolOutcome):
		return StepUncertain
	}
	var t toolOutcome
	switch {
	case !decodeObject(a.completion.ToolOutcome, &t):
		return StepUncertain
	case t.Kind == "failure":
		return StepFailed
	case t.Kind != "success" || t.Value.Value == nil:
		return StepUncertain
	}
	return t.Value.Value.outcome()
}

func (v *toolValue) outcome() string {
	codes := []json.RawMessage{v.Code, v.ExitCode}
	signal := string(v.Signal)
	if s := v.ExitStatus.Value; s != nil {
		codes = append(codes, s.Code)
		signal += jsonText(s.Signal)
	}
	if v.TimedOut || v.OutputRefused || signal != "" {
		return StepFailed
	}
	outcome := StepCompleted
	for _, c := range codes {
		n, isNumber := jsonNumber(c)
		switch {
		case isNumber && n != 0:
			return StepFailed
		case string(c) == "null":
			outcome = StepUncertain
		}
	}
	return outcome
}

// reconcile holds an action's own outcome against its receipts. A good receipt never repairs a bad outcome. Where the host
// rejected the guest's receipt, the guest's journal and records are not believed either.
func (m *material) reconcile(a *action, own string, receipts []*receipt) string {
	if m.rejected(a.execution()) && own != StepIncomplete {
		return StepUncertain
	}
	has := map[string]bool{}
	for _, r := range receipts {
		has[m.judge(r)] = true
	}
	switch {
	case has[StepRefused]:
		return StepRefused
	case has[StepFailed]:
		return StepFailed
	case own == StepCompleted && has[StepUncertain]:
		return StepUncertain
	}
	return own
}

// intent finds why a step was made and what was expected. A record of the same action or execution decides; one that only
// shares the step id is asked when all such records speak of one execution. The journal's own reason wins.
func (m *material) intent(a *action) (because, expected string) {
	var exact, similar []*hostRecord
	subjects := map[string]bool{}
	execution, step := a.execution(), a.stepName()
	for _, h := range m.hosts {
		switch {
		case string(h.ActionID) == a.id || h.ExecutionID != "" && string(h.ExecutionID) == execution:
			exact = append(exact, h)
		case h.step() == step:
			similar = append(similar, h)
			subjects[cmp.Or(string(h.ExecutionID), string(h.ActionID))] = true
		}
	}
	if len(exact) == 0 && len(subjects) == 1 {
		exact = similar
	}
	because = a.field(func(e *event) text { return e.Because }, func(*actionRecord) text { return "" })
	for _, h := range exact {
		because = cmp.Or(because, strings.TrimSpace(string(h.Because)))
		expected = cmp.Or(expected, h.expected())
	}
	return because, expected
}

// observed says what the receipts state and, apart from it, what the recorder itself saw of the process.
func observed(a *action, receipts []*receipt) string {
	own := ""
	switch {
	case a.refusal != nil:
		own = string(a.refusal.Diagnostic)
	case a.completion != nil && a.completion.Diagnostic != "":
		own = string(a.completion.Diagnostic)
	case a.completion != nil:
		own = compact(a.completion.ToolOutcome)
	}
	if len(receipts) == 0 {
		return own
	}
	var outcomes []any
	for _, r := range receipts {
		outcome, _ := decodeNumbers(r.Outcome)
		outcomes = append(outcomes, map[string]any{"source": r.path, "outcome": outcome})
	}
	return fmt.Sprintf("Receipts: %s\nOriginal process evidence: %s", encode(outcomes), cmp.Or(own, "none"))
}

func stepSnapshots(a *action, p pair) *StepSnapshots {
	if p.before == nil && p.after == nil {
		return nil
	}
	s := &StepSnapshots{GroupID: a.plan().group()}
	if p.before != nil {
		s.Before = p.before.path
	}
	if p.after != nil {
		s.After = p.after.path
		interval := p.after.AfterIntervalMs.Value
		s.DeclaredAfterIntervalMs = &interval
	}
	return s
}

func (m *material) actionDetails(a *action, p pair, receipts []*receipt) Details {
	d := Details{Argv: m.argv(a.execution())}
	if p.before != nil {
		d.BeforeAt = string(p.before.CapturedAt)
	}
	if p.after != nil {
		d.AfterAt = string(p.after.CapturedAt)
	}
	for _, e := range []*event{a.start, a.refusal} {
		if e != nil {
			d.At = cmp.Or(d.At, string(e.WrittenAt))
		}
	}
	if a.record != nil {
		d.At = cmp.Or(d.At, string(a.record.StartedAt))
	}
	d.At = cmp.Or(d.At, d.BeforeAt)
	for _, r := range receipts {
		if d.Output = r.output(); d.Output != nil {
			return d
		}
	}
	if a.completion != nil {
		var t toolOutcome
		if decodeObject(a.completion.ToolOutcome, &t) && t.Value.Value != nil {
			d.Output = t.Value.Value.output()
		}
	}
	return d
}

func (m *material) argv(execution string) []string {
	for _, e := range m.events {
		if e.Kind == "execution-start" && execution != "" && string(e.ExecutionID) == execution {
			return jsonTexts(e.Argv)
		}
	}
	return nil
}

// output of a receipt that carries a command's result, or nil.
func (r *receipt) output() *StepOutput {
	if r.Stdout == nil && r.Stderr == nil && r.Output == nil {
		return nil
	}
	out := &StepOutput{TimedOut: r.TimedOut}
	for _, t := range []*text{r.Stdout, r.Output} {
		if t != nil {
			out.Stdout += string(*t)
		}
	}
	if r.Stderr != nil {
		out.Stderr = string(*r.Stderr)
	}
	var o receiptOutcome
	if decodeObject(r.Outcome, &o) && o.ExitStatus.Value != nil {
		out.setExit(o.ExitStatus.Value)
	}
	return out
}

func (v *toolValue) output() *StepOutput {
	out := &StepOutput{TimedOut: v.TimedOut, Stdout: string(v.Stdout), Stderr: string(v.Stderr)}
	if v.ExitStatus.Value != nil {
		out.setExit(v.ExitStatus.Value)
	}
	return out
}

func (o *StepOutput) setExit(s *exitStatus) {
	if n, ok := jsonNumber(s.Code); ok {
		code := int(n)
		o.Exit = &code
	}
	if signal := jsonText(s.Signal); signal != "" {
		o.Signal = &signal
	}
}

// diagnosticStep shows a diagnostic, which has no pictures by its nature.
func (m *material) diagnosticStep(r *receipt) (Step, Details) {
	s := Step{
		ID: diagnosticName(r), AttemptID: "unknown-attempt", Title: "Diagnostic " + r.subject(),
		Execution: m.judge(r), State: "diagnostic", InputMode: "diagnostic", Observed: compact(r.Outcome),
	}
	d := Details{Output: r.output()}
	for _, h := range m.hosts {
		if h.ExecutionID == "" || h.ExecutionID != r.ExecutionID {
			continue
		}
		if h.Step.Value != nil {
			s.Title = cmp.Or(string(h.Step.Value.Title), s.Title)
		}
		s.Because, s.Expected = cmp.Or(s.Because, string(h.Because)), cmp.Or(s.Expected, h.expected())
		d.At = cmp.Or(d.At, string(h.At))
		if d.Argv == nil {
			d.Argv = jsonTexts(h.Argv)
		}
	}
	return s, d
}

func jsonNumber(raw json.RawMessage) (float64, bool) {
	var n number
	return n.Value, len(raw) > 0 && json.Unmarshal(raw, &n) == nil && n.Set
}

func jsonText(raw json.RawMessage) string {
	var t text
	if len(raw) == 0 || json.Unmarshal(raw, &t) != nil {
		return ""
	}
	return string(t)
}

// jsonTexts reads a list of strings; nil when it is anything else.
func jsonTexts(raw json.RawMessage) []string {
	var all []string
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

func compact(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	v, _ := decodeNumbers(raw)
	return encode(v)
}

// encode renders a decoded value on one line.
func encode(v any) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return ""
	}
	return strings.TrimSpace(out.String())
}
