package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// settleLimit is within how long a lost acquisition is settled, the start of a new machine service included.
const settleLimit = 20 * time.Second

// loseAcquire begins an acquisition, kills the machine service when the moment has come, and answers the guests that are held then.
func (c *rawClient) loseAcquire(w *world, task string, moment func()) []string {
	c.t.Helper()
	c.must("relay_probe", map[string]any{}) // starts the service
	var pid int
	waitUntil(c.t, 30*time.Second, "the machine service is known by its record", func() bool {
		pid = w.servicePID()
		return pid != 0
	})
	answer := c.call("relay_acquire", map[string]any{"task": task, "image": "host", "extractions": []any{}, "ttlHours": 1})
	moment()
	if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
		c.t.Fatalf("the machine service could not be killed: %v", err)
	}
	if a := <-answer; a.lost {
		c.t.Fatalf("no answer\n%s", c.log)
	}
	var held []string
	guests, _ := c.must("relay_status", map[string]any{})["guests"].(map[string]any)
	for name := range guests {
		held = append(held, name)
	}
	return held
}

// reserved waits for the moment in which the service has written a lease down for the task, and not yet made its machine.
func (w *world) reserved(task string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "state", "machines", "state.json")
	for deadline := time.Now().Add(30 * time.Second); ; {
		state, _ := os.ReadFile(path)
		if strings.Contains(string(state), "relay-"+task+"-") {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no lease for %s was written down in %s", task, path)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// settle releases the guests that are held; nothing of them may be left then.
func (c *rawClient) settle(w *world, task string, held []string) {
	c.t.Helper()
	began := time.Now()
	for _, name := range held {
		c.must("relay_release", map[string]any{"guest": name})
	}
	if took := time.Since(began); took > settleLimit {
		c.t.Errorf("%v were settled after %v", held, took)
	}
	w.wantNoMachineFor(task)
}

// wantNoMachineFor asks the kernel's view of the host.
func (w *world) wantNoMachineFor(task string) {
	w.t.Helper()
	if out, errs, code := w.run("machines", "list", "--json"); code != 0 || strings.Contains(out, "relay-"+task+"-") {
		w.t.Errorf("exit code %d, want 0 and no machine for %s: %s%s", code, task, out, errs)
	}
}

// lostTask is a task that no other test on this host has at the same time.
func lostTask() string { return fmt.Sprintf("lost-%08x", rand.Uint32()) }

// The machine service is killed while it makes a machine: whatever it had done by then, the guest can be given up, its place is
// free again, and no machine is left.
func TestAnAcquisitionWhoseServiceIsKilledIsSettled(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	c := w.rawConnect()
	for _, ms := range []int{0, 5, 10, 20, 30, 45, 60, 80} {
		task := lostTask()
		held := c.loseAcquire(w, task, func() {
			time.Sleep(time.Duration(ms) * time.Millisecond) // the moment is the point of the test
		})
		c.settle(w, task, held)
	}
	task := lostTask()
	held := c.loseAcquire(w, task, func() { w.reserved(task) })
	if len(held) != 1 {
		t.Errorf("held: %v; want the guest whose acquisition is in doubt", held)
	}
	c.settle(w, task, held)
	got := c.must("relay_acquire", map[string]any{"task": "next", "image": "host", "extractions": []any{}, "ttlHours": 1})
	c.must("relay_release", map[string]any{"guest": got["guest"]})
}

// The server ends too: the next one of its session settles the guest at the first call on it, whatever that is.
func TestAnAcquisitionWhoseServiceIsKilledIsSettledAfterARestart(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t).set("MCP_RELAY_SESSION", "the same")
	c := w.rawConnect()
	task := lostTask()
	held := c.loseAcquire(w, task, func() { w.reserved(task) })
	if len(held) != 1 {
		t.Fatalf("held: %v; want the guest whose acquisition is in doubt", held)
	}
	kill(t, c)
	c = w.rawConnect()
	began := time.Now()
	a := <-c.call("relay_stage", map[string]any{"guest": held[0]})
	if took := time.Since(began); a.lost || !a.Result.IsError || !strings.Contains(a.text(), "acquire again") || took > settleLimit {
		t.Errorf("answered after %v: %+v\n%s", took, a, c.log)
	}
	if guests, _ := c.must("relay_status", map[string]any{})["guests"].(map[string]any); len(guests) != 0 {
		t.Errorf("held after it was settled: %v", guests)
	}
	w.wantNoMachineFor(task)
}
