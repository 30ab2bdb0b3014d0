package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
)

// The official Inspector, as CI installs it, is a client that is not ours.
func TestTheOfficialInspectorDrivesTheServer(t *testing.T) {
	t.Parallel()
	bin, err := filepath.Abs("../../.ci/node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	inspector := filepath.Join(bin, "mcp-inspector")
	if _, err := os.Stat(inspector); err != nil {
		missing(t, "the MCP Inspector", ".ci/prepare")
	}
	needMachines(t)
	w := newWorld(t)
	inspect := func(args ...string) []byte {
		t.Helper()
		// The Inspector hands on only the variables that it is given by name.
		command := []string{"--cli"}
		for k, v := range w.env {
			command = append(command, "-e", k+"="+v)
		}
		c := exec.Command(inspector, append(append(command, binary(t)), args...)...)
		c.Dir = w.project
		env := map[string]string{"PATH": bin + string(os.PathListSeparator) + os.Getenv("PATH")}
		for k, v := range w.env {
			env[k] = v
		}
		c.Env = config.Environ(env)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	var listed struct {
		Tools []struct{ Name, Title string }
	}
	if err := json.Unmarshal(inspect("--method", "tools/list"), &listed); err != nil || len(listed.Tools) != 10 {
		t.Fatalf("tools/list: %v, %d tools", err, len(listed.Tools))
	}
	for _, tool := range []string{"relay_status", "relay_probe"} {
		var result struct {
			IsError bool
			Content []struct{ Type, Text string }
		}
		if err := json.Unmarshal(inspect("--method", "tools/call", "--tool-name", tool), &result); err != nil || result.IsError || len(result.Content) != 1 {
			t.Errorf("%s: %v, %+v", tool, err, result)
		}
	}
}
