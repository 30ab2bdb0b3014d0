package evidence

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A machine may be finished before anything was run on it: there is no journal then, and nothing speaks of a run.
func TestARecordingWithoutARunIsSealed(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "host", "events"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteRecord(filepath.Join(dir, "host", "events", "1-a.json"), map[string]any{"kind": "stage"}); err != nil {
		t.Fatal(err)
	}
	id := Identity{PackageID: "pkg-p", SessionID: "session-a", TaskID: "p"}
	got, err := Seal(t.Context(), dir, id, time.Now())
	if err != nil || got.Execution != "uncertain" || got.Snapshots != "complete" {
		t.Errorf("Seal = %+v, %v, want uncertain and complete", got, err)
	}
	if r, err := Verify(t.Context(), dir); err != nil || !r.OK {
		t.Errorf("Verify = %+v, %v", r, err)
	}
}

// What speaks of a run needs its journal.
func TestARunWithoutAJournalIsNotSealed(t *testing.T) {
	for _, rel := range []string{"host/requests/execution-1.json", "state/receiver/groups.json"} {
		dir := t.TempDir()
		path := filepath.Join(dir, rel)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := WriteRecord(path, map[string]any{"executionId": "execution-1"}); err != nil {
			t.Fatal(err)
		}
		if got, err := Seal(t.Context(), dir, Identity{PackageID: "pkg-p", SessionID: "session-a", TaskID: "p"}, time.Now()); err == nil {
			t.Errorf("%s: sealed as %+v", rel, got)
		}
	}
}
