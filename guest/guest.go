package guest

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Guest is one guest that this process owns. One operation at a time (Acquire, Reconcile, Probe, Stage, Script, Image,
// Extract, Finish, Release); Beat, SetActive, Lease, Status, Name and Gone may come beside it.
//
// The caller reconciles before Probe, Stage, Script, Extract and Finish. Image asks the service itself, and only when
// nothing on the host serves; Release needs no reconcile.
type Guest struct {
	s    *Session
	name string
	dir  string

	mu   sync.Mutex // orders changes of the record
	lock *ownerLock

	record  atomic.Pointer[Record] // what is durable; never changed in place
	eventMu sync.RWMutex           // held for reading while an event is written, so that none falls into a folder being sealed
	sealing bool                   // events go beside the evidence folder

	gone         atomic.Bool
	unreconciled atomic.Bool
}

func newGuest(s *Session, dir string, lock *ownerLock, record Record) *Guest {
	g := &Guest{s: s, name: record.Guest, dir: dir, lock: lock}
	g.record.Store(&record)
	return g
}

// Name of the guest.
func (g *Guest) Name() string { return g.name }

// Gone says that the guest is no more: released, destroyed with proof, or never allocated. Its record is null and its slot free.
func (g *Guest) Gone() bool { return g.gone.Load() }

// Close drops the owner lock and keeps the record, for another process or a later Open.
func (g *Guest) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lock.release()
}

// rec is the record as it is durable now.
func (g *Guest) rec() *Record { return g.record.Load() }

// update makes a change of the record durable before anybody sees it.
func (g *Guest) update(change func(*Record)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone.Load() {
		return errNoRecord
	}
	if g.lock.file == nil {
		return errors.New("the owner lock was given up")
	}
	next := *g.rec()
	change(&next)
	if err := saveRecord(g.dir, next); err != nil {
		return err
	}
	g.record.Store(&next)
	return nil
}

// forget makes the record null and frees the lock: from here the guest is gone.
func (g *Guest) forget() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone.Load() {
		return nil
	}
	if err := clearRecord(g.dir); err != nil {
		return err
	}
	g.gone.Store(true)
	return g.lock.release()
}

// fail is how an operation on a guest that is still held ends in an error: the cause is remembered in the record and as an
// event, and the caller sees the status with it and what is known of the effect. A refusal is no failure of the guest and leaves the record alone.
func (g *Guest) fail(operation string, cause error) error {
	var refused *RefusedError
	var known *EffectError
	if !errors.As(cause, &refused) && !errors.As(cause, &known) {
		cause = withEffect(effectOfOperation(operation), cause)
	}
	if !errors.As(cause, &refused) && !g.Gone() {
		text := cause.Error()
		_ = g.update(func(r *Record) { r.LastError = text }) // the operation's own cause matters more than a full disk
		_ = g.log(eventOperationFailed, "", map[string]any{"operation": operation, "error": text})
	}
	return &OperationError{Guest: g.name, Cause: cause, Status: g.Status()}
}

// unlessRefused puts words before a failure; a refusal says by itself all there is to say.
func unlessRefused(err error, words string) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return err
	}
	return fmt.Errorf("%s: %w", words, err)
}

// machineName is the machine's name at the service; a guest without a lease has none.
func (g *Guest) machineName() (string, error) {
	if r := g.rec(); r.Lease != nil {
		return r.Lease.Name, nil
	}
	return "", errors.New("no machine is recorded for this guest; the acquisition's outcome is unknown")
}

// sealed refuses work on a guest whose evidence is final.
func (g *Guest) sealed() error {
	if g.Gone() {
		return Refuse("guest %q is gone", g.name)
	}
	if g.rec().Delivered != nil {
		return Refuse("the evidence of guest %q is sealed; nothing more can run on it: call relay_finish again to destroy the machine", g.name)
	}
	return nil
}

// ready refuses work that needs the guest runtime.
func (g *Guest) ready() error {
	if err := g.sealed(); err != nil {
		return err
	}
	if !g.rec().Staged {
		return Refuse("guest %q is not staged; call relay_stage first", g.name)
	}
	return nil
}

func (g *Guest) now() time.Time { return g.s.opt.Now() }

// temp is the folder for transfers under way; nothing in it is ever trusted later.
func (g *Guest) temp() string { return filepath.Join(g.dir, "transfer-tmp") }

// host is a path below the evidence folder.
func (r *Record) host(parts ...string) string {
	return filepath.Join(append([]string{r.HostRoot}, parts...)...)
}

// guest is a path below the guest root; guests are POSIX whatever the host is.
func (r *Record) guest(rel string) string { return r.GuestRoot + "/" + rel }

// workspace is the scripts' folder in the guest.
func (r *Record) workspace() string { return r.guest("workspace") }

func (r *Record) startedAt() time.Time {
	t, err := time.Parse(time.RFC3339, r.StartedAt)
	if err != nil {
		return time.Time{} // a record without a readable start has no time left: it is never renewed
	}
	return t
}

func (r *Record) deadline() time.Time {
	return r.startedAt().Add(hours(r.TTLHours))
}

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }

// unixTime is a time of the service.
func unixTime(seconds float64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(seconds*1e9))
}
