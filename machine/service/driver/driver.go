// Package driver is what machine-service needs from a way of making machines. Drivers live in folders below; each passes
// the conformance suite machinetest.Driver.
package driver

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Image is a machine image a driver can start from.
type Image struct {
	Name        string // "host"
	Display     string // "1280x800" when guests of it have one, else ""
	Unavailable string // why it cannot be used now; "" when it can
}

// Spec is one machine to make. Folder is the machine's own, made by the service (0700), empty, and removed by it after
// Destroy; the driver keeps all it needs to find the machine again in it.
type Spec struct {
	Name     string
	Image    string
	Folder   string
	Nonce    string // 32 hex; who talks to the guest's init must know it
	Network  string // nat, internet
	CPU      int    // 0: the driver's default
	MemoryMB int
	DiskMB   int
	Until    time.Time     // end of the lease as known now
	Grace    time.Duration // a guest nobody renews ends itself at Until+Grace
}

// Facts are what the guest really got, reported in the lease and in probe: isolation (namespace-idmap, namespace-user),
// limits ("memory 2048 MiB, pids 512" or why not), network, display.
type Facts map[string]any

// Refusal is an error with the cause and the remedy in one line, for people; Code is one of the machine package's codes.
type Refusal struct {
	Code    string
	Message string
	Cause   error // for the log
}

func (r *Refusal) Error() string { return r.Message }
func (r *Refusal) Unwrap() error { return r.Cause }

// Refuse makes a Refusal.
func Refuse(code string, cause error, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// ErrGone means that the machine no longer exists.
var ErrGone = errors.New("machine is gone")

// ErrTimeout means that a command was still running at its deadline; its process group was killed.
var ErrTimeout = errors.New("command timed out")

// ErrUnreachable means that the guest could not be asked; whether it did anything is unknown, and asking again may help.
var ErrUnreachable = errors.New("guest cannot be reached")

// ErrMissing means that the source of a transfer does not exist.
var ErrMissing = errors.New("no such file")

// ErrUnsafePath means that a transfer met a symlink, a special file or a path it must not touch.
var ErrUnsafePath = errors.New("path refused")

// ErrFull means that the guest's own disk is full; nothing is left of the transfer.
var ErrFull = errors.New("the guest's disk is full")

// Driver makes machines. Its methods may be called from any goroutine.
type Driver interface {
	Name() string
	Images(ctx context.Context) ([]Image, error)
	// Check proves by doing (make one guest, run true, destroy it) that guests can be made here, and caches the verdict.
	// The error is a *Refusal that names the step that failed and the remedy.
	Check(ctx context.Context) (Facts, error)
	// Create returns when the guest answers. On error nothing is left.
	Create(ctx context.Context, spec Spec) (Guest, Facts, error)
	// Adopt finds a machine made earlier, maybe by another process, by what its folder holds and by the identity of its
	// init (pid, start time, boot id, nonce). ErrGone when it is not there any more.
	Adopt(ctx context.Context, spec Spec) (Guest, error)
	// Sweep removes what machines left that no folder of ours owns: processes proved to be theirs, mounts, cgroups.
	// live holds the names to leave alone. It returns what it removed, for the log.
	Sweep(ctx context.Context, live map[string]bool) ([]string, error)
}

// Guest is one running machine. Exec and transfers may run side by side; each call is independent.
type Guest interface {
	// Exec runs argv directly with empty stdin in the guest user's home. Output merges both streams, all of them up to
	// limit bytes from the end. ErrTimeout comes with the output so far. Cancelling ctx kills the command's group.
	Exec(ctx context.Context, argv []string, timeout time.Duration, limit int) (code int, output []byte, err error)
	// Push copies a regular file or a directory tree without symlinks to remote; parents must exist. An existing file is
	// replaced only by a whole one.
	Push(ctx context.Context, local, remote string) error
	// Pull copies remote to local, which appears only when whole.
	Pull(ctx context.Context, remote, local string) error
	// Renew tells the guest its lease's new end.
	Renew(ctx context.Context, until time.Time) error
	// Alive asks the kernel, not the guest.
	Alive() bool
	// Destroy ends the machine and returns when nothing of it is left: no process, mount, cgroup or namespace. Idempotent.
	Destroy(ctx context.Context) error
}

// Listed is one machine as the kernel shows it.
type Listed struct {
	Name  string `json:"Name"`
	State string `json:"State"` // running, remnant
}
