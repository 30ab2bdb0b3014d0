package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Merge makes the verified tree incoming, as it came from the guest, the recording's state at destination. Snapshots that an
// earlier state has and incoming lacks are kept; everything else of it survives below archive only, as attempt-*/state. All
// checks come before the first change: no path may hold a symlink, special file, hard link or unsafe name, the three may not
// overlap, the recording (the folder of destination) may not be sealed, and a snapshot may not differ from its earlier self.
// After a later error archive and incoming still hold everything, and Merge may be called again, also with a newer incoming:
// snapshots of every archived attempt are taken into account. incoming is gone afterwards, except when it lies in another
// file system.
func Merge(incoming, destination, archive string) error {
	m := merger{incoming: absolute(incoming), destination: absolute(destination), archive: absolute(archive), rename: os.Rename}
	if err := m.run(); err != nil {
		return fmt.Errorf("cannot merge %s into %s: %w", incoming, destination, err)
	}
	return nil
}

type merger struct {
	incoming, destination, archive string
	rename                         func(from, to string) error

	arrived tree
	priors  []prior // earlier states, the newest first
}

// prior is an earlier state and where it is now.
type prior struct {
	root string
	tree tree
}

func (m *merger) run() error {
	if err := m.check(); err != nil {
		return err
	}
	if err := m.archivePrior(); err != nil {
		return err
	}
	if err := m.moveIn(); err != nil {
		return err
	}
	return m.restoreSnapshots()
}

func (m *merger) check() error {
	roots := []string{m.incoming, m.destination, m.archive}
	for i, a := range roots {
		for j, b := range roots {
			if i != j && (a == b || strings.HasPrefix(b, a+string(filepath.Separator))) {
				return fmt.Errorf("%s and %s overlap", a, b)
			}
		}
	}
	if err := checkRealDir(m.incoming); err != nil {
		return err
	}
	for _, path := range roots[1:] {
		if err := checkRealDir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(m.destination), manifestPath)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("the recording is sealed"), err)
	}
	if err := m.inventory(); err != nil {
		return err
	}
	for _, p := range m.priors {
		if err := m.conflicts(p); err != nil {
			return err
		}
	}
	return nil
}

// inventory lists incoming and every earlier state.
func (m *merger) inventory() error {
	var err error
	if m.arrived, err = walkSafe(m.incoming); err != nil {
		return err
	}
	roots, err := filepath.Glob(filepath.Join(globEscape(m.archive), "attempt-*", "state"))
	if err != nil {
		return err
	}
	if _, err := os.Lstat(m.destination); err == nil {
		roots = append([]string{m.destination}, roots...)
	}
	for _, root := range roots {
		t, err := walkSafe(root)
		if err != nil {
			return err
		}
		m.priors = append(m.priors, prior{root, t})
	}
	return nil
}

// globEscape makes a folder's name match itself only.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func walkSafe(root string) (tree, error) {
	if err := checkRealDir(root); err != nil {
		return tree{}, err
	}
	t, err := walkTree(root)
	if err == nil && len(t.problems) > 0 {
		p := t.problems[0]
		err = fmt.Errorf("%s: %s", filepath.Join(root, p.Path), p.Message)
	}
	return t, err
}

// conflicts reports a snapshot of p that incoming has differently.
func (m *merger) conflicts(p prior) error {
	for dir := range p.tree.dirs {
		if _, isFile := m.arrived.files[dir]; isFile && isSnapshot(dir) {
			return fmt.Errorf("snapshot folder %s arrived as a file", dir)
		}
	}
	buf := make([]byte, hashBuffer)
	for _, rel := range p.tree.names() {
		if !isSnapshot(rel) {
			continue
		}
		if m.arrived.dirs[rel] {
			return fmt.Errorf("snapshot %s arrived as a folder", rel)
		}
		if _, has := m.arrived.files[rel]; !has {
			continue
		}
		old, err := hashFile(context.Background(), filepath.Join(p.root, rel), buf)
		if err != nil {
			return err
		}
		arrived, err := hashFile(context.Background(), filepath.Join(m.incoming, rel), buf)
		if err != nil {
			return err
		}
		if old != arrived {
			return fmt.Errorf("snapshot %s arrived with other bytes than it has in %s", rel, p.root)
		}
	}
	return nil
}

func isSnapshot(rel string) bool { return rel == "snapshots" || strings.HasPrefix(rel, "snapshots/") }

// archivePrior moves the state there is out of the way.
func (m *merger) archivePrior() error {
	if len(m.priors) == 0 || m.priors[0].root != m.destination {
		return nil
	}
	if err := MakeDirs(m.archive, 0o700); err != nil {
		return err
	}
	attempt, err := os.MkdirTemp(m.archive, "attempt-")
	if err != nil {
		return err
	}
	kept := filepath.Join(attempt, "state")
	if err := m.rename(m.destination, kept); err != nil {
		return errors.Join(err, os.Remove(attempt))
	}
	m.priors[0].root = kept
	return errors.Join(syncDir(attempt), syncDir(m.archive), syncDir(filepath.Dir(m.destination)))
}

// moveIn makes incoming the state, by name where it can.
func (m *merger) moveIn() error {
	parent := filepath.Dir(m.destination)
	if err := MakeDirs(parent, 0o700); err != nil {
		return err
	}
	err := m.rename(m.incoming, m.destination)
	if errors.Is(err, syscall.EXDEV) {
		err = m.copyIn()
	}
	if err != nil {
		return err
	}
	return errors.Join(syncDir(parent), syncDir(m.destination))
}

// copyIn copies incoming. It builds the copy below archive, where nothing is sealed, should it stay unfinished.
func (m *merger) copyIn() error {
	if err := MakeDirs(m.archive, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(m.archive, "incoming-")
	if err != nil {
		return err
	}
	for _, dir := range sortedKeys(m.arrived.dirs) {
		if err == nil {
			err = os.MkdirAll(filepath.Join(temp, dir), 0o700)
		}
	}
	for _, rel := range m.arrived.names() {
		if err == nil {
			err = copyExclusive(filepath.Join(m.incoming, rel), filepath.Join(temp, rel))
		}
	}
	if err == nil {
		err = os.Rename(temp, m.destination)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return nil
}

// restoreSnapshots brings back what earlier states have and incoming lacked. Each is copied below archive and gets its name
// when it is whole, so that a process that dies leaves no torn snapshot in the state.
func (m *merger) restoreSnapshots() error {
	for _, p := range m.priors {
		for _, rel := range slices.DeleteFunc(p.tree.names(), func(rel string) bool { return !isSnapshot(rel) }) {
			if _, has := m.arrived.files[rel]; has {
				continue
			}
			to := filepath.Join(m.destination, rel)
			if err := MakeDirs(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			temp := tempBeside(filepath.Join(m.archive, "snapshot"))
			if err := copyExclusive(filepath.Join(p.root, rel), temp); err != nil {
				return err
			}
			if err := PublishExclusive(temp, to); err != nil {
				return err
			}
			m.arrived.files[rel] = p.tree.files[rel]
		}
	}
	return nil
}

// copyExclusive copies a regular file to a new one, durably, following nothing.
func copyExclusive(from, to string) error {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close(), in.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return syncDir(filepath.Dir(to))
}
