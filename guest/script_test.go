package guest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// played replaces the receiver: it gets the request and says what the command answers. A receipt that is not nil is written
// where the receiver would.
func (b *bench) played(play func(req protocol.Request) (receipt any, ack protocol.Ack)) {
	b.wire.onExec = func(argv []string, next func() (machine.ExecResult, error)) (machine.ExecResult, error) {
		at := slices.Index(argv, protocol.VerbInvoke)
		if at < 0 {
			return next()
		}
		var request protocol.Request
		b.decode(argv[at+2], &request)
		receipt, ack := play(request)
		if receipt != nil {
			path := filepath.Join(argv[at+1], "state/receiver/receipts", request.ExecutionID+".json")
			data, err := json.Marshal(receipt)
			if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700)); err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
			if err != nil {
				b.Error(err)
			}
			ack.Receipt = path
		}
		if ack.ExecutionID == "" {
			ack.ExecutionID = request.ExecutionID
		}
		line, err := protocol.Answer(ack)
		return machine.ExecResult{Output: "a warning first\n" + string(line)}, err
	}
}

func completed(req protocol.Request, code int) protocol.Receipt {
	out := ""
	return protocol.Receipt{
		ExecutionID: req.ExecutionID, SessionID: req.SessionID, Outcome: protocol.Outcome{Kind: protocol.Completed, ExitStatus: &protocol.ExitStatus{Code: &code}},
		ImageEvidence: protocol.ImageEvidence{Status: protocol.ImageNotRequested, Snapshots: []protocol.Snapshot{}}, Stdout: &out, Stderr: &out,
	}
}

// exitCode of an outcome, or -1.
func exitCode(o protocol.Outcome) int {
	if o.ExitStatus == nil || o.ExitStatus.Code == nil {
		return -1
	}
	return *o.ExitStatus.Code
}

// hostVerdict is host/receipts/<id>.json.
func (b *bench) hostVerdict(g *Guest, id string) (v protocol.Receipt) {
	b.Helper()
	b.decode(g.rec().host("host", "receipts", id+".json"), &v)
	return v
}

func (b *bench) submissionOf(g *Guest, id string) (s submission) {
	b.Helper()
	b.decode(g.rec().submissionPath(g.rec().SessionID, id), &s)
	return s
}

// Architecture 4, rows 5-9: what must be durable is, before the one dispatch; and the files tell the whole run.
func TestRunIsDurableBeforeItsOneDispatch(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.played(func(req protocol.Request) (any, protocol.Ack) {
		if s := b.submissionOf(g, req.ExecutionID); s.State != statePending || s.Outcome != nil {
			t.Errorf("submission at dispatch %+v, want pending", s)
		}
		host := b.read(g.rec().host("host", "requests", req.ExecutionID+".json"))
		if guest := b.read(g.rec().guest("requests/" + req.ExecutionID + ".json")); host != guest {
			t.Error("the guest has another request than the host recorded")
		}
		if b.read(req.Script.Path) != "echo one\necho two" {
			t.Errorf("script %q", b.read(req.Script.Path))
		}
		return completed(req, 0), protocol.Ack{Outcome: protocol.Completed}
	})
	value, result := b.run(g, shell("echo one\necho two"))
	if result.Failed || value.Outcome.Kind != protocol.Completed || result.Delivery.Status != "not-requested" {
		t.Fatalf("result %+v %+v", value, result.Delivery)
	}
	if value.Step.ID != "shell-1" || value.Step.Title != "shell echo one" || value.Step.Expected != "Exits with status 0" || *value.Snapshots.AfterIntervalMs != 500 {
		t.Errorf("derived %+v, %+v", value.Step, value.Snapshots)
	}
	id := value.ExecutionID
	if s := b.submissionOf(g, id); s.State != stateCompleted || s.Outcome.Kind != protocol.Completed {
		t.Errorf("submission %+v, want completed", s)
	}
	if got, want := b.read(g.rec().host("host", "receiver-receipts", id+".json")), b.read(g.rec().guest("state/receiver/receipts/"+id+".json")); got != want {
		t.Error("the receiver's receipt was not kept as it is")
	}
	if v := b.hostVerdict(g, id); v.Outcome.Kind != protocol.Completed {
		t.Errorf("host verdict %+v", v)
	}
	b.empty(g.temp())
}

// T54, T111, T112, P5: whatever happens from the dispatch on, there is one dispatch; what is not proved is uncertain.
func TestOneDispatchWhateverItsAnswer(t *testing.T) {
	ack := protocol.Ack{Outcome: protocol.Completed}
	for _, test := range []struct {
		name string
		play func(req protocol.Request) (any, protocol.Ack)
		want string
	}{
		{"foreign receipt", func(req protocol.Request) (any, protocol.Ack) {
			receipt := completed(req, 0)
			receipt.ExecutionID = "execution-another"
			return receipt, ack
		}, "of execution"},
		{"foreign recording", func(req protocol.Request) (any, protocol.Ack) {
			receipt := completed(req, 0)
			receipt.SessionID = "session-another"
			return receipt, ack
		}, "of recording"},
		{"another request", func(req protocol.Request) (any, protocol.Ack) {
			receipt := completed(req, 0)
			receipt.RequestSHA256 = strings.Repeat("0", 64)
			return receipt, ack
		}, "another request"},
		{"malformed receipt", func(protocol.Request) (any, protocol.Ack) { return "nonsense", ack }, "not a receipt"},
		{"no exit status", func(req protocol.Request) (any, protocol.Ack) {
			receipt := completed(req, 0)
			receipt.Outcome.ExitStatus = nil
			return receipt, ack
		}, "exit status"},
		{"capture that was not planned", func(req protocol.Request) (any, protocol.Ack) {
			receipt := completed(req, 0)
			receipt.ImageEvidence.Status = protocol.ImageAvailable
			return receipt, ack
		}, "contradicts the plan"},
		{"no receipt", func(protocol.Request) (any, protocol.Ack) { return nil, ack }, "no receipt"},
		{"foreign acknowledgement", func(protocol.Request) (any, protocol.Ack) {
			return nil, protocol.Ack{ExecutionID: "execution-another", Outcome: protocol.Completed}
		}, "acknowledged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			g := b.staged(b.input())
			b.played(test.play)
			value, result := b.run(g, shell("true"))
			if value.Outcome.Kind != protocol.Uncertain || !result.Failed || !result.Delivery.ExecutionFailed {
				t.Errorf("outcome %+v, want uncertain and an error result", value.Outcome)
			}
			if !strings.Contains(value.Outcome.Diagnostic, test.want) {
				t.Errorf("diagnostic %q, want one with %q", value.Outcome.Diagnostic, test.want)
			}
			if n := b.wire.dispatches(); n != 1 {
				t.Errorf("%d dispatches, want one", n)
			}
			if v := b.hostVerdict(g, value.ExecutionID); v.Outcome.Kind != protocol.Uncertain || v.Stdout != nil {
				t.Errorf("host verdict %+v, want only the uncertain outcome", v)
			}
			if s := b.submissionOf(g, value.ExecutionID); s.State != stateUncertain {
				t.Errorf("submission %+v", s)
			}
			if g.Status().LastError == "" || !slices.Contains(b.kinds(), eventExecutionFailed) {
				t.Error("the failure is in neither status nor events")
			}
			b.played(func(req protocol.Request) (any, protocol.Ack) { return completed(req, 0), ack })
			if next, _ := b.run(g, shell("true")); next.Outcome.Kind != protocol.Completed || g.Status().LastError != "" {
				t.Errorf("next run %+v, want completed", next.Outcome)
			}
		})
	}
}

// T54, T112, 6.1: only an answer that proves that the command never began is a refusal.
func TestDispatchFailureIsRefusedOnlyWithProof(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"not running", serviceError(409, machine.CodeNotRunning, "stopped"), protocol.Refused},
		{"unknown machine", serviceError(404, machine.CodeUnknownMachine, "unknown"), protocol.Refused},
		{"no listener", &netDial, protocol.Refused},
		{"reset", errors.New("connection reset"), protocol.Uncertain},
		{"ran out of time", serviceError(409, machine.CodeExecTimeout, "timed out"), protocol.Uncertain},
		{"preempted", serviceError(409, machine.CodePreempted, "cancelled by release"), protocol.Uncertain},
		{"refusal without a code", serviceError(409, "", "ssh failed"), protocol.Uncertain},
		{"transport", serviceError(503, machine.CodeExecTransport, "channel lost"), protocol.Uncertain},
		{"cancelled", context.Canceled, protocol.Uncertain},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			g := b.staged(b.input())
			b.wire.onExec = func(argv []string, next func() (machine.ExecResult, error)) (machine.ExecResult, error) {
				if slices.Contains(argv, protocol.VerbInvoke) {
					return machine.ExecResult{}, test.err
				}
				return next()
			}
			value, result := b.run(g, shell("true"))
			if value.Outcome.Kind != test.want || !result.Failed {
				t.Errorf("outcome %+v, want %s", value.Outcome, test.want)
			}
			if n := b.wire.dispatches(); n != 1 {
				t.Errorf("%d dispatches, want one", n)
			}
		})
	}
}

var netDial = dialError{}

// dialError is what a client sees when nobody listens.
type dialError struct{}

func (*dialError) Error() string { return "connection refused" }
func (*dialError) Is(target error) bool {
	return target == machine.ErrNotSent || target == error(syscall.ECONNREFUSED)
}

// 6.1: a push that fails before the dispatch proves that nothing ran.
func TestFailedPushRefusesTheRun(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.api.Fail("push", serviceError(409, machine.CodePathRefused, "no such place"))
	value, result := b.run(g, shell("true"))
	if value.Outcome.Kind != protocol.Refused || value.Outcome.Reason != protocol.ReasonHost || !result.Failed {
		t.Errorf("outcome %+v, want refused by the host", value.Outcome)
	}
	if n := b.wire.dispatches(); n != 0 {
		t.Errorf("%d dispatches, want none", n)
	}
	if v := b.hostVerdict(g, value.ExecutionID); v.Outcome.Kind != protocol.Refused {
		t.Errorf("host verdict %+v", v)
	}
}

// T108, T19, 2.6: what is refused before an execution id exists leaves no trace in the evidence.
func TestRefusedScriptLeavesNoTrace(t *testing.T) {
	b := newBench(t)
	b.write("s.sh", "true")
	g := b.staged(b.input())
	code, tooMuch, zero := "true", strings.Repeat("x", protocol.MaxInlineCode+1), int64(0)
	for _, test := range []struct {
		name string
		in   Script
		want string
	}{
		{"language", Script{Language: "perl", Inline: true, Code: &code}, "language"},
		{"both", Script{Language: "shell", Inline: true, Code: &code, LocalPath: "s.sh"}, "inline"},
		{"neither", Script{Language: "shell", Inline: true}, "inline"},
		{"code for a file", Script{Language: "shell", Code: &code}, "inline"},
		{"too much", Script{Language: "shell", Inline: true, Code: &tooMuch}, "project file"},
		{"no time", Script{Language: "shell", Inline: true, Code: &code, TimeoutMs: &zero}, "timeoutMs"},
		{"blank reason", Script{Language: "shell", Inline: true, Code: &code, Reason: " \n"}, "blank"},
		{"long reason", Script{Language: "shell", Inline: true, Code: &code, Reason: strings.Repeat("r", 4001)}, "4000"},
		{"step id", Script{Language: "shell", Inline: true, Code: &code, Step: &ScriptStep{ID: "-x"}}, "step id"},
		{"diagnostic python", Script{Language: "python", Inline: true, Code: &code, Diagnostic: true}, "shell"},
		{"diagnostic group", Script{Language: "shell", Inline: true, Code: &code, Diagnostic: true, Snapshots: &ScriptSnapshots{Group: &ScriptGroup{GroupID: "g", Phase: "first"}}}, "group"},
		{"outside", Script{Language: "shell", LocalPath: "../s.sh"}, "outside"},
		{"missing", Script{Language: "shell", LocalPath: "t.sh"}, "no t.sh"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := g.Script(t.Context(), test.in)
			wantRefused(t, err, test.want)
		})
	}
	b.empty(g.rec().host("host", "requests"))
	b.empty(g.rec().host("host", "diagnostics"))
	b.empty(g.temp())
	if g.Status().LastError != "" || b.wire.dispatches() != 0 || g.rec().RunSeq != 0 {
		t.Errorf("status %+v after refusals only", g.Status())
	}
	unstaged := b.acquire(b.input())
	_, err := unstaged.Script(t.Context(), shell("true"))
	wantRefused(t, err, "relay_stage")
}

// T107, 6.2: every field is derived on its own.
func TestDerivedRecord(t *testing.T) {
	code, wait := "\n  # x\nls", int64(7)
	inline := Script{Language: "shell", Inline: true, Code: &code}
	for _, test := range []struct {
		name string
		in   Script
		want protocol.Step
	}{
		{"first line that is not blank", inline, protocol.Step{ID: "shell-3", Title: "shell # x", Expected: "Exits with status 0", InputMode: "ordinary"}},
		{"other language", Script{Language: "python", Inline: true, Code: &code}, protocol.Step{ID: "python-3", Title: "code (python)", Expected: "Exits with status 0", InputMode: "ordinary"}},
		{"file", Script{Language: "shell", LocalPath: "a/my run!.sh"}, protocol.Step{ID: "my-run--3", Title: "script my run!.sh", Expected: "Exits with status 0", InputMode: "ordinary"}},
		{"only a title", Script{Language: "shell", Inline: true, Code: &code, Step: &ScriptStep{Title: "T"}}, protocol.Step{ID: "shell-3", Title: "T", Expected: "Exits with status 0", InputMode: "ordinary"}},
		{"own id", Script{Language: "shell", Inline: true, Code: &code, Step: &ScriptStep{ID: "login", InputMode: "accessibility"}}, protocol.Step{ID: "login", Title: "shell # x", Expected: "Exits with status 0", InputMode: "accessibility"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := deriveStep(test.in, 3); got != test.want {
				t.Errorf("step %+v, want %+v", got, test.want)
			}
		})
	}
	x11 := protocol.Snapshots{Capture: protocol.CaptureX11}
	for _, test := range []struct {
		name string
		in   *ScriptSnapshots
		want int64
	}{
		{"default", nil, 500},
		{"explicit", &ScriptSnapshots{AfterIntervalMs: &wait}, 7},
		{"first", &ScriptSnapshots{Group: &ScriptGroup{GroupID: "g", Phase: "first"}}, 0},
		{"member", &ScriptSnapshots{Group: &ScriptGroup{GroupID: "g", Phase: "member"}}, 0},
		{"last", &ScriptSnapshots{Group: &ScriptGroup{GroupID: "g", Phase: "last"}}, 500},
		{"last with its own", &ScriptSnapshots{Group: &ScriptGroup{GroupID: "g", Phase: "last", AfterIntervalMs: &wait}}, 7},
		{"last with the outer", &ScriptSnapshots{AfterIntervalMs: &wait, Group: &ScriptGroup{GroupID: "g", Phase: "last"}}, 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := waitOf(derivePlan(x11, test.in)); got != test.want {
				t.Errorf("wait %d, want %d", got, test.want)
			}
		})
	}
}

// 13, T67: a host that died between dispatch and receipt finds the submission pending, sends nothing again, and goes on.
func TestRestartNeverSendsAPendingSubmission(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	var died string
	b.wire.onExec = func(argv []string, next func() (machine.ExecResult, error)) (machine.ExecResult, error) {
		if at := slices.Index(argv, protocol.VerbInvoke); at >= 0 && died == "" {
			died = strings.TrimSuffix(filepath.Base(argv[at+2]), ".json")
			if err := g.Close(); err != nil { // from here this process changes nothing any more
				t.Error(err)
			}
			return machine.ExecResult{}, errors.New("the process died here")
		}
		return next()
	}
	before := b.read(filepath.Join(g.dir, recordFile))
	_, _ = g.Script(t.Context(), shell("true"))
	// What a dead process could not have written any more:
	if err := errors.Join(os.Remove(g.rec().host("host", "receipts", died+".json")), writePending(g, died)); err != nil {
		t.Fatal(err)
	}

	again, err := b.newSession().Open(t.Context(), g.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again.Status().LastError != "" || !again.rec().Staged || again.rec().RunSeq != 1 {
		t.Errorf("status %+v, run counter %d; want the recording attached", again.Status(), again.rec().RunSeq)
	}
	if n := b.wire.dispatches(); n != 1 {
		t.Errorf("%d dispatches after the restart, want the one from before", n)
	}
	b.played(func(req protocol.Request) (any, protocol.Ack) {
		return completed(req, 0), protocol.Ack{Outcome: protocol.Completed}
	})
	value, _ := b.run(again, shell("true"))
	if value.Outcome.Kind != protocol.Completed || value.Step.ID != "shell-2" || value.ExecutionID == died {
		t.Errorf("next run %+v, want a new completed one with the next step id", value)
	}
	if s := b.submissionOf(again, died); s.State != statePending {
		t.Errorf("old submission %+v, want it pending for ever", s)
	}
	if before == "" {
		t.Error("no record")
	}
}

func writePending(g *Guest, id string) error {
	var s submission
	path := g.rec().submissionPath(g.rec().SessionID, id)
	if err := readJSON(path, &s); err != nil {
		return err
	}
	s.State, s.Outcome = statePending, nil
	return evidence.WriteRecord(path, s)
}

// T124, T125, 6.9: a diagnostic moves no file, works before staging, and keeps request and receipt on the host.
func TestDiagnosticNeedsNoReceiver(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	in := shell("echo out; echo err >&2; pwd; exit 3")
	in.Diagnostic = true
	result, err := g.Script(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	value := result.Value.(DiagnosticResult)
	if !result.Failed || exitCode(value.Outcome) != 3 || !strings.Contains(value.Output, "out\n") || !strings.Contains(value.Output, "err\n") {
		t.Errorf("result %+v, want exit 3 and both streams", value)
	}
	if b.api.Calls("push")+b.api.Calls("pull") != 0 {
		t.Error("a file was moved")
	}
	for _, suffix := range []string{".request.json", ".receipt.json"} {
		var fact map[string]any
		b.decode(g.rec().host("host", "diagnostics", value.ExecutionID+suffix), &fact)
		if fact["evidenceMode"] != "diagnostic" || fact["executionId"] != value.ExecutionID {
			t.Errorf("%s: %v", suffix, fact)
		}
	}
	b.stage(g, StageInput{})
	in = shell("pwd")
	in.Diagnostic = true
	result, err = g.Script(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(result.Value.(DiagnosticResult).Output); got != g.rec().workspace() {
		t.Errorf("folder %q, want the workspace", got)
	}
	tooMuch := strings.Repeat("#", maxDiagnosticScript+1)
	_, err = g.Script(t.Context(), Script{Language: "shell", Inline: true, Code: &tooMuch, Diagnostic: true})
	wantRefused(t, err, "131072")
}
