package receiver

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// seal makes a package of a guest's state and answers the verdicts of its verification.
func (g *guestRoot) seal() evidence.Report {
	g.t.Helper()
	dir := g.t.TempDir()
	if out, err := exec.Command("cp", "-a", g.join("state"), dir).CombinedOutput(); err != nil {
		g.t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(dir+"/host/requests", 0o700); err != nil {
		g.t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", `cp "$1"/requests/*.json "$2"/host/requests/`, "sh", g.path, dir).CombinedOutput(); err != nil {
		g.t.Fatalf("%v: %s", err, out)
	}
	id := evidence.Identity{PackageID: "pkg-relay-demo-1a2b3c4d", SessionID: "session-A", TaskID: "relay-demo-1a2b3c4d"}
	if _, err := evidence.Seal(g.t.Context(), dir, id, time.Now()); err != nil {
		g.t.Fatal(err)
	}
	report, err := evidence.Verify(g.t.Context(), dir)
	if err != nil || !report.OK {
		g.t.Fatalf("%+v %v", report, err)
	}
	return report
}

// What the receiver writes is what sealing and verification read: every kind of run leaves a package that verifies, with
// the verdicts it deserves.
func TestRecordingsSealAndVerify(t *testing.T) {
	for _, row := range []struct {
		name      string
		record    func(g *guestRoot)
		snapshots string
		execution string
	}{
		{"a good run", func(g *guestRoot) { g.shell("echo ok") }, "complete", "passed"},
		{"a run without capture", func(g *guestRoot) { g.shell("echo ok", noSnapshots) }, "complete", "passed"},
		{"a failed run", func(g *guestRoot) { g.shell("exit 1") }, "complete", "failed"},
		{"a run killed by a signal", func(g *guestRoot) { g.shell("kill -9 $$") }, "complete", "failed"},
		{"a refused run", func(g *guestRoot) { g.shell("true", func(r *protocol.Request) { r.Because = "" }) }, "complete", "failed"},
		{"a timeout", func(g *guestRoot) { g.shell("sleep 60", func(r *protocol.Request) { r.TimeoutMs = 50 }) }, "complete", "failed"},
		{"a flood", func(g *guestRoot) { g.shell("head -c 300000 /dev/zero") }, "complete", "passed"},
		{"a group", func(g *guestRoot) {
			for _, phase := range []string{"first", "member", "last"} {
				g.shell("true", group("g", phase))
			}
		}, "complete", "passed"},
		{"a missing after-picture", func(g *guestRoot) {
			g.run(g.push(protocol.Shell, "true"), Options{Capturer: &fakeCapturer{fail: map[int]error{2: errLens}}})
		}, "incomplete", "uncertain"},
		{"a leftover that holds its output", func(g *guestRoot) {
			g.shell("sleep 60 & echo $! > pid")
			killLater(g.t, g.pidIn("pid"))
		}, "complete", "passed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			row.record(g)
			if report := g.seal(); report.Snapshots != row.snapshots || report.Execution != row.execution {
				t.Errorf("verdicts are %s and %s, want %s and %s: %v", report.Snapshots, report.Execution, row.snapshots, row.execution, report.Findings)
			}
		})
	}
}

// A receiver that died at any point leaves a recording that still seals and verifies, before and after the next run closes
// its books.
func TestRecordingOfAKilledReceiverSealsAndVerifies(t *testing.T) {
	if testing.Short() {
		t.Skip("seals two packages for each point")
	}
	for _, point := range []string{pointRouted, pointBegun, pointIntended, pointPhotograph, pointCaptured, pointStarted, pointEnded,
		pointPhotograph + ":2", pointCaptured + ":2", pointCompleted, pointRetained, pointAnswered} {
		t.Run(point, func(t *testing.T) {
			g := newGuest(t)
			if err := g.process(g.push(protocol.Shell, "true"), point).Run(); err == nil {
				t.Fatal("the receiver did not die")
			}
			g.seal()
			wantExit(t, g.shell("true"), 0)
			g.seal()
		})
	}
}
