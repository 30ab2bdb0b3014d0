package main

import "testing"

// A guest may be finished before anything was run on it: the package says so and verifies.
func TestFinishWithoutARun(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	c := w.connect()
	guest := c.acquire("idle")
	got := c.must("relay_finish", map[string]any{"guest": guest})
	if got["execution"] != "uncertain" || got["deliveryVerified"] != true {
		t.Errorf("got %v", got)
	}
	if out, _, code := w.run("verify", w.evidenceOf("idle")); code != 0 {
		t.Errorf("the package does not verify: %s", out)
	}
}
