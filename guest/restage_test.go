package guest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// replace puts a program in the place of the guest's runtime.
func (b *bench) replace(g *Guest, program string) {
	b.Helper()
	path := g.rec().guest(protocol.RuntimeName)
	if err := os.Remove(path); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(program), 0o755); err != nil {
		b.Fatal(err)
	}
}

// A repeated staging looks whether the runtime is the one that was pushed, and brings it back where it is not.
func TestRepeatedStageBringsTheRuntimeBack(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(b *bench, runtime string) error
		want  int // pushes
	}{
		{"untouched", func(*bench, string) error { return nil }, 0},
		{"removed", func(_ *bench, runtime string) error { return os.Remove(runtime) }, 1},
		{"replaced", func(_ *bench, runtime string) error {
			_ = os.Remove(runtime)
			return os.WriteFile(runtime, []byte("#!/bin/sh\necho hello\n"), 0o755)
		}, 1},
		{"another runtime", func(_ *bench, runtime string) error {
			_ = os.Remove(runtime)
			line := `#!/bin/sh` + "\n" + `echo 'relay-guest-answer: {"protocol":1,"sha256":"00"}'` + "\n"
			return os.WriteFile(runtime, []byte(line), 0o755)
		}, 1},
		{"a folder", func(_ *bench, runtime string) error {
			_ = os.Remove(runtime)
			return os.MkdirAll(filepath.Join(runtime, "deep"), 0o700)
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			g := b.staged(b.input())
			b.run(g, shell("echo kept > kept"))
			session, pushes := g.rec().SessionID, b.api.Calls("push")
			if err := test.spoil(b, g.rec().guest(protocol.RuntimeName)); err != nil {
				t.Fatal(err)
			}
			result := b.stage(g, StageInput{})
			if !result.Staged || result.Lost != "" || result.Runtime == nil || g.rec().SessionID != session {
				t.Errorf("result %+v, want staged with nothing lost", result)
			}
			if n := b.api.Calls("push") - pushes; n != test.want {
				t.Errorf("%d pushes, want %d", n, test.want)
			}
			if got := slices.Contains(b.kinds(), eventRuntimeRepaired); got != (test.want > 0) {
				t.Errorf("repair told: %v", got)
			}
			if value, _ := b.run(g, shell("cat kept")); value.Outcome.Kind != protocol.Completed || *value.Stdout != "kept\n" {
				t.Errorf("run after it: %+v", value)
			}
			if f := b.finish(g); !f.DeliveryVerified {
				t.Errorf("delivery %+v", f)
			}
		})
	}
}

// When all that the guest had is deleted, a repeated staging does not claim that it is staged: it says what is lost.
func TestRepeatedStageSaysWhatIsLost(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.run(g, shell("true"))
	if err := os.RemoveAll(g.rec().GuestRoot); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the loss of the recording does not pass by being told once
		result, err := g.Stage(t.Context(), StageInput{})
		if err != nil {
			t.Fatal(err)
		}
		value := result.Value.(StageResult)
		if !result.Failed || value.Staged || value.Runtime == nil || g.Status().LastError != value.Lost {
			t.Errorf("result %+v (failed %v), want one that is not staged", value, result.Failed)
		}
		for _, part := range []string{"relay_finish cannot bring the guest's journal", "host's copies", g.rec().HostRoot} {
			if !strings.Contains(value.Lost, part) {
				t.Errorf("lost %q, want %q in it", value.Lost, part)
			}
		}
	}
	if value, _ := b.run(g, shell("echo again")); value.Outcome.Kind != protocol.Completed {
		t.Errorf("run after it: %+v", value.Outcome)
	}
}

// Where nothing was recorded yet only the files are lost.
func TestRepeatedStageOfAnEmptiedGuestWithoutRuns(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	if err := os.RemoveAll(g.rec().GuestRoot); err != nil {
		t.Fatal(err)
	}
	result, err := g.Stage(t.Context(), StageInput{})
	if err != nil {
		t.Fatal(err)
	}
	if lost := result.Value.(StageResult).Lost; !strings.Contains(lost, "workspace") || strings.Contains(lost, "journal") {
		t.Errorf("lost %q, want the workspace only", lost)
	}
	if again := b.stage(g, StageInput{}); !again.Staged || again.Lost != "" {
		t.Errorf("second answer %+v, want staged: all is in place", again)
	}
}
