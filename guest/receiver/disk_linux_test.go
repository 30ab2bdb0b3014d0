package receiver

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// smallDisk mounts a file system of size as the guest's root. Where that is not allowed the test goes on in namespaces of
// its own, where it is.
func smallDisk(t *testing.T, size string) *guestRoot {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	if err != nil && os.Getenv("RELAY_TEST_IN_NAMESPACE") == "" {
		inNamespace(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	g := &guestRoot{t: t, path: dir}
	for _, name := range []string{"requests", "scripts", "workspace", "state"} {
		if err := os.Mkdir(g.join(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// inNamespace runs this test again as root of its own user and mount namespace, and ends it here.
func inNamespace(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "RELAY_TEST_IN_NAMESPACE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Skipf("neither mounts nor user namespaces are allowed here: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.SkipNow() // it passed there
}

// A disk that is full before the dispatch refuses: nothing has run that could not be recorded.
func TestFullDiskRefusesBeforeTheDispatch(t *testing.T) {
	g := smallDisk(t, "3m")
	receipt := g.shell("echo x >> ran")
	want(t, receipt, protocol.Refused, protocol.ReasonStorage)
	if g.count("ran") != 0 {
		t.Error("it ran")
	}
	for _, part := range []string{"no space left", "nothing was run", "relay_script with diagnostic: true"} {
		if !strings.Contains(receipt.Outcome.Diagnostic, part) {
			t.Errorf("diagnostic is %q, want %q in it", receipt.Outcome.Diagnostic, part)
		}
	}
	if err := unix.Mount("", g.path, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.shell("echo x >> ran"), 0)
}

// A script that fills the disk is still recorded whole: the room for it was taken before.
func TestScriptThatFillsTheDiskIsRecorded(t *testing.T) {
	g := smallDisk(t, "16m")
	receipt := g.shell("echo before; dd if=/dev/zero of=fill bs=64k 2>/dev/null; echo after; exit 9")
	wantExit(t, receipt, 9)
	if *receipt.Stdout != "before\nafter\n" {
		t.Errorf("stdout is %q", *receipt.Stdout)
	}
	// The picture after it found no room, or did; the record says which.
	if s := receipt.ImageEvidence.Status; s != protocol.ImageAvailable && s != protocol.ImageCaptureFailed {
		t.Errorf("image status is %s", s)
	}
	if err := os.Remove(g.join("workspace", "fill")); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.shell("true"), 0)
}

// When even the reserve is gone by the time of the record, the run is uncertain, its output is kept as far as the disk lets
// it, and it is never run again.
func TestRecordThatCannotBeWrittenMakesTheRunUncertain(t *testing.T) {
	g := smallDisk(t, "16m")
	req := g.push(protocol.Shell, "echo x >> ran; echo kept")
	fill := func(at string) {
		if at != pointEnded {
			return
		}
		if err := os.Remove(g.join(lockDir, "reserve")); err != nil {
			t.Error(err)
		}
		f, err := os.Create(g.join("workspace", "fill"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}
	receipt := g.run(req, Options{Capturer: &fakeCapturer{}, Hook: fill})
	want(t, receipt, protocol.Uncertain, "")
	if *receipt.Stdout != "kept\n" || !strings.Contains(receipt.Outcome.Diagnostic, "evidence") && !strings.Contains(receipt.Outcome.Diagnostic, "room") {
		t.Errorf("receipt is %s", asJSON(t, receipt))
	}
	if err := os.Remove(g.join("workspace", "fill")); err != nil {
		t.Fatal(err)
	}
	want(t, g.run(req, Options{Capturer: &fakeCapturer{}}), protocol.Uncertain, "")
	wantExit(t, g.shell("true"), 0)
	want(t, g.run(req, Options{Capturer: &fakeCapturer{}}), protocol.Uncertain, "")
	if n := g.count("ran"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	// The journal closes the run late, with the answer that stands.
	final, told := g.run(req, Options{}), ""
	for _, e := range g.journal() {
		if e.Kind == "execution-completion" && e.ExecutionID == req.ExecutionID {
			told = e.Response.Outcome.Diagnostic
		}
	}
	if told == "" || told != final.Outcome.Diagnostic {
		t.Errorf("the journal says %q, the receipt %q", told, final.Outcome.Diagnostic)
	}
}
