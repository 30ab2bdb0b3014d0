package guest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// T70, T188: one owner at a time, and the file is the same one for ever.
func TestOwnerLockHasOneOwnerAndOneInode(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	path := filepath.Join(g.dir, lockFile)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var elsewhere *HeldElsewhereError
	if _, err := b.newSession().Open(t.Context(), g.Name()); !errors.As(err, &elsewhere) {
		t.Errorf("error %v, want held elsewhere", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	owners := make(chan *Guest, 8)
	for range 8 {
		wait.Go(func() {
			if again, err := b.newSession().Open(t.Context(), g.Name()); err == nil {
				owners <- again
			}
		})
	}
	wait.Wait()
	close(owners)
	if len(owners) != 1 {
		t.Errorf("%d owners, want one", len(owners))
	}
	for owner := range owners {
		if _, err := owner.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the lock file was replaced: %v", err)
	}
}

// T188: what is not a regular file is refused, and what a regular file holds stays.
func TestOwnerLockRefusesWhatIsNoFile(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(path string) error
		want bool
	}{
		{"folder", func(path string) error { return os.Mkdir(path, 0o700) }, false},
		{"symlink", func(path string) error { return os.Symlink(path+"-elsewhere", path) }, false},
		{"old content", func(path string) error { return os.WriteFile(path, []byte("old"), 0o600) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := test.make(filepath.Join(dir, lockFile)); err != nil {
				t.Fatal(err)
			}
			lock, err := takeLock(dir)
			if (err == nil) != test.want {
				t.Fatalf("error %v, want taken %v", err, test.want)
			}
			if err != nil {
				return
			}
			defer lock.release()
			if data, err := os.ReadFile(filepath.Join(dir, lockFile)); err != nil || string(data) != "old" {
				t.Errorf("content %q, %v", data, err)
			}
		})
	}
}

// T188: a child does not inherit the lock, so that a process that is left behind keeps nothing locked.
func TestOwnerLockIsNotInherited(t *testing.T) {
	dir := t.TempDir()
	lock, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/cat")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	again, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.release(), stdin.Close(), child.Wait()); err != nil {
		t.Error(err)
	}
}
