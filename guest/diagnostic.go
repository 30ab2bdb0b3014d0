package guest

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// maxDiagnosticScript is what one argument of a Linux command can hold, bytes.
const maxDiagnosticScript = 128 << 10

const outputStreamsNote = "stdout and stderr in one stream, as machine-service gives them; only its end is kept when it is long"

// diagnosticRequest is host/diagnostics/<id>.request.json, durable before the dispatch.
type diagnosticRequest struct {
	ExecutionID  string   `json:"executionId"`
	At           string   `json:"at"`
	EvidenceMode string   `json:"evidenceMode"`
	Because      string   `json:"because"`
	Language     string   `json:"language"`
	Inline       bool     `json:"inline"`
	LocalPath    string   `json:"localPath,omitempty"`
	TimeoutMs    int64    `json:"timeoutMs"`
	Argv         []string `json:"argv"`
}

// diagnosticReceipt is host/diagnostics/<id>.receipt.json.
type diagnosticReceipt struct {
	ExecutionID        string           `json:"executionId"`
	At                 string           `json:"at"`
	Outcome            protocol.Outcome `json:"outcome"`
	Output             string           `json:"output"`
	OutputStreams      string           `json:"outputStreams"`
	TimedOut           bool             `json:"timedOut"`
	TimeoutMs          int64            `json:"timeoutMs"`
	EvidenceMode       string           `json:"evidenceMode"`
	ScreenshotEvidence bool             `json:"screenshotEvidence"`
	ImageDelivery      ImageDelivery    `json:"imageDelivery"`
}

// DiagnosticResult is what relay_script answers for a diagnostic: no separate streams and no screenshots.
type DiagnosticResult struct {
	Guest              string           `json:"guest"`
	ExecutionID        string           `json:"executionId"`
	Outcome            protocol.Outcome `json:"outcome"`
	Output             string           `json:"output"`
	OutputStreams      string           `json:"outputStreams"`
	TimedOut           bool             `json:"timedOut"`
	TimeoutMs          int64            `json:"timeoutMs"`
	EvidenceMode       string           `json:"evidenceMode"`
	ScreenshotEvidence bool             `json:"screenshotEvidence"`
	EvidencePath       string           `json:"evidencePath"`
	LeaseReleased      bool             `json:"leaseReleased"`
	Owned              Status           `json:"owned"`
}

// diagnostic runs a shell script straight through machine-service: no receiver, no push, no pull. It works before staging and
// when the recording is broken, is dispatched once, and its request is durable before that.
func (g *Guest) diagnostic(ctx context.Context, in Script) (Result, error) {
	name, err := g.machineName()
	if err != nil {
		return Result{}, g.fail("diagnostic", err)
	}
	request, err := g.diagnosticRequest(in)
	if err != nil {
		return Result{}, g.fail("diagnostic", err)
	}
	files := g.rec().host("host", "diagnostics", request.ExecutionID)
	if err := writeInto(files+".request.json", request); err != nil {
		return Result{}, g.fail("diagnostic", fmt.Errorf("cannot record the diagnostic, so nothing was sent: %w", err))
	}
	limit := time.Duration(request.TimeoutMs) * time.Millisecond
	result, execErr := g.s.opt.API.Exec(ctx, name, machine.ExecRequest{Argv: request.Argv, Timeout: limit})
	receipt := diagnosticReceipt{
		ExecutionID: request.ExecutionID, At: isoTime(g.now()), Outcome: diagnosticOutcome(result, execErr), Output: result.Output,
		OutputStreams: outputStreamsNote, TimeoutMs: request.TimeoutMs, EvidenceMode: "diagnostic", ImageDelivery: ImageDelivery{Status: statusNotRequested},
	}
	if answer := timedOut(execErr); answer != nil {
		receipt.TimedOut, receipt.Output = true, answer.Output
	}
	if err := writeInto(files+".receipt.json", receipt); err != nil {
		receipt.Outcome = uncertain("the diagnostic's outcome (%s) could not be kept: %v", receipt.Outcome.Kind, err)
	}
	g.noteDiagnostic(receipt)
	failed := failureText(receipt.Outcome) != ""
	return Result{
		Value: DiagnosticResult{
			Guest: g.name, ExecutionID: receipt.ExecutionID, Outcome: receipt.Outcome, Output: receipt.Output, OutputStreams: receipt.OutputStreams,
			TimedOut: receipt.TimedOut, TimeoutMs: receipt.TimeoutMs, EvidenceMode: receipt.EvidenceMode, EvidencePath: g.rec().HostRoot, Owned: g.Status(),
		},
		Delivery: &ImageDelivery{Status: statusNotRequested, ExecutionFailed: failed},
		Failed:   failed,
	}, nil
}

func (g *Guest) diagnosticRequest(in Script) (diagnosticRequest, error) {
	code, err := g.diagnosticCode(in)
	if err != nil {
		return diagnosticRequest{}, err
	}
	if len(code) > maxDiagnosticScript {
		return diagnosticRequest{}, Refuse("a diagnostic travels as one argument: at most %d bytes, these are %d. Run it as a recorded script", maxDiagnosticScript, len(code))
	}
	argv := []string{"/bin/sh", "-c", code}
	if r := g.rec(); r.Staged {
		argv = []string{"/bin/sh", "-c", `cd "$1" && exec /bin/sh -c "$2"`, "sh", r.workspace(), code}
	}
	return diagnosticRequest{
		ExecutionID: "diagnostic-" + newUUID(), At: isoTime(g.now()), EvidenceMode: "diagnostic", Because: deriveReason(in, deriveTitle(in)),
		Language: in.Language, Inline: in.Inline, LocalPath: in.LocalPath, TimeoutMs: timeoutOf(in), Argv: argv,
	}, nil
}

func (g *Guest) diagnosticCode(in Script) (string, error) {
	if in.Inline {
		return *in.Code, nil
	}
	source, err := g.readScript(in, "")
	if err != nil {
		return "", err
	}
	defer os.Remove(source.private)
	if source.script.Bytes > maxDiagnosticScript {
		return "", Refuse("a diagnostic travels as one argument: at most %d bytes, these are %d. Run it as a recorded script", maxDiagnosticScript, source.script.Bytes)
	}
	data, err := os.ReadFile(source.private)
	return string(data), err
}

func diagnosticOutcome(result machine.ExecResult, err error) protocol.Outcome {
	switch {
	case err != nil && commandNotStarted(err):
		return refusedByHost("machine-service did not start the diagnostic: %v", err)
	case err != nil:
		return uncertain("the diagnostic was started and its end is not known: %v", err)
	}
	code := result.Code
	return protocol.Outcome{Kind: protocol.Completed, ExitStatus: &protocol.ExitStatus{Code: &code}}
}

// noteDiagnostic keeps what went wrong in status and events; the receipt is the record that counts.
func (g *Guest) noteDiagnostic(receipt diagnosticReceipt) {
	failure := failureText(receipt.Outcome)
	if failure == "" {
		return
	}
	_ = g.update(func(r *Record) { r.LastError = failure })
	_ = g.log(eventExecutionFailed, "", map[string]any{"executionId": receipt.ExecutionID, "outcome": receipt.Outcome})
}
