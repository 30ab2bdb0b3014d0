package receiver

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

func TestIdleNamesTheRunInProgressAndWaitsForItsEnd(t *testing.T) {
	g := newGuest(t)
	look := func(wait string) protocol.Idle {
		t.Helper()
		got, err := ask[protocol.Idle](t, protocol.VerbIdle, g.path, wait)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := look("0"); got.Busy {
		t.Errorf("nothing ever ran, and it is %+v", got)
	}
	if _, err := os.Stat(g.join(lockDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("asking left a trace: %v", err)
	}

	req := g.push(protocol.Shell, "echo x >> ran; while [ ! -e go ]; do sleep 0.01; done", noSnapshots)
	cmd := g.process(req, "")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return g.count("ran") == 1 })
	if got, want := look("1"), (protocol.Idle{Busy: true, ExecutionID: req.ExecutionID}); got != want {
		t.Errorf("while it runs: %+v, want %+v", got, want)
	}
	answered := make(chan protocol.Idle)
	go func() {
		got, _ := idle(g.path, "60000")
		answered <- got
	}()
	g.write(g.join("workspace", "go"), "")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-answered:
		if got.Busy {
			t.Errorf("after its end: %+v", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no answer after the end of the run")
	}
	before := g.files("state")
	if got := look("0"); got.Busy {
		t.Errorf("later: %+v", got)
	}
	if diff := cmp.Diff(before, g.files("state")); diff != "" {
		t.Errorf("it left traces: %s", diff)
	}
	wantExit(t, g.shell("true"), 0) // the lock was given back
}

func TestIdleRefusesAWaitWithoutBound(t *testing.T) {
	for _, wait := range []string{"", "-1", "soon", "86400000"} {
		_, err := ask[protocol.Idle](t, protocol.VerbIdle, t.TempDir(), wait)
		wantCode(t, err, protocol.CodeInvalid)
	}
}
