package receiver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Phases of a receiver, as its owner record tells them to whoever finds it dead.
const (
	phaseAdmission = "admission" // nothing was dispatched
	phaseDispatch  = "dispatch"  // from just before the script starts
	phaseSettled   = "settled"   // receipt written, or proved needless: nothing to do
)

// owner is the record of the receiver that holds, or held, the lock.
type owner struct {
	identity                // of the receiver
	Boot          string    `json:"bootId"`
	ExecutionID   string    `json:"executionId"`
	RequestSHA256 string    `json:"requestSha256"`
	Phase         string    `json:"phase"`
	Script        *identity `json:"script,omitempty"` // leader of the script's session, once it runs
}

// errBusy means that another receiver holds the lock.
var errBusy = errors.New("another run is in progress in this guest")

// Files in lockDir.
const (
	lockName  = "lock"
	ownerName = "owner.json"
)

// lock is the right to change the guest's recording. The kernel drops it with the process; what the process left undone is
// told by the owner record.
type lock struct {
	file  *os.File
	path  string // of the owner record
	owner owner
}

// acquire takes the lock without waiting: errBusy when another receiver has it. It returns the owner record of the one
// before, zero when there was none.
func acquire(dir string) (*lock, owner, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, owner{}, fmt.Errorf("cannot open the lock: %w", err)
	}
	if err := flock(file); err != nil {
		return nil, owner{}, errors.Join(err, file.Close())
	}
	l := &lock{file: file, path: filepath.Join(dir, ownerName)}
	before, err := l.read()
	if err != nil {
		return nil, owner{}, errors.Join(err, file.Close())
	}
	return l, before, nil
}

func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errBusy
		case err != nil:
			return fmt.Errorf("cannot take the lock: %w", err)
		default:
			return nil
		}
	}
}

func (l *lock) read() (owner, error) {
	data, err := os.ReadFile(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return owner{}, nil
	}
	var o owner
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return owner{}, fmt.Errorf("cannot read the record of the receiver before: %w", err)
	}
	return o, nil
}

// own makes this process the owner on record, durably, with nothing dispatched.
func (l *lock) own(executionID, sum string) error {
	boot, err := bootID()
	if err != nil {
		return fmt.Errorf("cannot read the boot id: %w", err)
	}
	self, err := identityOf(selfPID())
	if err != nil {
		return err
	}
	l.owner = owner{identity: self, Boot: boot, ExecutionID: executionID, RequestSHA256: sum}
	return l.enter(phaseAdmission, nil)
}

// enter records the next phase, durably.
func (l *lock) enter(phase string, script *identity) error {
	l.owner.Phase, l.owner.Script = phase, script
	if err := evidence.WriteRecord(l.path, l.owner); err != nil {
		return fmt.Errorf("cannot record who owns the lock: %w", err)
	}
	return nil
}

func (l *lock) release() error { return l.file.Close() }

// crowded returns a refusal when what the dead receiver o left running cannot be ended. It ends only what is provably its
// script's.
func crowded(o owner) *refusal {
	if o.Phase != phaseDispatch || o.Script == nil {
		return nil
	}
	if boot, err := bootID(); err == nil && boot != o.Boot {
		return nil // everything of that time is gone
	}
	gone := endAll(func() ([]process, error) {
		table, err := processTable()
		if err != nil {
			return nil, err
		}
		return survivors(*o.Script, table), nil
	})
	if gone == nil || !*gone {
		return refuse(protocol.ReasonBusy, "the receiver of %s died and processes of its script cannot be ended; nothing was run", o.ExecutionID)
	}
	return nil
}

// reserve keeps room for the evidence of a run, so that a script that fills the disk cannot keep it from being written.
type reserve struct{ path string }

// reserveSize covers a receipt, its copies in the journal, and the records.
const reserveSize = 4 << 20

// newReserve takes the room, or fails before anything was dispatched.
func newReserve(path string) (reserve, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return reserve{}, fmt.Errorf("cannot reserve room for the evidence: %w", err)
	}
	_, err = io.CopyN(f, zeros{}, reserveSize)
	if err = errors.Join(err, f.Close()); err != nil {
		return reserve{}, fmt.Errorf("cannot reserve room for the evidence: %w", errors.Join(err, os.Remove(path)))
	}
	return reserve{path}, nil
}

// free gives the room back. It may be called again.
func (r reserve) free() error {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot free the room for the evidence: %w", err)
	}
	return nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
