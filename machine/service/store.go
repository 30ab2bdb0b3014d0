package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// stateVersion is the layout of state.json. A file of another version is refused, never rewritten.
const stateVersion = 1

// store keeps the lease records: the truth is state.json, and memory holds a copy for readers, who never wait.
type store struct {
	dir    string
	lock   *os.File // exclusive flock, held as long as the store is open
	commit sync.Mutex
	// current is replaced by each change and never written to.
	current atomic.Pointer[map[string]record]
}

type stateFile struct {
	Version  int               `json:"version"`
	Machines map[string]record `json:"machines"`
}

// openStore takes the folder for this process and reads the state. A folder in use and a state it cannot read are errors.
func openStore(ctx context.Context, dir string) (*store, error) {
	if err := os.MkdirAll(filepath.Join(dir, "machines"), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the state folder: %w", err)
	}
	lock, err := lockFolder(ctx, filepath.Join(dir, "daemon.lock"))
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, lock: lock}
	records, err := readState(s.file())
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.current.Store(&records)
	return s, nil
}

// lockWait is how long a service that is just leaving may take to let go of its folder.
const lockWait = time.Second

func lockFolder(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock of the state folder: %w", err)
	}
	if err := flock(ctx, f); err != nil {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0) // only to name the holder
		_ = f.Close()
		return nil, fmt.Errorf("cannot use %s: another machine-service (process %s) holds it: %w",
			filepath.Dir(path), strings.TrimSpace(string(holder[:n])), err)
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintf("%d\n", os.Getpid()))); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write %s: %w", path, err), f.Close())
	}
	return f, nil
}

// flock asks for the lock until lockWait is over.
func flock(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	retry := time.NewTicker(lockWait / 20)
	defer retry.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-retry.C:
		}
	}
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

func readState(path string) (map[string]record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]record{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the leases: %w", err)
	}
	var state stateFile
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&state); err != nil {
		return nil, unreadable(path, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, unreadable(path, errors.New("something follows the state"))
	}
	if state.Version != stateVersion {
		return nil, unreadable(path, fmt.Errorf("its version is %d, this program reads %d", state.Version, stateVersion))
	}
	for name, r := range state.Machines {
		if err := r.check(name); err != nil {
			return nil, unreadable(path, err)
		}
	}
	if state.Machines == nil {
		state.Machines = map[string]record{}
	}
	return state.Machines, nil
}

func unreadable(path string, err error) error {
	return fmt.Errorf("cannot read the leases in %s: %w; machines it names may still run: repair it, or end them and move it away", path, err)
}

func (s *store) file() string { return filepath.Join(s.dir, "state.json") }

// folder is the machine's own.
func (s *store) folder(name string) string { return filepath.Join(s.dir, "machines", name) }

// all returns every record. The map is shared: it must not be written to.
func (s *store) all() map[string]record { return *s.current.Load() }

func (s *store) get(name string) (record, bool) {
	r, ok := s.all()[name]
	return r, ok
}

// change lets edit work on a copy of the records and makes the result durable before anybody sees it. When edit or the
// disk fails, nothing has changed.
func (s *store) change(edit func(map[string]record) error) error {
	s.commit.Lock()
	defer s.commit.Unlock()
	next := maps.Clone(s.all())
	if err := edit(next); err != nil {
		return err
	}
	data, err := json.MarshalIndent(stateFile{Version: stateVersion, Machines: next}, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot save the leases: %w", err)
	}
	if err := replaceFile(s.file(), append(data, '\n')); err != nil {
		return fmt.Errorf("cannot save the leases: %w", err)
	}
	s.current.Store(&next)
	return nil
}

// update changes one record, which must exist.
func (s *store) update(name string, edit func(*record) error) (record, error) {
	var after record
	err := s.change(func(all map[string]record) error {
		r, ok := all[name]
		if !ok {
			return unknownMachine(name)
		}
		if err := edit(&r); err != nil {
			return err
		}
		all[name], after = r, r
		return nil
	})
	return after, err
}

// drop forgets one record.
func (s *store) drop(name string) error {
	return s.change(func(all map[string]record) error {
		delete(all, name)
		return nil
	})
}

// settle returns when every change that was begun before has been seen or has failed.
func (s *store) settle() {
	s.commit.Lock()
	defer s.commit.Unlock()
}

func (s *store) close() error { return s.lock.Close() }

// replaceFile makes path hold data, durably: after a crash it has either its old content or all of the new.
func replaceFile(path string, data []byte) error {
	temp := path + ".new" // one writer at a time: a leftover of a crash is overwritten
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
