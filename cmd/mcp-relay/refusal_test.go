package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every refused call leaves no file and no process behind, and does not even start a machine service.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.connect()
	before := w.files()
	for _, call := range []struct {
		name string
		tool string
		args map[string]any
	}{
		{"no task", "relay_acquire", map[string]any{"image": "host", "extractions": []any{}}},
		{"bad task", "relay_acquire", map[string]any{"task": "No Spaces", "image": "host", "extractions": []any{}}},
		{"unknown field", "relay_acquire", map[string]any{"task": "t", "image": "host", "extractions": []any{}, "network": "internet"}},
		{"climbing output", "relay_acquire", map[string]any{"task": "t", "image": "host", "extractions": []any{map[string]any{"path": "../x", "name": "x"}}}},
		{"twice the same output", "relay_acquire", map[string]any{"task": "t", "image": "host",
			"extractions": []any{map[string]any{"path": "a", "name": "x"}, map[string]any{"path": "b", "name": "x"}}}},
		{"ttl too short", "relay_acquire", map[string]any{"task": "t", "image": "host", "extractions": []any{}, "ttlHours": 0.01}},
		{"no guest", "relay_stage", map[string]any{}},
		{"unknown guest", "relay_stage", map[string]any{"guest": "nobody-1"}},
		{"unknown guest", "relay_script", shell("nobody-1", "true")},
		{"unknown guest", "relay_finish", map[string]any{"guest": "nobody-1"}},
		{"unknown guest", "relay_release", map[string]any{"guest": "nobody-1"}},
		{"unknown guest", "relay_extract", map[string]any{"guest": "nobody-1", "names": []any{}}},
		{"both code and file", "relay_script", map[string]any{"guest": "g-1", "language": "shell", "inline": true, "code": "true", "localPath": "x"}},
		{"bad language", "relay_script", map[string]any{"guest": "g-1", "language": "perl", "inline": true, "code": "1"}},
		{"bad timeout", "relay_script", map[string]any{"guest": "g-1", "language": "shell", "inline": true, "code": "true", "timeoutMs": 0}},
		{"scope guest without a guest", "relay_probe", map[string]any{"scope": "guest"}},
		{"short reference", "relay_image", map[string]any{"target": map[string]any{"source": "reference", "imageId": "image-1"}}},
		{"unknown tool", "relay_destroy_everything", map[string]any{}},
	} {
		a, err := c.tool(call.tool, call.args)
		if err != nil || !a.failed || a.text == "" {
			t.Errorf("%s: %s: got %+v, %v, want an error result", call.tool, call.name, a, err)
		}
	}
	if after := w.files(); !slices.Equal(before, after) {
		t.Errorf("refused calls left files: before %v, after %v", before, after)
	}
	if pid := w.servicePID(); pid != 0 {
		t.Error("refused calls started a machine service")
	}
}

// A call on a guest that is held, refused for what only the relay can know, leaves the evidence as it was.
func TestRefusedCallsOnAGuestLeaveItsEvidenceAlone(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	outside := filepath.Join(w.dir, "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.project, "link")); err != nil {
		t.Fatal(err)
	}
	c := w.connect()
	guest := c.acquire("kept")
	before := w.files()
	file := func(path string) map[string]any {
		return map[string]any{"guest": guest, "language": "shell", "inline": false, "localPath": path}
	}
	for name, args := range map[string]map[string]any{
		"outside the project": file(outside), "through a link": file("link"), "climbing": file("../outside"), "not there": file("missing.sh"),
	} {
		if a, err := c.tool("relay_script", args); err != nil || !a.failed || strings.Contains(a.text, "secret") {
			t.Errorf("%s: got %+v, %v, want a refusal", name, a, err)
		}
	}
	if a, err := c.tool("relay_extract", map[string]any{"guest": guest, "names": []any{"never-declared"}}); err != nil || !a.failed {
		t.Errorf("undeclared output: got %+v, %v", a, err)
	}
	if after := w.files(); !slices.Equal(before, after) {
		t.Errorf("refused calls changed the files: before %d, after %d: %v", len(before), len(after), after)
	}
	c.must("relay_release", map[string]any{"guest": guest})
}
