package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Staging pushes the runtime, support files and the workspace, and proves each by its hash in the guest.
func TestStagePushesAndProves(t *testing.T) {
	b := newBench(t)
	b.write("tools/helper.sh", "echo help\n")
	b.write("site/index.html", "<p>hello</p>")
	b.write("site/deep/er/a.txt", "a")
	g := b.acquire(b.input())
	result := b.stage(g, StageInput{Workspace: "site", Files: []StageFile{{Local: "tools/helper.sh", Path: "bin/helper.sh"}}})
	if !result.Staged || result.Snapshots.Taken || result.Snapshots.Reason == "" {
		t.Errorf("result %+v, want staged, without snapshots and the reason", result)
	}
	for rel, want := range map[string]string{"support/bin/helper.sh": "echo help\n", "workspace/index.html": "<p>hello</p>", "workspace/deep/er/a.txt": "a"} {
		if got := b.read(g.rec().guest(rel)); got != want {
			t.Errorf("%s = %q, want %q", rel, got, want)
		}
	}
	if len(result.Files) != 3 || result.Runtime == nil || result.Runtime.Protocol != protocol.Version {
		t.Errorf("files %v, runtime %v", result.Files, result.Runtime)
	}
	var record recordingRecord
	b.decode(g.rec().recordingPath(g.rec().SessionID), &record)
	if record.State != stateActive || record.TaskID != g.rec().Purpose {
		t.Errorf("recording %+v", record)
	}
	b.empty(g.temp())
}

// T102, 4.5: nothing outside the project, through a symlink, or that is no regular file is read.
func TestStageReadsOnlyRealProjectFiles(t *testing.T) {
	b := newBench(t)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.write("ok.txt", "ok")
	b.write("real/file", "x")
	b.write("tree/a", "a")
	for from, to := range map[string]string{
		outside: "link", "ok.txt": "inner", filepath.Join(b.opt.Project, "real"): "linkdir", filepath.Dir(outside): "tree/out",
	} {
		if err := os.Symlink(from, filepath.Join(b.opt.Project, to)); err != nil {
			t.Fatal(err)
		}
	}
	g := b.acquire(b.input())
	pushed := b.api.Calls("push")
	for _, test := range []struct {
		name string
		in   StageInput
		want string
	}{
		{"absolute outside", StageInput{Files: []StageFile{{outside, "s"}}}, "outside the project"},
		{"traversal", StageInput{Files: []StageFile{{"../secret", "s"}}}, "outside the project"},
		{"symlink out", StageInput{Files: []StageFile{{"link", "s"}}}, "symlink"},
		{"symlink in", StageInput{Files: []StageFile{{"inner", "s"}}}, "symlink"},
		{"through a symlink", StageInput{Files: []StageFile{{"linkdir/file", "s"}}}, "symlink"},
		{"folder as file", StageInput{Files: []StageFile{{"real", "s"}}}, "not a regular file"},
		{"file as workspace", StageInput{Workspace: "ok.txt"}, "not a folder"},
		{"symlink in workspace", StageInput{Workspace: "tree"}, "symlink"},
		{"missing", StageInput{Workspace: "nowhere"}, "no nowhere"},
		{"NUL", StageInput{Workspace: "a\x00b"}, "cannot be used"},
		{"destination up", StageInput{Files: []StageFile{{"ok.txt", "../s"}}}, "destination"},
		{"destination absolute", StageInput{Files: []StageFile{{"ok.txt", "/s"}}}, "destination"},
		{"destination twice", StageInput{Files: []StageFile{{"ok.txt", "s"}, {"real/file", "s"}}}, "same destination"},
		{"reset", StageInput{ResetRecording: true}, "not available yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := g.Stage(t.Context(), test.in)
			wantRefused(t, err, test.want)
			if strings.Contains(err.Error(), "secret\n") {
				t.Error("a file's content is in the error")
			}
		})
	}
	if b.api.Calls("push") != pushed || g.rec().Staged {
		t.Error("something was pushed")
	}
	// T101: a corrected request works, with an absolute path inside the project too.
	b.stage(g, StageInput{Files: []StageFile{{filepath.Join(b.opt.Project, "ok.txt"), "s"}}})
}

// T103: the bounds are of the whole request.
func TestStageBoundsTheWholeRequest(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"half", "more"} {
		path := b.write(name, "")
		if err := os.Truncate(path, maxStageBytes/2+1); err != nil {
			t.Fatal(err)
		}
	}
	g := b.acquire(b.input())
	_, err := g.Stage(t.Context(), StageInput{Files: []StageFile{{"half", "a"}, {"more", "b"}}})
	wantRefused(t, err, "512 MiB")
	many := make([]StageFile, maxStageFiles+1)
	for i := range many {
		many[i] = StageFile{Local: "half", Path: strings.Repeat("x", i%200+1) + "/" + newUUID()}
	}
	_, err = g.Stage(t.Context(), StageInput{Files: many})
	wantRefused(t, err, "10000 files")
}

// T100: a failed push leaves a guest that can be staged again; the same transfer is tried three times where that may help.
func TestFailedStageCanBeRepeated(t *testing.T) {
	b := newBench(t)
	b.write("a.txt", "a")
	g := b.acquire(b.input())
	in := StageInput{Files: []StageFile{{"a.txt", "a.txt"}}}
	b.wire.onPush = func(_, remote string, next func() error) error {
		if strings.HasSuffix(remote, "a.txt") {
			return serviceError(409, machine.CodeTransferFailed, "no")
		}
		return next()
	}
	if _, err := g.Stage(t.Context(), in); err == nil || g.rec().Staged || g.Gone() {
		t.Fatalf("error %v, staged %v; want an error on a guest that is kept", err, g.rec().Staged)
	}
	times := 0
	b.wire.onPush = func(_, remote string, next func() error) error {
		if strings.HasSuffix(remote, "a.txt") {
			if times++; times < 3 {
				return errors.New("connection reset")
			}
		}
		return next()
	}
	b.stage(g, in)
	if times != 3 {
		t.Errorf("%d attempts, want 3", times)
	}
	retries := 0
	for _, kind := range b.kinds() {
		if kind == eventTransferRetry {
			retries++
		}
	}
	if retries != 2 {
		t.Errorf("%d retry events, want 2", retries)
	}
}

// T104: what arrives other than it was sent fails the staging.
func TestStageNoticesOtherBytes(t *testing.T) {
	b := newBench(t)
	b.write("a.txt", "a")
	g := b.acquire(b.input())
	b.wire.onPush = func(_, remote string, next func() error) error {
		err := next()
		if strings.HasSuffix(remote, "a.txt") {
			err = errors.Join(err, os.WriteFile(remote, []byte("b"), 0o600))
		}
		return err
	}
	_, err := g.Stage(t.Context(), StageInput{Files: []StageFile{{"a.txt", "a.txt"}}})
	wantError(t, err, "checksum mismatch")
	b.wire.onPush = func(_, remote string, next func() error) error {
		if strings.HasSuffix(remote, "a.txt") {
			b.write("a.txt", "changed meanwhile")
		}
		return next()
	}
	_, err = g.Stage(t.Context(), StageInput{Files: []StageFile{{"a.txt", "a.txt"}}})
	wantError(t, err, "changed while it was staged")
	if g.rec().Staged {
		t.Error("the guest is staged")
	}
}

// D16: without the catalogue's answer there is no staging, and never a silent recording without evidence.
func TestStageNeedsTheCatalogue(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	b.api.Fail("applications", serviceError(503, machine.CodeCatalogue, "no inventory"))
	_, err := g.Stage(t.Context(), StageInput{})
	wantError(t, err, "captured")
	if g.rec().Staged {
		t.Error("the guest is staged")
	}
	b.stage(g, StageInput{})
}

// D17: the catalogue decides how runs are captured.
func TestCapturePlanComesFromTheCatalogue(t *testing.T) {
	for _, test := range []struct {
		name   string
		ids    []string
		driver string
		want   protocol.Snapshots
	}{
		{"none", []string{"firefox"}, "", protocol.Snapshots{Capture: protocol.CaptureNone, Reason: "the image lists no capture software"}},
		{"ours", []string{machine.CaptureX11}, "", protocol.Snapshots{Capture: protocol.CaptureX11}},
		{"ours first", []string{machine.CaptureCuaLinux, machine.CaptureX11}, "", protocol.Snapshots{Capture: protocol.CaptureX11}},
		{"linux driver", []string{machine.CaptureCuaLinux}, "", protocol.Snapshots{Capture: protocol.CaptureCuaDriver, Driver: "cua-driver"}},
		{"mac driver", []string{machine.CaptureCuaMac}, "", protocol.Snapshots{Capture: protocol.CaptureCuaDriver, Driver: cuaDriverMac}},
		{"corrected driver", []string{machine.CaptureCuaMac}, "/opt/cua", protocol.Snapshots{Capture: protocol.CaptureCuaDriver, Driver: "/opt/cua"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var inventory machine.ImageInventory
			for _, id := range test.ids {
				inventory.Applications = append(inventory.Applications, machine.Application{ID: id, Name: id})
			}
			if got := capturePlan(inventory, test.driver); got != test.want {
				t.Errorf("plan %+v, want %+v", got, test.want)
			}
		})
	}
}

// T105: a staged guest takes corrected paths only, and nothing is pushed again.
func TestStagedGuestTakesOnlyCorrectedPaths(t *testing.T) {
	b := newBench(t)
	b.write("a.txt", "a")
	g := b.staged(b.input())
	session, pushes := g.rec().SessionID, b.api.Calls("push")
	_, err := g.Stage(t.Context(), StageInput{Files: []StageFile{{"a.txt", "a.txt"}}})
	wantRefused(t, err, "staged already")
	_, err = g.Stage(t.Context(), StageInput{NodePath: "relative/node"})
	wantRefused(t, err, "nodePath")
	_, err = g.Stage(t.Context(), StageInput{NodePath: "/nonexistent/node"})
	wantError(t, err, "nodePath")
	node := filepath.Join(b.opt.GuestBase, "node")
	if err := os.WriteFile(node, []byte("#!/bin/sh\necho v99\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.stage(g, StageInput{NodePath: node})
	if g.rec().Node != node || g.rec().SessionID != session || b.api.Calls("push") != pushes {
		t.Errorf("node %q, recording %q, %d pushes; want the new node and nothing else changed", g.rec().Node, g.rec().SessionID, b.api.Calls("push")-pushes)
	}
}
