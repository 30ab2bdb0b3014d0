package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// service starts a machine service of this world in the foreground, as an operator would, and answers a client of it.
func (w *world) service(args ...string) *machine.Client {
	w.t.Helper()
	c := w.command(append([]string{"machines", "--listen", "127.0.0.1:0", "--state", filepath.Join(w.dir, "machines")}, args...)...)
	log := &lockedBuffer{}
	c.Stderr = log
	out, err := c.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatalf("the machine service did not start: %v\n%s", err, log)
	}
	client, err := machine.New(machine.Options{URL: strings.TrimSpace(line)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.set("MCP_RELAY_URL", client.Origin())
	w.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	return client
}

// nap is a command that takes its time.
func nap() string { return sleepFor(10) }

// sleepFor is a command that takes so many seconds, unlike any other on this machine.
func sleepFor(seconds int) string { return fmt.Sprintf("sleep %d.%09d", seconds, rand.IntN(1e9)) }

// begin starts a script that says in the guest, once for each time it is run, that it began, and then naps. It returns when
// the nap has begun.
func begin(t *testing.T, c *rawClient, guest, nap string) <-chan rawAnswer {
	t.Helper()
	answer := c.call("relay_script", shell(guest, "echo begun >> count; "+nap))
	waitUntil(t, time.Minute, "the script runs", func() bool {
		select {
		case a := <-answer:
			t.Fatalf("the script ended early: %+v\n%s", a, c.log)
		default:
		}
		return runningInGuest(nap)
	})
	return answer
}

// runningInGuest looks from the host for a process of a guest.
func runningInGuest(command string) bool {
	self, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return false
	}
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		line, _ := os.ReadFile(path)
		ns, _ := os.Readlink(filepath.Join(filepath.Dir(path), "ns/pid"))
		if ns != self && strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")) == command {
			return true
		}
	}
	return false
}

// killService ends the background machine service of this world as a crash would.
func (w *world) killService() {
	w.t.Helper()
	pid := w.servicePID()
	if pid == 0 {
		w.t.Fatal("no machine service runs in the background")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
}

func kill(t *testing.T, c *rawClient) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
}

func TestAMachineGoesByItselfWhenItsServerIsKilled(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	service := w.service("--min-ttl", "1s", "--grace", "2s", "--reap-every", "200ms")
	w.set("MCP_RELAY_LEASE_WINDOW_MS", "4000")
	c := w.rawConnect()
	got := c.must("relay_acquire", map[string]any{"task": "left", "image": "host", "extractions": []any{}, "ttlHours": 1})
	c.must("relay_stage", map[string]any{"guest": got["guest"]})
	answer := begin(t, c, got["guest"].(string), nap())
	// The lease is renewed while the script runs: it is still there after more than a window and the grace.
	time.Sleep(7 * time.Second)
	if list, err := service.List(t.Context()); err != nil || len(list) != 1 {
		t.Fatalf("a renewed machine was not kept: %v, %v", list, err)
	}
	kill(t, c)
	if a := <-answer; !a.lost {
		t.Errorf("a killed server answered: %+v", a)
	}
	waitUntil(t, 20*time.Second, "the machine is gone within its window and grace", func() bool {
		list, err := service.List(t.Context())
		return err == nil && len(list) == 0
	})
	evidenceParses(t, w.evidenceOf("left"))
}

func TestARestartWithTheSameSessionTakesTheGuestBackAndRunsNothingAgain(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t).set("MCP_RELAY_SESSION", "the same")
	c := w.rawConnect()
	got := c.must("relay_acquire", map[string]any{"task": "back", "image": "host", "extractions": []any{}, "ttlHours": 1})
	guest := got["guest"].(string)
	c.must("relay_stage", map[string]any{"guest": guest})
	sleep := nap()
	begin(t, c, guest, sleep)
	kill(t, c)
	evidenceParses(t, w.evidenceOf("back"))

	again := w.rawConnect()
	status := again.must("relay_status", map[string]any{})
	held, _ := status["guests"].(map[string]any)
	if len(held) != 1 || held[guest] == nil {
		t.Fatalf("the guest is not shown after the restart: %v", status)
	}
	// The first script still runs in the guest, so a new one is refused or waits; it must end before the count is taken.
	waitUntil(t, time.Minute, "the first script has ended", func() bool { return !runningInGuest(sleep) })
	a := <-again.call("relay_script", shell(guest, "wc -l < count"))
	if a.Result.IsError {
		t.Fatalf("the guest does not work after the restart: %s\n%s", a.text(), again.log)
	}
	_, body, _ := strings.Cut(a.text(), "\n")
	var run struct{ Stdout string }
	if err := json.Unmarshal([]byte(body), &run); err != nil || strings.TrimSpace(run.Stdout) != "1" {
		t.Errorf("the script began %q times, want once (%v)", run.Stdout, err)
	}
	again.must("relay_finish", map[string]any{"guest": guest})
	if out, _, code := w.run("verify", w.evidenceOf("back")); code != 0 {
		t.Errorf("the package does not verify: %s", out)
	}
}

func TestARestartedServiceTakesItsMachinesOverAndNothingLeaks(t *testing.T) {
	t.Parallel()
	needMachines(t)
	users(t, func(t *testing.T, w *world) {
		c := w.rawConnect()
		got := c.must("relay_acquire", map[string]any{"task": "svc", "image": "host", "extractions": []any{}, "ttlHours": 1})
		guest := got["guest"].(string)
		c.must("relay_stage", map[string]any{"guest": guest})
		sleep := nap()
		answer := begin(t, c, guest, sleep)
		w.killService()
		if a := <-answer; a.lost || !a.Result.IsError || !strings.Contains(a.text(), "uncertain") {
			t.Errorf("a run whose service died must be answered as uncertain: %+v", a)
		}
		waitUntil(t, time.Minute, "the first script has ended", func() bool { return !runningInGuest(sleep) })
		a := <-c.call("relay_script", shell(guest, "wc -l < count"))
		if a.Result.IsError || !strings.Contains(a.text(), `"stdout": "1\n"`) {
			t.Errorf("after the service's restart: %s\n%s", a.text(), c.log)
		}
		c.must("relay_finish", map[string]any{"guest": guest})
		if out, _, code := w.run("verify", w.evidenceOf("svc")); code != 0 {
			t.Errorf("the package does not verify: %s", out)
		}
	})
}

// evidenceParses reads every record and every journal line that is there.
func evidenceParses(t *testing.T, dir string) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".json":
			count++
			if !json.Valid(b) {
				return errors.New(path + " does not parse")
			}
		case ".jsonl":
			for line := range strings.Lines(string(b)) {
				if !json.Valid([]byte(line)) {
					return errors.New(path + " has a line that does not parse")
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if count == 0 {
		t.Errorf("no evidence in %s", dir)
	}
}
