package evidence

import "cmp"

// bearing is what a broken rule says about a package.
type bearing int

const (
	invalid     bearing = iota // the evidence contradicts itself: it is not sealed, and does not verify
	onSnapshots                // pictures that were planned are missing or cannot be relied on
	onExecution                // it is not known whether something ran, or how it ended
	defect                     // the recorder broke a rule of its own; no verdict changes
	listed                     // said again because a reader looks for it; it enters the verdict by other ways
)

// rule is one row of the table that sealing, verification and review share.
type rule struct {
	id      string
	bearing bearing
	what    string // the condition, in words
	action  string // what a reader of the finding can do
	check   func(m *material, found func(hit))
}

// hit is one place where a rule does not hold.
type hit struct {
	rule    string
	kind    string // of the problem; "" is ProblemEvidence
	path    string
	line    int
	text    string
	actions []string // concerned
	steps   []string // concerned, by name
}

// Advice in findings.
const (
	adviseLook   = "Look at the step's output and its receipts, and run the step again if the picture matters."
	adviseGroup  = "Judge the group's steps by their outputs, and run the group again from its first step if the pictures matter."
	adviseRerun  = "Check on the guest, or in what the step should have changed, whether it took effect before running it again."
	adviseReport = "Report it as a defect of the recorder; the verdicts do not depend on it."
)

// table returns the rules in the order in which they are checked and reported. Rules without a check are found while the
// evidence is read, where the line at fault is at hand.
func table() []rule {
	return []rule{
		{"H1", invalid, "the package, recording and task are named, the recording by a safe path", "", checkIdentity},
		{"H2", invalid, "the journal is there, and each of its lines is whole", "", nil},
		{"H3", invalid, "each journal line belongs to this recording", "", nil},
		{"H4", invalid, "an action starts, completes and is refused at most once", "", nil},
		{"H5", invalid, "an action record agrees with the journal", "", checkRecords},
		{"H6", invalid, "what completed has started", "", checkCompletions},
		{"H7", invalid, "a capture fits its action and plan, and its file has the bytes of capture time", "", checkCaptures},
		{"H8", invalid, "each snapshot file was captured", "", checkOrphans},
		{"H9", invalid, "references to captures are exact", "", checkReferences},
		{"H10", invalid, "an action or group has at most one picture before and one after", "", checkPairsOnce},
		{"H11", invalid, "the picture before was taken before the picture after", "", checkPairOrder},
		{"H12", invalid, "host records are JSON", "", nil},
		{"H13", invalid, "receipts name what they answer", "", nil},
		{"H14", invalid, "steps have names of their own", "", checkStepNames},
		{"H15", invalid, "a whole output has the bytes its receipt names", "", checkOutputs},
		{"H16", invalid, "the journal holds the lines that receipts vouch for", "", checkHeads},
		{"H17", invalid, "a file's name and the ids in it are the same", "", checkNames},
		{"H18", invalid, "a request has the bytes its receipts answer", "", checkRequestHashes},
		{"H19", invalid, "the copies of a receipt agree, with each other and with the journal", "", checkReceiptCopies},
		{"H20", invalid, "requests agree with the journal, submissions and receipts with their requests", "", checkRequests},
		{"H21", invalid, "an execution record agrees with the journal", "", checkExecutionRecords},

		{"F1", defect, "an action record has a start or a refusal in the journal", adviseReport, findRecordAlone},
		{"F2", defect, "records cite each capture of their action", adviseReport, findUncited},
		{"F3", onSnapshots, "a group is first, members, last, in a row, with one pair", adviseGroup, findGroups},
		{"F4", onSnapshots, "a started action has the pair its plan asks for", adviseLook, findPairs},
		{"F5", defect, "a started action has a record", adviseReport, findNoRecord},
		{"F6", defect, "captures are listed in the record and in an evidence line", adviseReport, findUnlisted},
		{"F7", onSnapshots, "no capture or evidence write failed", adviseLook, findFailures},
		{"F8", onSnapshots, "no capture was left unfinished", adviseLook, findParts},
		{"F9", onExecution, "each request was started, ended or refused", adviseRerun, findLostRequests},
		{"F10", listed, "no receipt says refused or failed", adviseRerun, findBadReceipts},
		{"F11", listed, "no receipt says uncertain", adviseRerun, findUncertainReceipts},
		{"F12", onSnapshots, "no capture was cut off between its file and its journal line", adviseLook, findIntents},
		{"F13", defect, "receipts from the guest are JSON", adviseReport, findNotes},
		{"F14", defect, "whole outputs named by receipts are there", adviseReport, findMissingOutputs},
		{"F15", listed, "no receipt says more than the host's own verdict on it", adviseRerun, findRejected},
	}
}

// analysis is the result of all rules.
type analysis struct {
	*material
	problems []Problem
	findings []hit // in table order
	steps    []Step
	details  map[string]Details
	verdicts verdicts
}

// analyze applies the table. Of a journal that is missing or damaged nothing can be concluded: then there are no findings and
// no verdicts, only what was found while reading.
func analyze(m *material) *analysis {
	a := &analysis{material: m, problems: m.problems}
	if m.damaged {
		return a
	}
	a.steps, a.details = deriveSteps(m)
	for _, r := range table() {
		if r.check == nil {
			continue
		}
		r.check(m, func(h hit) {
			if r.bearing == invalid {
				a.problems = append(a.problems, Problem{Kind: cmp.Or(h.kind, ProblemEvidence), Rule: r.id, Path: h.path, Line: h.line, Message: h.text})
				return
			}
			h.rule = r.id
			a.findings = append(a.findings, h)
		})
	}
	a.verdicts = judge(a)
	return a
}

// bears reports whether some finding bears on b.
func (a *analysis) bears(b bearing) bool {
	for _, r := range table() {
		if r.bearing != b {
			continue
		}
		for _, h := range a.findings {
			if h.rule == r.id {
				return true
			}
		}
	}
	return false
}

// texts of the findings, never nil.
func (a *analysis) texts() []string {
	all := make([]string, 0, len(a.findings))
	for _, h := range a.findings {
		all = append(all, h.text)
	}
	return all
}
