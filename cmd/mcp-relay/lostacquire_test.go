package main

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// The machine service is killed while it makes a machine: whatever it had done by then, the guest can be given up, its place is
// free again, and no machine is left.
func TestAnAcquisitionWhoseServiceIsKilledIsSettled(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	c := w.rawConnect()
	for round, delay := range []time.Duration{0, 5 * time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond, 60 * time.Millisecond} {
		c.must("relay_probe", map[string]any{}) // starts the service
		task := fmt.Sprintf("lost-%d", round)
		answer := c.call("relay_acquire", map[string]any{"task": task, "image": "host", "extractions": []any{}, "ttlHours": 1})
		time.Sleep(delay) // the moment is the point of the test
		if p, err := os.FindProcess(w.servicePID()); err != nil || p.Kill() != nil {
			t.Fatalf("the machine service could not be killed: %v", err)
		}
		if a := <-answer; a.lost {
			t.Fatalf("no answer\n%s", c.log)
		}
		status := c.must("relay_status", map[string]any{})
		held, _ := status["guests"].(map[string]any)
		for name := range held {
			c.must("relay_release", map[string]any{"guest": name})
		}
	}
	got := c.must("relay_acquire", map[string]any{"task": "after", "image": "host", "extractions": []any{}, "ttlHours": 1})
	c.must("relay_release", map[string]any{"guest": got["guest"]})
}
