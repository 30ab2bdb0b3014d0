package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// ScriptResult is what relay_script answers for a recorded run.
type ScriptResult struct {
	Guest                string                  `json:"guest"`
	ExecutionID          string                  `json:"executionId"`
	SessionID            string                  `json:"sessionId"`
	Outcome              protocol.Outcome        `json:"outcome"`
	Stdout               *string                 `json:"stdout,omitempty"`
	Stderr               *string                 `json:"stderr,omitempty"`
	TimedOut             bool                    `json:"timedOut"`
	OutputTruncated      bool                    `json:"outputTruncated"`
	TerminationConfirmed *bool                   `json:"terminationConfirmed,omitempty"`
	StdoutStream         *protocol.Stream        `json:"stdoutStream,omitempty"`
	StderrStream         *protocol.Stream        `json:"stderrStream,omitempty"`
	Leftover             []protocol.Process      `json:"leftover,omitempty"`
	LeftoverTotal        int                     `json:"leftoverTotal,omitempty"`
	TimeoutMs            int64                   `json:"timeoutMs"`
	Step                 protocol.Step           `json:"step"`
	Snapshots            protocol.Snapshots      `json:"snapshots"`
	ImageEvidence        *protocol.ImageEvidence `json:"imageEvidence,omitempty"`
	EvidencePath         string                  `json:"evidencePath"`
	LeaseReleased        bool                    `json:"leaseReleased"`
	Owned                Status                  `json:"owned"`
}

// run is one recorded script on its way.
type run struct {
	request    protocol.Request
	submission submission
	script     string // the private copy on the host
	sent       string // the exact request on the host
}

// verdict is how a run ended, as far as the host knows: receipt is nil without a usable one.
type verdict struct {
	outcome protocol.Outcome
	receipt *protocol.Receipt
}

// Script runs one script, recorded, at most once. Up to the dispatch a failure is a refusal: nothing ran. From the dispatch on
// everything that is not a proved outcome is uncertain, and nothing is sent a second time. Refused, uncertain and nonzero
// runs are results with Failed set; a Go error means that no execution id was given to the guest.
func (g *Guest) Script(ctx context.Context, in Script) (Result, error) {
	if err := g.scriptRefusal(in); err != nil {
		return Result{}, g.fail("script", err)
	}
	if in.Diagnostic {
		return g.diagnostic(ctx, in)
	}
	run, err := g.prepare(in)
	if err != nil {
		return Result{}, g.fail("script", unlessRefused(err, "cannot record the run, so nothing was sent and nothing ran"))
	}
	defer os.Remove(run.script)
	verdict := g.dispatch(ctx, run)
	if err := g.conclude(run, verdict); err != nil {
		verdict.outcome = uncertain("the run's outcome (%s) could not be kept: %v", verdict.outcome.Kind, err)
	}
	return g.answer(run, verdict), nil
}

func (g *Guest) scriptRefusal(in Script) error {
	if err := checkScript(in); err != nil {
		return err
	}
	if in.Diagnostic {
		return g.sealed()
	}
	return g.ready()
}

// prepare derives the record of the run and makes the submission and the exact request durable.
func (g *Guest) prepare(in Script) (run, error) {
	var r run
	id := newID("execution-", g.now())
	source, err := g.readScript(in, id)
	if err != nil {
		return r, err
	}
	r.script = source.private
	if err := g.update(func(rec *Record) { rec.RunSeq++ }); err != nil {
		return r, err
	}
	rec := g.rec()
	step := deriveStep(in, rec.RunSeq)
	r.request = protocol.Request{
		Protocol: protocol.Version, ExecutionID: id, SessionID: rec.SessionID, AttemptID: "attempt-1",
		Because: deriveReason(in, step.Title), Language: in.Language, Script: source.script, Cwd: rec.workspace(),
		TimeoutMs: timeoutOf(in), Step: step, Snapshots: derivePlan(*rec.Capture, in.Snapshots),
	}
	r.sent = rec.host("host", "requests", id+".json")
	r.submission = submission{
		ExecutionID: id, SessionID: rec.SessionID, Argv: []string{in.Language, source.script.Path}, SubmittedAt: isoTime(g.now()), State: statePending,
		Script: submittedScript{ScriptID: scriptID(source.script), RemotePath: source.script.Path, Language: in.Language, SHA256: source.script.SHA256},
	}
	return r, g.writeRequest(r)
}

// writeRequest makes the submission pending and the exact request durable, in this order.
func (g *Guest) writeRequest(r run) error {
	data, err := evidence.MarshalRecord(r.request)
	if err != nil {
		return err
	}
	if len(data) > protocol.MaxRequest {
		return Refuse("the request is %d bytes long; at most %d are taken", len(data), protocol.MaxRequest)
	}
	if err := g.submit(r.submission); err != nil {
		return err
	}
	err = makeDir(r.sent)
	if err == nil {
		err = evidence.WriteExclusive(r.sent, data, 0o600)
	}
	if err != nil {
		return errors.Join(err, g.settle(r.submission, refusedByHost("the request could not be recorded: %v", err)))
	}
	return nil
}

// scriptSource is a script read once: its private copy on the host and its place in the guest.
type scriptSource struct {
	private string
	script  protocol.Script
}

func (g *Guest) readScript(in Script, execution string) (scriptSource, error) {
	if err := os.MkdirAll(g.temp(), 0o700); err != nil {
		return scriptSource{}, fmt.Errorf("cannot make the transfer folder: %w", err)
	}
	name := newUUID()
	s := scriptSource{private: filepath.Join(g.temp(), name)}
	s.script.Path = g.rec().guest("scripts/" + name + protocol.Extension(in.Language))
	if in.Inline {
		if err := os.WriteFile(s.private, []byte(*in.Code), 0o600); err != nil {
			return scriptSource{}, fmt.Errorf("cannot write the script for its push: %w", err)
		}
		s.script.Origin, s.script.Name = "inline", execution
		s.script.SHA256, s.script.Bytes = hashBytes([]byte(*in.Code)), int64(len(*in.Code))
		return s, nil
	}
	fact, err := g.projectScript(in.LocalPath, s.private)
	if err != nil {
		return scriptSource{}, err
	}
	s.script.Origin, s.script.Name = "file", path.Base(fact.Path)
	s.script.SHA256, s.script.Bytes = fact.SHA256, fact.Bytes
	return s, nil
}

// projectScript copies a script file out of the project.
func (g *Guest) projectScript(local, private string) (protocol.Fact, error) {
	files, err := openProject(g.rec().Project)
	if err != nil {
		return protocol.Fact{}, err
	}
	defer files.Close()
	rel, err := files.resolve(local)
	if err != nil {
		return protocol.Fact{}, err
	}
	fact, err := files.copyOut(rel, private)
	if err == nil && fact.Bytes > protocol.MaxScript {
		err = errors.Join(Refuse("the script file is %d bytes long; at most %d are taken", fact.Bytes, protocol.MaxScript), os.Remove(private))
	}
	return fact, err
}

func scriptID(s protocol.Script) string {
	if s.Origin == "inline" {
		return "code-" + s.Name
	}
	return "script-" + hashBytes([]byte(s.Path + s.SHA256))[:24]
}

// dispatch pushes, starts the receiver once, and reads its receipt.
func (g *Guest) dispatch(ctx context.Context, r run) verdict {
	if err := g.pushRun(ctx, r); err != nil {
		return verdict{outcome: refusedByHost("the run was not started: %v%s", err, fullDiskHint(err))}
	}
	name, err := g.machineName()
	if err != nil {
		return verdict{outcome: refusedByHost("the run was not started: %v", err)}
	}
	limit := time.Duration(r.request.TimeoutMs+protocol.DispatchMarginMs+waitOf(r.request.Snapshots)) * time.Millisecond
	result, err := g.s.opt.API.Exec(ctx, name, machine.ExecRequest{Argv: g.invokeArgv(r), Timeout: limit})
	if err != nil && commandNotStarted(err) {
		return verdict{outcome: refusedByHost("machine-service did not start the run: %v", err)}
	}
	if err != nil {
		return verdict{outcome: uncertain("the run was started and its answer was lost: %v", err)}
	}
	return g.collect(ctx, r, result)
}

// fullDiskHint is the way out when a push or its preparation failed in the guest: most often its disk is full.
func fullDiskHint(err error) string {
	var failure *protocol.Failure
	var answer *machine.Error
	full := errors.As(err, &failure) && failure.Code == protocol.CodeSpace ||
		errors.As(err, &answer) && answer.Op == machine.OpPush && answer.Code == machine.CodeTransferFailed
	if !full {
		return ""
	}
	return ". Where the guest's disk is full, relay_script with diagnostic: true still runs a shell command in the guest, for example to delete files"
}

func (g *Guest) pushRun(ctx context.Context, r run) error {
	s := r.request.Script
	if err := g.push(ctx, r.script, s.Path, protocol.Fact{SHA256: s.SHA256, Bytes: s.Bytes}); err != nil {
		return err
	}
	fact, err := hashFile(r.sent)
	if err != nil {
		return fmt.Errorf("cannot read the request: %w", err)
	}
	return g.push(ctx, r.sent, g.requestPath(r), fact)
}

func (g *Guest) requestPath(r run) string {
	return g.rec().guest("requests/" + r.request.ExecutionID + ".json")
}

// invokeArgv starts the receiver. A corrected Node comes first on the PATH that the receiver finds its interpreters on.
func (g *Guest) invokeArgv(r run) []string {
	rec := g.rec()
	argv := []string{rec.guest(protocol.RuntimeName), protocol.VerbInvoke, rec.GuestRoot, g.requestPath(r)}
	if !path.IsAbs(rec.Node) {
		return argv
	}
	const withPath = `PATH="$1:$PATH"; export PATH; shift; exec "$@"`
	return append([]string{"/bin/sh", "-c", withPath, "sh", path.Dir(rec.Node)}, argv...)
}

// commandNotStarted says that the command is proved to have never begun.
func commandNotStarted(err error) bool {
	return notBegun(err) || neverSent(err)
}

func refusedByHost(format string, args ...any) protocol.Outcome {
	return protocol.Outcome{Kind: protocol.Refused, Reason: protocol.ReasonHost, Diagnostic: clip(fmt.Sprintf(format, args...), maxDiagnostic)}
}

func uncertain(format string, args ...any) protocol.Outcome {
	return protocol.Outcome{Kind: protocol.Uncertain, Diagnostic: clip(fmt.Sprintf(format, args...), maxDiagnostic)}
}

// maxDiagnostic bounds the text of an outcome, in bytes.
const maxDiagnostic = 60 << 10

// conclude makes the host's verdict and the end of the submission durable, in this order.
func (g *Guest) conclude(r run, v verdict) error {
	rec, id := g.rec(), r.request.ExecutionID
	var body any = struct {
		ExecutionID string           `json:"executionId"`
		Outcome     protocol.Outcome `json:"outcome"`
	}{id, v.outcome}
	if v.receipt != nil {
		body = v.receipt
	}
	if err := writeInto(rec.host("host", "receipts", id+".json"), body); err != nil {
		return err
	}
	if err := g.settle(r.submission, v.outcome); err != nil {
		return err
	}
	failure := failureText(v.outcome)
	if failure == "" {
		return g.update(func(r *Record) { r.LastError = "" })
	}
	if err := g.update(func(r *Record) { r.LastError = failure }); err != nil {
		return err
	}
	return g.log(eventExecutionFailed, "", map[string]any{"executionId": id, "outcome": v.outcome})
}

// failureText says in words why a run is an error result, or "".
func failureText(o protocol.Outcome) string {
	switch {
	case o.Kind != protocol.Completed:
		return o.Kind + ": " + o.Diagnostic
	case o.ExitStatus.Signal != nil:
		return "the script was ended by signal " + *o.ExitStatus.Signal
	case o.ExitStatus.Code == nil:
		return "the script ended without an exit code"
	case *o.ExitStatus.Code != 0:
		return fmt.Sprintf("the script ended with exit code %d", *o.ExitStatus.Code)
	}
	return ""
}

// answer is the tool's result.
func (g *Guest) answer(r run, v verdict) Result {
	rec := g.rec()
	value := ScriptResult{
		Guest: g.name, ExecutionID: r.request.ExecutionID, SessionID: r.request.SessionID, Outcome: v.outcome, TimeoutMs: r.request.TimeoutMs,
		Step: r.request.Step, Snapshots: r.request.Snapshots, EvidencePath: rec.HostRoot, Owned: g.Status(),
	}
	if c := v.receipt; c != nil {
		value.Stdout, value.Stderr, value.StdoutStream, value.StderrStream = c.Stdout, c.Stderr, c.StdoutStream, c.StderrStream
		value.TimedOut, value.OutputTruncated, value.TerminationConfirmed = c.TimedOut, c.OutputTruncated, c.TerminationConfirmed
		value.Leftover, value.LeftoverTotal = c.Leftover, c.LeftoverTotal
		value.ImageEvidence = &c.ImageEvidence
	}
	delivery := g.pendingImage(r.request, v)
	delivery.ExecutionFailed = failureText(v.outcome) != ""
	return Result{Value: value, Delivery: delivery, Failed: delivery.ExecutionFailed || imageFailed(delivery.Status)}
}

// receiptJSON decodes a receipt strictly enough to be judged.
func receiptJSON(data []byte) (protocol.Receipt, error) {
	var receipt protocol.Receipt
	err := json.Unmarshal(data, &receipt)
	return receipt, err
}
