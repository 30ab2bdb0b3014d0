package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func source(vars map[string]string) Source {
	return Source{Cwd: "/srv/project", Home: "/home/dev", Lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }}
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	c, err := Load(source(nil))
	if err != nil || c.Lazy != nil {
		t.Fatal(err, c.Lazy)
	}
	c2, _ := Load(source(nil))
	if c.Session == "" || c.Session == c2.Session {
		t.Error("the session identity must be fresh for each process")
	}
	want := Config{Project: "/srv/project", Session: c.Session, URL: DefaultURL, Backend: "auto", Network: "nat", OnExit: "pause",
		CapacityWait: 30 * time.Minute, MaxGuests: 4, Grace: 2 * time.Minute, Window: 15 * time.Minute,
		StateDir: "/home/dev/.local/state/mcp-relay", RuntimeDir: "/home/dev/.local/state/mcp-relay/run", Port: 6240,
		Tart: "tart", TartHome: "/home/dev/.tart"}
	if got := c; got.Project != want.Project || got.URL != want.URL || got.Backend != want.Backend || got.Network != want.Network ||
		got.OnExit != want.OnExit || got.CapacityWait != want.CapacityWait || got.MaxGuests != want.MaxGuests || got.Grace != want.Grace ||
		got.Window != want.Window || got.StateDir != want.StateDir || got.RuntimeDir != want.RuntimeDir || got.Port != want.Port ||
		got.Tart != want.Tart || got.TartHome != want.TartHome || got.URLSet {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c.Minimum() != 6*time.Minute {
		t.Errorf("minimum renewal %v, want 6m", c.Minimum())
	}
}

// T42: each of these stops the server and names its variable.
func TestBadValuesStopTheServerWithTheVariablesName(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"MCP_RELAY_ON_EXIT", "destroy"}, {"MCP_RELAY_CAPACITY_WAIT", "-1"}, {"MCP_RELAY_CAPACITY_WAIT", "1.5"},
		{"MCP_RELAY_MAX_GUESTS", "0"}, {"MCP_RELAY_MAX_GUESTS", "many"}, {"MCP_RELAY_GUEST_NETWORK", "none"},
		{"MCP_RELAY_SHUTDOWN_GRACE_MS", ""}, {"MCP_RELAY_SESSION", " "}, {"MCP_RELAY_BACKEND", "cloud"},
		{"MCP_RELAY_URL", "http://example.com:6240"}, {"MCP_RELAY_URL", "http://localhost:6240/x"}, {"MCP_RELAY_URL", "ftp://localhost"},
		{"MCP_RELAY_URL", "http://127.0.0.1.example.com"}, {"MCP_RELAY_URL", "http://me@localhost"}, {"MCP_RELAY_PYTHON", ""},
		{"MCP_RELAY_GUEST_RUNTIMES", "relative"}, {"MCP_RELAY_MACHINES_PORT", "65536"}, {"MCP_RELAY_SHUTDOWN_GRACE_MS", "9223372036854775807"},
	} {
		_, err := Load(source(map[string]string{c.name: c.value}))
		var faults Faults
		if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Variable != c.name || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s=%q: got %v", c.name, c.value, err)
		}
	}
}

func TestEveryFaultIsReportedAtOnce(t *testing.T) {
	_, err := Load(source(map[string]string{"MCP_RELAY_ON_EXIT": "x", "MCP_RELAY_MAX_GUESTS": "x", "MCP_RELAY_URL": "x"}))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Errorf("got %v, want three faults", err)
	}
}

// T4: the project directory.
func TestProjectFallsBackToTheWorkingDirectory(t *testing.T) {
	for value, want := range map[string]string{"": "/srv/project", "${workspaceFolder}": "/srv/project", "sub": "/srv/project/sub", "/opt/x/": "/opt/x"} {
		c, err := Load(source(map[string]string{"MCP_RELAY_PROJECT": value}))
		if err != nil || c.Project != want {
			t.Errorf("%q: got %q, %v, want %q", value, c.Project, err, want)
		}
	}
}

// T189: precedence and faults of the state root; they are reported by the first call, not at the start.
func TestStateDirectory(t *testing.T) {
	for _, c := range []struct {
		name  string
		vars  map[string]string
		fault string
		want  string
	}{
		{"own variable first", map[string]string{"MCP_RELAY_STATE_DIR": "/a", "XDG_STATE_HOME": "/b"}, "", "/a"},
		{"then XDG", map[string]string{"XDG_STATE_HOME": "/b"}, "", "/b/mcp-relay"},
		{"relative", map[string]string{"MCP_RELAY_STATE_DIR": "a"}, "MCP_RELAY_STATE_DIR", ""},
		{"blank", map[string]string{"MCP_RELAY_STATE_DIR": ""}, "MCP_RELAY_STATE_DIR", ""},
		{"bad XDG is not skipped", map[string]string{"XDG_STATE_HOME": "b"}, "XDG_STATE_HOME", ""},
		{"profile", map[string]string{"VM_ENVIRONMENT_FILE": "/p.json"}, "VM_ENVIRONMENT_FILE", ""},
	} {
		got, err := Load(source(c.vars))
		if err != nil {
			t.Errorf("%s: stopped the server: %v", c.name, err)
		}
		if c.fault == "" && (got.Lazy != nil || got.StateDir != c.want) {
			t.Errorf("%s: got %q, %v, want %q", c.name, got.StateDir, got.Lazy, c.want)
		}
		if c.fault != "" && (got.Lazy == nil || !strings.Contains(got.Lazy.Error(), c.fault)) {
			t.Errorf("%s: got %v, want a fault of %s", c.name, got.Lazy, c.fault)
		}
	}
}

func TestEnvironReplacesAndKeeps(t *testing.T) {
	t.Setenv("MCP_RELAY_TEST_KEEP", "1")
	t.Setenv("MCP_RELAY_TEST_REPLACE", "old")
	env := strings.Join(Environ(map[string]string{"MCP_RELAY_TEST_REPLACE": "new"}), "\n")
	if !strings.Contains(env, "MCP_RELAY_TEST_KEEP=1") || !strings.Contains(env, "MCP_RELAY_TEST_REPLACE=new") || strings.Contains(env, "=old") {
		t.Error(env)
	}
}
