package receiver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver/admission"
)

// ended is a script that was dispatched and is over.
type ended struct {
	result
	cause  error // of the cancellation
	stdout *stream
	stderr *stream
}

// refuse closes the books of a run that dispatched nothing.
func (r *run) refuse(no *refusal) (protocol.Receipt, string) {
	r.note(r.room.free())
	line := r.action("action-refusal", stateRefused)
	line.StepID, line.Reason, line.Diagnostic = r.req.Step.ID, no.reason, bounded(no.diagnostic, maxDiagnostic)
	if r.begun {
		dispatched := false
		line.Dispatched = &dispatched
	}
	r.note(r.append(line))
	r.note(r.writeAction(stateRefused, nil, line.Diagnostic))
	receipt := r.receipt(protocol.Outcome{Kind: protocol.Refused, Reason: no.reason, Diagnostic: line.Diagnostic})
	return r.close(receipt, stateRefused)
}

// retain closes the books of a run that was dispatched. Evidence that cannot be written makes its outcome uncertain, and
// takes nothing from what is known of its output.
func (r *run) retain(e *ended) (protocol.Receipt, string) {
	r.note(r.room.free())
	value := r.value(e)
	tool := &toolOutcome{Kind: "success", Value: value}
	if e.problem != nil {
		tool = &toolOutcome{Kind: "failure", Value: value, Error: &toolError{ErrorName: "ReceiverError", Message: e.problem.Error()}}
	}
	if len(r.taken) > 0 {
		line := r.action("snapshot-evidence", stateRecorded)
		line.Cited, line.SnapshotRole, line.GroupID = r.taken, r.plan.Role, r.plan.GroupID
		r.note(r.append(line))
	}
	line := r.action("action-completion", stateRecorded)
	line.ToolOutcome = tool
	r.note(r.append(line))
	r.note(r.writeAction(stateRecorded, tool, ""))
	r.opt.Hook(pointCompleted)

	receipt := r.receipt(r.outcome(e))
	receipt.Stdout, receipt.Stderr, receipt.StdoutStream, receipt.StderrStream = &value.Stdout, &value.Stderr, value.StdoutStream, value.StderrStream
	receipt.TimedOut, receipt.OutputTruncated, receipt.TerminationConfirmed = e.timedOut, value.OutputTruncated, e.gone
	receipt.Leftover, receipt.LeftoverTotal = e.leftover, e.leftTotal
	receipt.StartedAt, receipt.EndedAt = stamp(e.started), stamp(e.ended)
	return r.close(receipt, stateRecorded)
}

// value is what the dispatch gave. Streams that could not be saved whole are gaps in the evidence.
func (r *run) value(e *ended) *toolValue {
	v := &toolValue{TimedOut: e.timedOut, TerminationConfirmed: e.gone, Leftover: e.leftover}
	if e.exit.Code != nil || e.exit.Signal != nil {
		v.ExitStatus = &e.exit
	}
	var gaps [3]error
	v.Stdout, v.StdoutStream, gaps[0] = e.stdout.finish()
	v.Stderr, v.StderrStream, gaps[1] = e.stderr.finish()
	gaps[2] = e.unlisted
	for _, s := range []*protocol.Stream{v.StdoutStream, v.StderrStream} {
		v.OutputTruncated = v.OutputTruncated || (s != nil && s.Omitted > 0)
	}
	if err := errors.Join(gaps[:]...); err != nil {
		line := r.action("annotation", stateIncomplete)
		line.AnnotationType, line.Diagnostic = "output-incomplete", bounded(err.Error(), maxDiagnostic)
		r.note(r.append(line))
	}
	return v
}

// outcome judges a dispatched run.
func (r *run) outcome(e *ended) protocol.Outcome {
	var why []string
	if e.timedOut {
		why = append(why, fmt.Sprintf("the script was still running after %d ms and was killed", r.req.TimeoutMs))
	}
	if e.cancelled {
		why = append(why, "the run was called off and the script killed: "+causeText(e.cause))
	}
	if e.gone != nil && !*e.gone {
		why = append(why, "processes of it could not be ended")
	}
	if e.problem != nil {
		why = append(why, e.problem.Error())
	}
	if err := errors.Join(r.faults...); err != nil {
		why = append(why, "its evidence could not be written whole: "+err.Error(), "it ended with "+exitText(e.exit))
	}
	if len(why) == 0 {
		return protocol.Outcome{Kind: protocol.Completed, ExitStatus: &e.exit}
	}
	return protocol.Outcome{Kind: protocol.Uncertain, Diagnostic: bounded(strings.Join(why, "; "), maxDiagnostic)}
}

func causeText(err error) string {
	if err == nil || errors.Is(err, context.Canceled) {
		return "it was told to end"
	}
	return err.Error()
}

func exitText(s protocol.ExitStatus) string {
	switch {
	case s.Code != nil:
		return fmt.Sprintf("exit code %d", *s.Code)
	case s.Signal != nil:
		return "signal " + *s.Signal
	}
	return "an exit status that is not known"
}

// receipt is the frame of this run's receipt.
func (r *run) receipt(outcome protocol.Outcome) protocol.Receipt {
	receipt := protocol.Receipt{
		ExecutionID: r.ids.ExecutionID, SessionID: r.ids.SessionID, RequestSHA256: r.sum, ActionID: r.actionID,
		TimeoutMs: r.req.TimeoutMs, Outcome: outcome,
		ImageEvidence: protocol.ImageEvidence{Snapshots: []protocol.Snapshot{}},
	}
	images := &receipt.ImageEvidence
	for _, c := range r.taken {
		images.Snapshots = append(images.Snapshots, c.Descriptor(r.ids, r.actionID, r.req.Step.ID, r.plan.GroupID))
	}
	images.Status = admission.ImageStatus(r.plan.After, images.Snapshots, r.untaken != nil)
	if r.untaken != nil {
		images.Diagnostic = bounded(r.untaken.Error(), maxDiagnostic)
	}
	return receipt
}

// close writes what every run ends with: the end of its group where it broke it, the execution record, the
// execution-completion, the receipt.
func (r *run) close(receipt protocol.Receipt, state string) (protocol.Receipt, string) {
	record := executionRecord{IDs: r.ids, ActionID: r.actionID, State: state, Argv: r.argv, ExitStatus: receipt.Outcome.ExitStatus}
	r.note(evidence.WriteRecord(r.state("records", "execution", r.ids.ExecutionID+".json"), record))
	receipt = r.doubt(receipt)
	r.settleGroup(receipt.Outcome)
	receipt = r.doubt(receipt)
	line := r.event("execution-completion", state)
	if receipt.Outcome.Kind == protocol.Uncertain {
		line.State = stateUncertain
	}
	line.Response = &receipt
	if err := r.append(line); err != nil {
		r.note(err)
		receipt = r.doubt(receipt)
	} else {
		receipt.JournalHead = r.journal.Head()
	}
	r.opt.Hook(pointRetained)
	return r.writeSome(receipt)
}

// doubt makes a completed run uncertain when its evidence could not be written. A refusal stays one: nothing ran.
func (r *run) doubt(receipt protocol.Receipt) protocol.Receipt {
	err := errors.Join(r.faults...)
	if err == nil || receipt.Outcome.Kind != protocol.Completed {
		return receipt
	}
	receipt.Outcome = protocol.Outcome{Kind: protocol.Uncertain, Diagnostic: bounded(fmt.Sprintf(
		"its evidence could not be written whole: %v; it ended with %s", err, exitText(*receipt.Outcome.ExitStatus)), maxDiagnostic)}
	return receipt
}

// spareOutput is what a receipt keeps of each stream when the disk has no room for more.
const spareOutput = 1 << 10

// writeSome writes the receipt, or as much of it as the disk takes.
func (r *run) writeSome(receipt protocol.Receipt) (protocol.Receipt, string) {
	written, path, err := r.tryWrite(receipt)
	if err == nil {
		return written, path
	}
	if receipt.Outcome.Kind == protocol.Refused {
		return receipt, ""
	}
	why := []string{receipt.Outcome.Diagnostic, fmt.Sprintf("the receipt could not be written whole: %v", err)}
	if s := receipt.Outcome.ExitStatus; s != nil {
		why = []string{why[1], "it ended with " + exitText(*s)}
	}
	receipt.Outcome = protocol.Outcome{Kind: protocol.Uncertain, Diagnostic: bounded(strings.Join(why, "; "), spareOutput)}
	short := receipt
	for _, text := range []**string{&short.Stdout, &short.Stderr} {
		if *text != nil && len(**text) > spareOutput {
			cut := bounded(**text, spareOutput)
			*text, short.OutputTruncated = &cut, true
		}
	}
	if written, path := r.write(short); path != "" {
		return written, path
	}
	return receipt, ""
}

// settleGroup ends the group where this run was its last, or broke it.
func (r *run) settleGroup(outcome protocol.Outcome) {
	active := r.groups.Active
	if active == nil || !r.grouped {
		return
	}
	switch {
	case !admission.Keeps(outcome):
		if err := r.append(groupIncomplete(r.ids, *active, "a run of the group did not end well")); err != nil {
			r.note(err)
			return
		}
	case r.plan.Role != admission.PhaseLast:
		return
	}
	r.groups = r.groups.Abandon()
	r.writeGroups()
}

// groupIncomplete is the line that says that a group will not be complete.
func groupIncomplete(ids admission.IDs, group admission.Active, why string) event {
	return event{
		Kind: "annotation", AnnotationType: "group-incomplete", IDs: ids, State: stateIncomplete,
		GroupID: group.GroupID, PriorSessionID: group.SessionID, PriorAttemptID: group.AttemptID, Diagnostic: why,
	}
}

// writeGroups copies the state of the groups for readers. The journal is what counts, so a failure here is nobody's loss.
func (r *run) writeGroups() {
	groups := r.groups
	if groups.Used == nil {
		groups.Used = []string{}
	}
	_ = evidence.WriteRecord(r.state("receiver", "groups.json"), groups)
}

// writeAction writes the action record.
func (r *run) writeAction(state string, tool *toolOutcome, diagnostic string) error {
	record := actionRecord{
		ActionID: r.actionID, IDs: r.ids, StepID: r.req.Step.ID, State: state, Title: r.req.Step.Title, InputMode: r.inputMode(),
		ToolOutcome: tool, EvidenceStatus: "not-applicable", Snapshots: r.taken, SnapshotRole: r.plan.Role, GroupID: r.plan.GroupID, Diagnostic: diagnostic,
	}
	switch {
	case state != stateRecorded || r.plan.Captures() == 0:
	case len(r.taken) == r.plan.Captures():
		record.EvidenceStatus = "retained"
	default:
		record.EvidenceStatus = "failed"
	}
	return evidence.WriteRecord(r.state("records", "action", r.actionID+".json"), record)
}

// closeBooks ends, in the journal and on disk, what receivers before this one left without an end. They are dead: we hold the lock.
func (r *receiver) closeBooks(before owner, journal *evidence.Journal, history *admission.History) error {
	if a := history.Groups.Active; a != nil && len(history.Unfinished()) > 0 {
		last := history.Unfinished()[len(history.Unfinished())-1]
		if err := journalAll(journal, groupIncomplete(last.IDs, *a, "the receiver died during a run")); err != nil {
			return err
		}
		history.Groups = history.Groups.Abandon()
	}
	for _, u := range history.Unfinished() {
		if err := r.closeRun(before, journal, u); err != nil {
			return err
		}
	}
	if before.Phase == phaseAdmission && !named(history, before.ExecutionID) {
		return r.closeClaim(before)
	}
	return nil
}

// closeRun gives an unfinished run its last lines and its receipt.
func (r *receiver) closeRun(before owner, journal *evidence.Journal, u *admission.Unfinished) error {
	dead, err := r.predecessor(u.ExecutionID)
	if err != nil {
		return err
	}
	dead.ids = u.IDs
	receipt, state := dead.uncertain("the receiver died during this run; the script may have run, whole or in part"), stateUncertain
	if before.ExecutionID == u.ExecutionID && before.Phase == phaseAdmission {
		receipt, state = dead.refused(diedEarly), stateRefused
	}
	receipt.ActionID = u.ActionID
	images := &receipt.ImageEvidence
	images.Snapshots = append(images.Snapshots, u.Snapshots...)
	images.Status = admission.ImageStatus(images.Status != protocol.ImageNotRequested, images.Snapshots, false)
	if stored, err := load[protocol.Receipt](r.receiptPath(u.ExecutionID)); err != nil {
		return err
	} else if stored != nil {
		receipt = *stored
	}
	var lines []event
	if u.ActionID != "" && !u.Ended {
		end := event{Kind: "action-completion", IDs: u.IDs, ActionID: u.ActionID, State: stateUncertain, Diagnostic: receipt.Outcome.Diagnostic}
		if state == stateRefused {
			dispatched := false
			end.Kind, end.StepID, end.State, end.Dispatched = "action-refusal", u.StepID, stateRefused, &dispatched
		}
		lines = append(lines, end)
	}
	lines = append(lines, event{Kind: "execution-completion", IDs: u.IDs, State: state, Response: &receipt})
	if err := journalAll(journal, lines...); err != nil {
		return err
	}
	receipt.JournalHead = journal.Head()
	_, _ = r.write(receipt) // without room for it the journal still tells, and whoever asks gets it then
	return nil
}

// closeClaim gives a claim without any line in the journal its receipt.
func (r *receiver) closeClaim(before owner) error {
	claim, err := load[admission.Claim](r.claimPath(before.ExecutionID))
	if err != nil || claim == nil {
		return err
	}
	dead, err := r.predecessor(before.ExecutionID)
	if err != nil {
		return err
	}
	_, _ = r.write(dead.refused(diedEarly))
	return nil
}

var diedEarly = refuse(protocol.ReasonCancelled, "the receiver died before it dispatched this run; nothing was run")

// predecessor is the receiver of an earlier request, as far as its request file still tells about it.
func (r *receiver) predecessor(id string) (*receiver, error) {
	claim, err := load[admission.Claim](r.claimPath(id))
	if err != nil {
		return nil, err
	}
	data, err := readRequest(r.root, filepath.Join(r.root, "requests", id+".json"))
	if err != nil || claim == nil || claim.RequestSHA256 != hexSum(data) {
		data = nil // gone, or not the one that was claimed: nothing of it counts
	}
	ids, err := admission.Identify(data)
	if err != nil {
		ids = admission.IDs{ExecutionID: id}
	}
	dead := newReceiver(r.root, ids, data, r.opt)
	dead.sum = ""
	if claim != nil {
		dead.sum = claim.RequestSHA256
	}
	return dead, nil
}

func named(history *admission.History, id string) bool {
	for _, u := range history.Unfinished() {
		if u.ExecutionID == id {
			return true
		}
	}
	return false
}

func journalAll(journal *evidence.Journal, lines ...event) error {
	for _, line := range lines {
		if _, err := journal.Append(line, evidence.Durable); err != nil {
			return err
		}
	}
	return nil
}
