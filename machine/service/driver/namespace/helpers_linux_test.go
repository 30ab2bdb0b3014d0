package namespace

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// lacking skips a test for want of something, or fails it where nothing may be skipped.
func lacking(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("MCP_RELAY_TEST_NO_SKIP") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func newDriver(t *testing.T, stateDir string) *hostDriver {
	t.Helper()
	return New(Options{StateDir: stateDir, Log: zerolog.New(zerolog.NewTestWriter(t))}).(*hostDriver)
}

func newSpec(t *testing.T, stateDir, name string) driver.Spec {
	t.Helper()
	folder := filepath.Join(stateDir, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return driver.Spec{Name: name, Image: imageHost, Folder: folder, Nonce: rand.Text(), Network: networkNAT,
		Until: time.Now().Add(5 * time.Minute), Grace: time.Minute}
}

// create makes a guest that ends with the test.
func create(t *testing.T, d *hostDriver, spec driver.Spec) (*guest, driver.Facts) {
	t.Helper()
	g, facts, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := g.Destroy(t.Context()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return g.(*guest), facts
}

func newTestGuest(t *testing.T) *guest {
	t.Helper()
	dir := t.TempDir()
	g, _ := create(t, newDriver(t, dir), newSpec(t, dir, uniqueName()))
	return g
}

func uniqueName() string { return "t-" + strings.ToLower(rand.Text()[:10]) }

const patience = time.Minute

func run(t *testing.T, g driver.Guest, argv ...string) (int, string) {
	t.Helper()
	code, out, err := g.Exec(t.Context(), argv, patience, 1<<20)
	if err != nil {
		t.Fatalf("Exec %q: %v (output %q)", argv, err, out)
	}
	return code, string(out)
}

func sh(t *testing.T, g driver.Guest, script string) string {
	t.Helper()
	code, out := run(t, g, "sh", "-c", script)
	if code != 0 {
		t.Fatalf("sh -c %q: status %d, output %q", script, code, out)
	}
	return out
}

// probe runs a function of probes inside the guest and returns what it found, by the name of each thing tried.
func probe(t *testing.T, g driver.Guest, name string, args ...string) map[string]string {
	t.Helper()
	const path = "/var/tmp/probe"
	if code, _ := run(t, g, "test", "-x", path); code != 0 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Push(t.Context(), self, path); err != nil {
			t.Fatalf("Push of the probe: %v", err)
		}
		sh(t, g, "chmod 755 "+path)
	}
	code, out := run(t, g, append([]string{path, probeArg, name}, args...)...)
	found := map[string]string{}
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != 0 {
		t.Fatalf("probe %s: status %d, %v: %s", name, code, err, out)
	}
	return found
}

// eventually waits for a condition of the kernel's that nothing announces.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not so after %s: %s", patience, what)
		}
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func countMounts(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// left says what the kernel and the folder still show of the guests of a driver.
func left(t *testing.T, d *hostDriver) []string {
	t.Helper()
	inits, err := findInits()
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, f := range inits {
		if f.mark == d.mark {
			found = append(found, fmt.Sprintf("init %d of %s", f.pid, f.name))
		}
	}
	for _, g := range findGroups() {
		if g.mark == d.mark {
			found = append(found, g.path)
		}
	}
	return found
}

func wantNothingLeft(t *testing.T, d *hostDriver) {
	t.Helper()
	if found := left(t, d); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}
