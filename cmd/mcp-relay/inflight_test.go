package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inFlight starts a server that releases its guests at its end, and a script on one of them.
func (w *world) inFlight(grace time.Duration, sleep string) (*rawClient, <-chan rawAnswer) {
	w.t.Helper()
	w.set("MCP_RELAY_ON_EXIT", "release").set("MCP_RELAY_SHUTDOWN_GRACE_MS", fmt.Sprint(grace.Milliseconds()))
	c := w.rawConnect()
	got := c.must("relay_acquire", map[string]any{"task": "left", "image": "host", "extractions": []any{}, "ttlHours": 1})
	c.must("relay_stage", map[string]any{"guest": got["guest"]})
	return c, begin(w.t, c, got["guest"].(string), sleep)
}

// end closes the client's side and waits for the script's answer and the server's end.
func (c *rawClient) end(script <-chan rawAnswer) (a rawAnswer, code int, took time.Duration) {
	began := time.Now()
	c.in.Close()
	a = <-script
	_ = c.cmd.Wait()
	return a, c.cmd.ProcessState.ExitCode(), time.Since(began)
}

func (w *world) wantNoMachine(c *rawClient) {
	w.t.Helper()
	if out, _, code := w.run("machines", "list", "--json"); code != 0 || len(w.machineNames()) == 0 || strings.Contains(out, w.machineNames()[0]) {
		w.t.Errorf("the machine is not gone: %s\n%s", out, c.log)
	}
}

func TestAServerThatReleasesEndsInTimeThoughAScriptGoesOn(t *testing.T) {
	t.Parallel()
	needMachines(t)
	const grace = 2 * time.Second
	w := newWorld(t)
	sleep := sleepFor(600)
	c, script := w.inFlight(grace, sleep)
	a, code, took := c.end(script)
	if a.lost || !a.Result.IsError || !strings.Contains(a.text(), "uncertain") {
		t.Errorf("a run that was cut off must be answered as uncertain: %+v", a)
	}
	if code != 0 || took < grace || took > grace+10*time.Second {
		t.Errorf("exit code %d after %v\n%s", code, took, c.log)
	}
	if runningInGuest(sleep) {
		t.Error("the script still runs")
	}
	w.wantNoMachine(c)
	evidenceParses(t, w.evidenceOf("left"))
}

func TestAServerThatReleasesLetsAScriptEndWithinTheGraceAndKeepsItsEvidence(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	c, script := w.inFlight(time.Minute, sleepFor(2))
	a, code, took := c.end(script)
	if a.lost || a.Result.IsError {
		t.Errorf("the script: %+v", a)
	}
	if code != 0 || took > 50*time.Second {
		t.Errorf("exit code %d after %v\n%s", code, took, c.log)
	}
	w.wantNoMachine(c)
	if out, _, code := w.run("verify", w.evidenceOf("left")); code != 0 {
		t.Errorf("the package does not verify: %s", out)
	}
}

func TestAFinishAfterTheServiceDiedWaitsForTheScriptThatStillRuns(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	c := w.rawConnect()
	got := c.must("relay_acquire", map[string]any{"task": "still", "image": "host", "extractions": []any{}, "ttlHours": 1})
	guest := got["guest"].(string)
	c.must("relay_stage", map[string]any{"guest": guest})
	sleep := nap()
	script := begin(t, c, guest, sleep)
	w.killService()
	<-script
	if !runningInGuest(sleep) {
		t.Fatal("the script did not outlive the service")
	}
	c.must("relay_finish", map[string]any{"guest": guest})
	journal, err := os.ReadFile(filepath.Join(w.evidenceOf("still"), "state", "journal", "events.jsonl"))
	if err != nil || !strings.Contains(string(journal), `"execution-completion"`) {
		t.Errorf("the package does not tell how the script ended: %v\n%s", err, journal)
	}
}
