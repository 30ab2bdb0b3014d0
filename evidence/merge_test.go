package evidence

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// places are the three roots of a merge, as a recording has them.
type places struct{ base, incoming, destination, archive string }

func newPlaces(t *testing.T) places {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return places{base, filepath.Join(base, "rec.finalization-attempts", "u1", "state"), filepath.Join(base, "rec", "state"),
		filepath.Join(base, "rec.finalization-attempts", "previous")}
}

func (p places) merge() error { return Merge(p.incoming, p.destination, p.archive) }

func fill(t *testing.T, root string, files map[string]string) {
	t.Helper()
	must(t, os.MkdirAll(root, 0o700))
	for rel, content := range files {
		path := filepath.Join(root, rel)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// contents of every file under root; nil when there is none.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if _, err := os.Lstat(root); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	found, err := walkTree(root)
	must(t, err)
	for _, rel := range found.names() {
		data, err := os.ReadFile(filepath.Join(root, rel))
		must(t, err)
		all[rel] = string(data)
	}
	return all
}

func archived(t *testing.T, p places) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(p.archive, "attempt-*", "state"))
	must(t, err)
	return found
}

func TestMergeFresh(t *testing.T) {
	p := newPlaces(t)
	files := map[string]string{"journal/events.jsonl": "{}", "snapshots/s/a.png": "A"}
	fill(t, p.incoming, files)
	must(t, p.merge())
	if diff := cmp.Diff(files, contents(t, p.destination)); diff != "" {
		t.Error(diff)
	}
	if contents(t, p.incoming) != nil || archived(t, p) != nil {
		t.Error("incoming stayed, or something was archived")
	}
}

func TestMergeKeepsSnapshotsThatTheGuestLost(t *testing.T) {
	p := newPlaces(t)
	prior := map[string]string{"journal/events.jsonl": "old", "records/only-old.json": "{}", "snapshots/s/a.png": "A", "snapshots/s/b.png": "B"}
	fill(t, p.destination, prior)
	fill(t, p.incoming, map[string]string{"journal/events.jsonl": "new", "snapshots/s/b.png": "B"})
	must(t, p.merge())
	want := map[string]string{"journal/events.jsonl": "new", "snapshots/s/a.png": "A", "snapshots/s/b.png": "B"}
	if diff := cmp.Diff(want, contents(t, p.destination)); diff != "" {
		t.Error(diff)
	}
	kept := archived(t, p)
	if len(kept) != 1 || !maps.Equal(contents(t, kept[0]), prior) {
		t.Errorf("archived %v", kept)
	}
}

// TestMergeGoesOnAfterOneThatDied: between archiving the old state and moving the new one in, and before snapshots came back.
func TestMergeGoesOnAfterOneThatDied(t *testing.T) {
	tests := []struct {
		name string
		left func(p places)
	}{
		{"after archiving", func(p places) {
			fill(t, filepath.Join(p.archive, "attempt-1", "state"), map[string]string{"snapshots/s/a.png": "A"})
		}},
		{"after moving in", func(p places) {
			fill(t, filepath.Join(p.archive, "attempt-1", "state"), map[string]string{"snapshots/s/a.png": "A"})
			fill(t, p.destination, map[string]string{"journal/events.jsonl": "mid"})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlaces(t)
			tt.left(p)
			fill(t, p.incoming, map[string]string{"journal/events.jsonl": "new"})
			must(t, p.merge())
			want := map[string]string{"journal/events.jsonl": "new", "snapshots/s/a.png": "A"}
			if diff := cmp.Diff(want, contents(t, p.destination)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMergeRefusesBeforeTheFirstChange: after each refusal all three places are as they were.
func TestMergeRefusesBeforeTheFirstChange(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, p *places)
	}{
		{"snapshot with other bytes", func(t *testing.T, p *places) { fill(t, p.incoming, map[string]string{"snapshots/s/a.png": "X"}) }},
		{"snapshot that is a folder", func(t *testing.T, p *places) {
			must(t, os.Remove(filepath.Join(p.incoming, "snapshots/s/a.png")))
			fill(t, p.incoming, map[string]string{"snapshots/s/a.png/x": "X"})
		}},
		{"snapshot folder that is a file", func(t *testing.T, p *places) {
			must(t, os.RemoveAll(filepath.Join(p.incoming, "snapshots/s")))
			fill(t, p.incoming, map[string]string{"snapshots/s": "X"})
		}},
		{"symlink in incoming", func(t *testing.T, p *places) { must(t, os.Symlink("/etc/passwd", filepath.Join(p.incoming, "link"))) }},
		{"symlink to a folder in the state", func(t *testing.T, p *places) { must(t, os.Symlink("/etc", filepath.Join(p.destination, "link"))) }},
		{"hard link", func(t *testing.T, p *places) {
			must(t, os.Link(filepath.Join(p.incoming, "journal"), filepath.Join(p.incoming, "second")))
		}},
		{"fifo", func(t *testing.T, p *places) { must(t, syscall.Mkfifo(filepath.Join(p.incoming, "fifo"), 0o600)) }},
		{"unsafe name", func(t *testing.T, p *places) { fill(t, p.incoming, map[string]string{"a:b": "x"}) }},
		{"incoming is a symlink", func(t *testing.T, p *places) {
			must(t, os.Symlink(p.incoming, filepath.Join(p.base, "alias")))
			p.incoming = filepath.Join(p.base, "alias")
		}},
		{"incoming below a symlink", func(t *testing.T, p *places) {
			must(t, os.Symlink(filepath.Dir(p.incoming), filepath.Join(p.base, "alias")))
			p.incoming = filepath.Join(p.base, "alias", "state")
		}},
		{"archive is a file", func(t *testing.T, p *places) { fill(t, filepath.Dir(p.archive), map[string]string{"previous": "x"}) }},
		{"archive inside the state", func(_ *testing.T, p *places) { p.archive = filepath.Join(p.destination, "previous") }},
		{"state inside incoming", func(_ *testing.T, p *places) { p.destination = filepath.Join(p.incoming, "state") }},
		{"same place twice", func(_ *testing.T, p *places) { p.archive = p.incoming }},
		{"incoming missing", func(_ *testing.T, p *places) { p.incoming += "-none" }},
		{"sealed", func(t *testing.T, p *places) {
			fill(t, filepath.Dir(p.destination), map[string]string{manifestPath: "{malformed"})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlaces(t)
			fill(t, p.destination, map[string]string{"snapshots/s/a.png": "A", "journal": "old"})
			fill(t, p.incoming, map[string]string{"snapshots/s/a.png": "A", "journal": "new"})
			tt.spoil(t, &p)
			before := contents(t, p.base)
			if err := p.merge(); err == nil {
				t.Fatal("Merge accepted it")
			}
			if diff := cmp.Diff(before, contents(t, p.base)); diff != "" {
				t.Errorf("something was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestMergeCopiesAcrossFileSystems(t *testing.T) {
	p := newPlaces(t)
	files := map[string]string{"journal": "new", "snapshots/s/b.png": "B"}
	fill(t, p.incoming, files)
	must(t, os.Mkdir(filepath.Join(p.incoming, "empty"), 0o700))
	fill(t, p.destination, map[string]string{"snapshots/s/a.png": "A"})
	m := merger{incoming: p.incoming, destination: p.destination, archive: p.archive, rename: func(from, to string) error {
		if strings.HasPrefix(from, p.incoming) {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
		}
		return os.Rename(from, to)
	}}
	must(t, m.run())
	want := map[string]string{"journal": "new", "snapshots/s/a.png": "A", "snapshots/s/b.png": "B"}
	if diff := cmp.Diff(want, contents(t, p.destination)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(p.destination, "empty")); err != nil || !info.IsDir() {
		t.Error("the empty folder was not copied")
	}
	if !maps.Equal(contents(t, p.incoming), files) {
		t.Error("incoming was not kept")
	}
}

func TestFailedMoveKeepsArchiveAndIncoming(t *testing.T) {
	p := newPlaces(t)
	fill(t, p.incoming, map[string]string{"journal": "new"})
	fill(t, p.destination, map[string]string{"snapshots/s/a.png": "A"})
	m := merger{incoming: p.incoming, destination: p.destination, archive: p.archive, rename: func(from, to string) error {
		if from == p.incoming {
			return syscall.EIO
		}
		return os.Rename(from, to)
	}}
	if err := m.run(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("run = %v, want EIO", err)
	}
	if len(archived(t, p)) != 1 || contents(t, p.incoming) == nil {
		t.Error("the archive or incoming is gone")
	}
	must(t, p.merge())
	if got := contents(t, p.destination)["snapshots/s/a.png"]; got != "A" {
		t.Errorf("the snapshot is %q after the repeated merge", got)
	}
}
