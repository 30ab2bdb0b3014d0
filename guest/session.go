package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
)

// Session is one session identity: the folder that holds its guests. It is safe for use by several goroutines and keeps
// nothing in memory but its options.
type Session struct {
	opt Options
	dir string
}

// Stored is a guest as its record on disk shows it, not yet reconciled with machine-service.
type Stored struct {
	Name   string
	Status Status // Unreconciled is set
	Fault  string // why the record cannot be used; the machine it may own is not forgotten
}

// NewSession checks the options. It touches no disk.
func NewSession(o Options) (*Session, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Session{opt: o, dir: filepath.Join(o.StateDir, sessionFolder(o.Session))}, nil
}

func sessionFolder(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:])[:32]
}

func (s *Session) guestDir(name string) string { return filepath.Join(s.dir, "guests", name) }

// Records lists the guests whose record is not null, by name. It only reads: no lock, no backend.
func (s *Session) Records() ([]Stored, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "guests"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the guests of this session: %w", err)
	}
	var list []Stored
	for _, entry := range entries {
		name := entry.Name()
		if !guestName.MatchString(name) || !entry.IsDir() {
			continue
		}
		record, err := loadRecord(s.guestDir(name))
		switch {
		case errors.Is(err, errNoRecord), errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			list = append(list, Stored{Name: name, Fault: err.Error(), Status: Status{Guest: name, State: StateBroken, LastError: err.Error(), Unreconciled: true}})
		default:
			record.Active = false
			status := statusOf(record)
			status.Unreconciled = true
			list = append(list, Stored{Name: name, Status: status})
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

// NextName is <task>-<n> with the smallest n never used for that task under this session identity. It reserves nothing:
// Create does, and says fs.ErrExist when somebody was faster.
func (s *Session) NextName(task string) (string, error) {
	if !taskSlug.MatchString(task) {
		return "", Refuse("the task %q is not a slug of lower-case letters, digits and hyphens, at most 36 characters", task)
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "guests"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", NoEffect(fmt.Errorf("cannot list the guests of this session: %w", err))
	}
	used := make(map[int]bool)
	for _, entry := range entries {
		if rest, ok := strings.CutPrefix(entry.Name(), task+"-"); ok {
			if n, err := strconv.Atoi(rest); err == nil && strconv.Itoa(n) == rest {
				used[n] = true
			}
		}
	}
	n := 1
	for used[n] {
		n++
	}
	return task + "-" + strconv.Itoa(n), nil
}

// Create checks the input against the service, claims the name and makes the guest durable, with its owner lock held and no
// machine. Nothing that allocates has been sent; Acquire does that. A refusal leaves nothing behind; a name taken
// meanwhile is fs.ErrExist. No error of it has an effect.
func (s *Session) Create(ctx context.Context, name string, in AcquireInput) (*Guest, error) {
	g, err := s.create(ctx, name, in)
	return g, NoEffect(err)
}

func (s *Session) create(ctx context.Context, name string, in AcquireInput) (*Guest, error) {
	record, err := s.newRecord(name, in)
	if err != nil {
		return nil, err
	}
	if err := s.checkImage(ctx, in.Image); err != nil {
		return nil, err
	}
	dir := s.guestDir(name)
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot claim the guest name %s: %w", name, err)
	}
	if err := syncPath(filepath.Dir(dir)); err != nil {
		return nil, fmt.Errorf("cannot claim the guest name %s: %w", name, err)
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot own the new guest %s: %w", name, err)
	}
	if err := saveRecord(dir, record); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	g := newGuest(s, dir, lock, record)
	if err := g.log(eventAcquireIntent, "", acquireFacts(record)); err != nil {
		return nil, errors.Join(err, g.forget())
	}
	return g, nil
}

// newRecord checks what needs no backend and decides every identity of the guest.
func (s *Session) newRecord(name string, in AcquireInput) (Record, error) {
	if !taskSlug.MatchString(in.Task) || !guestName.MatchString(name) || !strings.HasPrefix(name, in.Task+"-") {
		return Record{}, Refuse("the task %q is not a slug of lower-case letters, digits and hyphens, at most 36 characters", in.Task)
	}
	if err := checkDeclarations(in.Extractions); err != nil {
		return Record{}, err
	}
	ttl := in.TTLHours
	if ttl == 0 {
		ttl = DefaultTTLHours
	}
	if !(ttl >= 0.1 && ttl <= 720) {
		return Record{}, Refuse("ttlHours must lie between 0.1 and 720")
	}
	if in.VNC != nil && *in.VNC {
		return Record{}, Refuse("a console (vnc: true) is not available yet; acquire without it")
	}
	project, err := filepath.EvalSymlinks(s.opt.Project)
	if err != nil {
		return Record{}, Refuse("the project folder cannot be used: %v", err)
	}
	now, purpose := s.opt.Now(), newPurpose(in.Task)
	extractions := in.Extractions
	if extractions == nil {
		extractions = []Declaration{}
	}
	return Record{
		Guest: name, Backend: s.opt.Backend, Purpose: purpose, Task: in.Task, Image: in.Image, Env: in.Env,
		Network: s.opt.Network, VNC: in.VNC, Project: project, StartedAt: isoTime(now),
		GuestRoot: s.opt.GuestBase + "/" + guestStamp(now) + "-mcp-relay-" + purpose,
		HostRoot:  filepath.Join(project, evidenceFolder, purpose),
		TTLHours:  ttl, Extractions: extractions, FullWorkspace: in.FullWorkspace,
	}, nil
}

// checkDeclarations applies the rules of declared outputs: safe relative paths, unique safe names.
func checkDeclarations(list []Declaration) error {
	if len(list) > 100 {
		return Refuse("at most 100 outputs can be declared, not %d", len(list))
	}
	seen := make(map[string]bool)
	for _, d := range list {
		switch {
		case evidence.SafePath(d.Path) != nil:
			return Refuse("the declared path %q cannot be used: %v", d.Path, evidence.SafePath(d.Path))
		case !outputID.MatchString(d.Name):
			return Refuse("the declared name %q must begin with a letter or digit and hold only letters, digits, . _ and -, at most 101 characters", d.Name)
		case d.Name == fullWorkspace:
			return Refuse("the declared name %q is reserved", d.Name)
		case seen[d.Name]:
			return Refuse("the declared name %q is used twice", d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}

// Open takes the owner lock of a guest and reads its record; the machine-service is not asked. *HeldElsewhereError when
// another process owns it, *UnknownGuestError when there is none. No error of it has an effect.
func (s *Session) Open(_ context.Context, name string) (*Guest, error) {
	g, err := s.open(name)
	return g, NoEffect(err)
}

func (s *Session) open(name string) (*Guest, error) {
	dir := s.guestDir(name)
	if !guestName.MatchString(name) || !hasRecord(dir) {
		return nil, &UnknownGuestError{Name: name, Held: s.heldNames()}
	}
	lock, err := takeLock(dir)
	if errors.Is(err, errLocked) {
		return nil, &HeldElsewhereError{Name: name}
	}
	if err != nil {
		return nil, err
	}
	record, err := loadRecord(dir) // again, under the lock: its last owner may have ended it
	if errors.Is(err, errNoRecord) {
		return nil, errors.Join(&UnknownGuestError{Name: name, Held: s.heldNames()}, lock.release())
	}
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	record.Active = false
	g := newGuest(s, dir, lock, record)
	g.unreconciled.Store(true)
	g.attach()
	return g, nil
}

func (s *Session) heldNames() []string {
	list, err := s.Records()
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, stored := range list {
		names[i] = stored.Name
	}
	return names
}

// isoTime is how times are written into records: UTC, milliseconds.
func isoTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
