package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

func TestEffectOfSaysOnlyWhatIsKnown(t *testing.T) {
	notSent := fmt.Errorf("cannot reach machine-service: %w", machine.ErrNotSent)
	for _, test := range []struct {
		name string
		err  error
		want Effect
	}{
		{"plain", errors.New("no space left on device"), EffectUnknown},
		{"refusal", fmt.Errorf("cannot run: %w", Refuse("not staged")), EffectNone},
		{"unknown guest", &UnknownGuestError{Name: "a-1"}, EffectNone},
		{"held elsewhere", &HeldElsewhereError{Name: "a-1"}, EffectNone},
		{"not sent", notSent, EffectNone},
		{"no effect", &OperationError{Cause: NoEffect(errors.New("disk"))}, EffectNone},
		{"a refusal late in a repeatable call", Repeatable(Refuse("the file changed")), EffectRepeatable},
		{"the last request of a repeatable call was not sent", Repeatable(notSent), EffectRepeatable},
		{"the outermost mark wins", NoEffect(Repeatable(errors.New("x"))), EffectNone},
		{"the service refused the request", serviceError(409, machine.CodePathRefused, "no"), EffectNone},
		{"the service is leaving", serviceError(409, machine.CodeLeaving, "leaving"), EffectNone},
		{"the command was killed", serviceError(409, machine.CodeExecTimeout, "killed"), EffectUnknown},
		{"the machine is gone", serviceError(409, machine.CodeMachineGone, "gone"), EffectUnknown},
		{"the transfer failed", serviceError(409, machine.CodeTransferFailed, "disk"), EffectUnknown},
		{"a refusal without a code", serviceError(409, "", "ssh failed"), EffectUnknown},
		{"the service failed", serviceError(503, machine.CodeNotRunning, "odd"), EffectUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := EffectOf(test.err); got != test.want {
				t.Errorf("EffectOf(%v) = %d, want %d", test.err, got, test.want)
			}
		})
	}
	if NoEffect(nil) != nil || Repeatable(nil) != nil {
		t.Error("a mark makes an error of none")
	}
}

// A run that could not be recorded was never sent, and a folder that cannot be written stands for a full disk.
func TestUnrecordedRunHasNoEffect(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	block(t, g.rec().host("host", "requests"))
	_, err := g.Script(t.Context(), shell("true"))
	if EffectOf(err) != EffectNone || !strings.Contains(fmt.Sprint(err), "nothing ran") {
		t.Errorf("Script = %v with effect %d, want none", err, EffectOf(err))
	}
	if n := b.wire.dispatches(); n != 0 {
		t.Errorf("%d dispatches", n)
	}
	block(t, g.rec().host("host", "diagnostics"))
	in := shell("true")
	in.Diagnostic = true
	if _, err = g.Script(t.Context(), in); err == nil || EffectOf(err) != EffectNone {
		t.Errorf("diagnostic = %v with effect %d, want none", err, EffectOf(err))
	}
}

func TestUnrecordedAcquisitionHasNoEffect(t *testing.T) {
	b := newBench(t)
	block(t, b.session.guestDir("task-1"))
	g, err := b.session.Create(t.Context(), "task-1", b.input())
	if g != nil || err == nil || EffectOf(err) != EffectNone {
		t.Errorf("Create = %v with effect %d, want none", err, EffectOf(err))
	}
}

func TestExtractionOfNothingMayBeRepeated(t *testing.T) {
	b := newBench(t)
	in := b.input()
	in.Extractions = []Declaration{{Path: "out.txt", Name: "out"}}
	g := b.staged(in)
	_, err := g.Extract(t.Context(), ExtractInput{Names: []string{"out"}})
	if err == nil || EffectOf(err) != EffectRepeatable {
		t.Errorf("Extract = %v with effect %d, want repeatable", err, EffectOf(err))
	}
}

// block puts a file where a folder is needed.
func block(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.RemoveAll(path), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
}
