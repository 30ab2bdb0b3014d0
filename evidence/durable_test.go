package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestWriteFileDurableReplacesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, content := range []string{"first, the longer one", "second", ""} {
		if err := WriteFileDurable(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != content {
			t.Errorf("content = %q, %v, want %q", data, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode = %v, %v, want 0640 whatever the umask", info.Mode(), err)
	}
	onlyFile(t, filepath.Dir(path), "f")
}

func TestFailedWritesLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileDurable(filepath.Join(dir, "taken"), []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if err := WriteFileDurable(filepath.Join(dir, "none", "f"), []byte("x"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without parent: %v, want not-exist", err)
	}
	if err := WriteRecord(filepath.Join(dir, "f"), func() {}); err == nil {
		t.Error("a function was written as a record")
	}
	onlyFile(t, dir, "taken")
}

func TestWriteExclusiveNeverReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := WriteExclusive(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteExclusive(path, []byte("other"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second write = %v, want ErrExist", err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := WriteExclusive(filepath.Join(dir, "link"), []byte("other"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("write over a dangling symlink = %v, want ErrExist", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("content = %q, %v", data, err)
	}
	onlyFile(t, dir, "f", "link")
}

func TestOneOfManyExclusiveWritersWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var won atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch err := WriteExclusive(path, []byte("whole"), 0o600); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != "whole" {
				t.Errorf("found %q, %v", data, err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d writers won", won.Load())
	}
	onlyFile(t, filepath.Dir(path), "f")
}

func TestLinkAndRemoveIsExclusiveToo(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := linkAndRemove(filepath.Join(dir, "a"), filepath.Join(dir, "b")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("linkAndRemove = %v, want ErrExist", err)
	}
	if err := linkAndRemove(filepath.Join(dir, "a"), filepath.Join(dir, "c")); err != nil {
		t.Error(err)
	}
	onlyFile(t, dir, "b", "c")
}

func TestMakeDirs(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := MakeDirs(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "f"), filepath.Join(dir, "f", "x")} {
		if err := MakeDirs(path, 0o700); err == nil {
			t.Errorf("MakeDirs(%s) made a folder of a file", path)
		}
	}
}

func TestMarshalRecord(t *testing.T) {
	got, err := MarshalRecord(map[string]any{"b": "<&>", "a": []int{1}})
	if want := "{\n  \"a\": [\n    1\n  ],\n  \"b\": \"<&>\"\n}\n"; err != nil || string(got) != want {
		t.Errorf("MarshalRecord = %q, %v, want %q", got, err, want)
	}
}

// onlyFile fails the test when dir holds anything but names: temporary files must be gone.
func onlyFile(t *testing.T, dir string, names ...string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range found {
		if i >= len(names) || f.Name() != names[i] {
			t.Errorf("%s holds %s", dir, f.Name())
		}
	}
	if len(found) < len(names) {
		t.Errorf("%s holds %d names, want %v", dir, len(found), names)
	}
}
