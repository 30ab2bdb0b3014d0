package guest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	saved "github.com/seed-1e4c9d81/mcp-relay/evidence/image"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// desktop starts an X server that the fake's commands see as their display.
func desktop(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("Xvfb")
	if err != nil {
		if os.Getenv("MCP_RELAY_TEST_NO_SKIP") == "1" {
			t.Fatal("Xvfb is missing: install xvfb")
		}
		t.Skip("Xvfb is missing: install xvfb")
	}
	for range 10 {
		display := fmt.Sprintf(":%d", 1000+rand.IntN(50_000)) // a number of our own, which the server locks
		if startDisplay(t, path, display) {
			t.Setenv("DISPLAY", display)
			return
		}
	}
	t.Fatal("no X server starts")
}

func startDisplay(t *testing.T, path, display string) bool {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	server := exec.Command(path, display, "-displayfd", "3", "-screen", "0", "320x200x24", "-nolisten", "tcp", "-noreset")
	server.ExtraFiles = []*os.File{write}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() {
		_ = server.Process.Signal(unix.SIGTERM) // it removes its socket and lock
		_ = server.Wait()
	})
	_, err = bufio.NewReader(read).ReadString('\n') // ready, or gone
	return err == nil
}

// T106, T119, T140 with a real display and the real receiver: runs are bracketed by pictures, a group by one pair, every picture can be
// seen by the name that its run gave it, and the package holds them all.
func TestRunsOnADesktopAreBracketedByPictures(t *testing.T) {
	desktop(t)
	b := newBench(t)
	b.capturing()
	g := b.staged(b.input())
	none := int64(0)
	group := func(phase string) Script {
		in := shell("echo " + phase)
		in.Snapshots = &ScriptSnapshots{Group: &ScriptGroup{GroupID: "typing", Phase: phase}}
		if phase == "last" {
			in.Snapshots.Group.AfterIntervalMs = &none
		}
		return in
	}
	single := shell("echo hello")
	single.Snapshots = &ScriptSnapshots{AfterIntervalMs: &none}
	for _, test := range []struct {
		name     string
		in       Script
		pictures int
		want     string
	}{
		{"single", single, 2, saved.Pending},
		{"first", group("first"), 1, saved.NotRequested},
		{"member", group("member"), 0, saved.NotRequested},
		{"last", group("last"), 1, saved.Pending},
	} {
		value, run := b.run(g, test.in)
		if value.Outcome.Kind != protocol.Completed || run.Failed || run.Delivery.Status != test.want {
			t.Fatalf("%s: outcome %+v, delivery %+v; want completed, %s", test.name, value.Outcome, run.Delivery, test.want)
		}
		if n := len(value.ImageEvidence.Snapshots); n != test.pictures {
			t.Errorf("%s: %d pictures, want %d", test.name, n, test.pictures)
		}
		if test.want != saved.Pending {
			continue
		}
		got, err := g.Image(t.Context(), ImageInput{Target: ImageTarget{Source: "reference", ImageID: imageID(t, run.Delivery)}})
		if err != nil || got.Delivery.Status != saved.Attached || len(got.Image) == 0 {
			t.Errorf("%s: picture %s (%s), %v; want attached", test.name, got.Delivery.Status, got.Delivery.Diagnostic, err)
		}
	}
	result := b.finish(g)
	if result.Snapshots != evidence.Complete || result.Execution != evidence.Passed {
		t.Errorf("verdicts %s, %s: %v; want complete and passed", result.Snapshots, result.Execution, result.Findings)
	}
}

// T118, D15: without its display a run is refused before anything ran.
func TestRunWithoutItsDisplayIsRefused(t *testing.T) {
	t.Setenv("DISPLAY", ":65000")
	b := newBench(t)
	b.capturing()
	g := b.staged(b.input())
	value, run := b.run(g, shell("touch ran"))
	if value.Outcome.Kind != protocol.Refused || value.Outcome.Reason != protocol.ReasonCapture || !run.Failed {
		t.Errorf("outcome %+v, want refused for want of its picture", value.Outcome)
	}
	if exists(g.rec().workspace() + "/ran") {
		t.Error("the script ran")
	}
}
