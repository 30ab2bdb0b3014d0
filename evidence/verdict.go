package evidence

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// verdicts of a package.
type verdicts struct{ snapshots, execution string }

// judge derives the two verdicts. Defects change neither, and missing pictures alone do not make the execution uncertain:
// the step that lacks them is uncertain by itself.
func judge(a *analysis) verdicts {
	v := verdicts{snapshots: Complete, execution: Passed}
	if a.bears(onSnapshots) {
		v.snapshots = Incomplete
	}
	outcomes := map[string]bool{}
	for _, r := range a.receipts {
		outcomes[a.judge(r)] = true
	}
	open := len(a.steps) == 0 || outcomes[StepUncertain] || a.bears(onExecution)
	for _, s := range a.steps {
		outcomes[s.Execution] = true
		open = open || s.Execution != StepCompleted
	}
	switch {
	case outcomes[StepRefused] || outcomes[StepFailed]:
		v.execution = Failed
	case open:
		v.execution = Uncertain
	}
	return v
}

// reasons explains the verdicts: one entry per finding, and for the execution what each step and receipt adds to it.
func (a *analysis) reasons() Reasons {
	r := Reasons{Snapshots: []Reason{}, Execution: []Reason{}, Defects: []Reason{}}
	for _, row := range table() {
		for _, h := range a.findings {
			if h.rule != row.id {
				continue
			}
			switch row.bearing {
			case onSnapshots:
				r.Snapshots = append(r.Snapshots, a.reason(h, row.action))
			case defect:
				r.Defects = append(r.Defects, a.reason(h, row.action))
			}
		}
	}
	r.Execution = append(r.Execution, a.failedReasons()...)
	if a.verdicts.execution == Uncertain {
		r.Execution = append(r.Execution, a.uncertainReasons()...)
	}
	return r
}

func (a *analysis) failedReasons() []Reason {
	var all []Reason
	for _, s := range a.steps {
		if s.Execution == StepFailed || s.Execution == StepRefused {
			all = append(all, Reason{fmt.Sprintf("Step %s %s.", s.ID, ended(s.Execution)), []string{s.ID}, a.advice("F10")})
		}
	}
	return append(all, a.ruleReasons("F10")...)
}

func (a *analysis) uncertainReasons() []Reason {
	all := append(a.ruleReasons("F11"), a.ruleReasons("F15")...)
	if len(a.steps) == 0 {
		all = append(all, Reason{"The recording has no steps.", []string{}, "Check whether anything was to be run in it."})
	}
	all = append(all, a.ruleReasons("F9")...)
	for _, s := range a.steps {
		if s.Execution == StepUncertain || s.Execution == StepIncomplete {
			all = append(all, Reason{fmt.Sprintf("Step %s %s.", s.ID, ended(s.Execution)), []string{s.ID}, a.advice("F9")})
		}
	}
	return all
}

func ended(outcome string) string {
	switch outcome {
	case StepFailed:
		return "failed"
	case StepRefused:
		return "was refused, so nothing ran"
	case StepIncomplete:
		return "started, and no end of it is known"
	}
	return "has an outcome that its evidence does not prove"
}

func (a *analysis) ruleReasons(id string) []Reason {
	var all []Reason
	for _, h := range a.findings {
		if h.rule == id {
			all = append(all, a.reason(h, a.advice(id)))
		}
	}
	return all
}

func (a *analysis) advice(id string) string {
	for _, r := range table() {
		if r.id == id {
			return r.action
		}
	}
	return ""
}

func (a *analysis) reason(h hit, action string) Reason {
	r := Reason{Text: sentence(h.text), StepIDs: append([]string{}, h.steps...), Action: action}
	for _, id := range h.actions {
		for _, s := range a.steps {
			if s.ActionID == id {
				r.StepIDs = append(r.StepIDs, s.ID)
			}
		}
	}
	return r
}

// sentence makes a finding one: a capital letter and a full stop.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(s[size:], ".") + "."
}
