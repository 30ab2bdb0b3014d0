package main

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
)

// ordinaryUser is an id without an account: all it may do is what every user may.
const ordinaryUser = 23458

// users are the worlds in which the main job must work: as whoever runs the tests, and as an ordinary user where root runs them.
func users(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("as this user", func(t *testing.T) { t.Parallel(); f(t, newWorld(t)) })
	t.Run("as an ordinary user", func(t *testing.T) {
		t.Parallel()
		if os.Getuid() != 0 {
			t.Skip("the tests do not run as root: this user is the ordinary one")
		}
		f(t, newWorld(t).asUser(ordinaryUser))
	})
}

func tryOnce(t *testing.T, w *world) tryReport {
	t.Helper()
	out, words, code := w.run("try", "--json")
	var r tryReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, out, words)
	}
	return r
}

func TestTryDoesTheMainJobAndLeavesOnlyEvidence(t *testing.T) {
	t.Parallel()
	needMachines(t)
	users(t, func(t *testing.T, w *world) {
		r := tryOnce(t, w)
		if !r.OK || !r.Verified || r.Verdict != "passed" || r.Shots != "complete" {
			t.Errorf("got %+v", r)
		}
		for _, s := range r.Steps {
			if s.Status == "failed" || (s.Status == "left-out" && os.Getenv("MCP_RELAY_TEST_NO_SKIP") == "1") {
				t.Errorf("step %q: %s: %s", s.Name, s.Status, s.Detail)
			}
		}
		if out, _, code := w.run("verify", r.Package); code != 0 || !strings.Contains(out, "ok: ") {
			t.Errorf("verify: exit code %d: %s", code, out)
		}
		if left := w.remains(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestTwoTriesAtOnce(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	var wait sync.WaitGroup
	packages := make([]string, 2)
	for i := range packages {
		wait.Go(func() { packages[i] = tryOnce(t, w).Package })
	}
	wait.Wait()
	if packages[0] == packages[1] || packages[0] == "" {
		t.Errorf("got packages %q", packages)
	}
}
