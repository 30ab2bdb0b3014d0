package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Identity names one process for ever.
type Identity struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"startTicks"` // since boot
	BootID string `json:"bootId"`
}

// ErrOther means that the process is gone; its pid may be another's now.
var ErrOther = errors.New("process is gone")

// BootID is the kernel's id of this boot.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// Identify returns the identity of the process that has the pid now. It is that of a handle's process if the handle has
// not Ended afterwards.
func Identify(pid int) (Identity, error) {
	boot, err := BootID()
	if err != nil {
		return Identity{}, err
	}
	stat, err := ReadStat(pid)
	return Identity{PID: pid, Start: stat.Start, BootID: boot}, err
}

// Handle holds one process, alive or dead, and never becomes another's.
type Handle struct{ file *os.File }

// Open takes hold of the process with this identity. ErrOther when it is gone.
func Open(id Identity) (*Handle, error) {
	h, err := OpenPID(id.PID)
	if err != nil {
		return nil, err
	}
	now, err := Identify(id.PID)
	if err == nil && now != id || errors.Is(err, os.ErrNotExist) {
		err = ErrOther
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// OpenPID takes hold of whatever process has the pid now; the caller proves afterwards which it is.
func OpenPID(pid int) (*Handle, error) {
	if pid <= 1 {
		return nil, ErrOther
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL {
		return nil, ErrOther
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take hold of process %d: %w", pid, err)
	}
	return Hold(fd), nil
}

// Hold makes a handle of a pidfd, which it owns from now on.
func Hold(pidfd int) *Handle { return &Handle{file: os.NewFile(uintptr(pidfd), "pidfd")} }

// Kill sends SIGKILL. A process that has ended is no error.
func (h *Handle) Kill() error {
	err := unix.PidfdSendSignal(int(h.file.Fd()), unix.SIGKILL, nil, 0)
	if err == unix.ESRCH {
		return nil
	}
	return err
}

// Ended says whether the process has ended; when it was the first of a pid namespace, then so has every process in it.
func (h *Handle) Ended() bool { return h.Wait(0) }

// Wait waits for the end at most that long, and says whether it came.
func (h *Handle) Wait(atMost time.Duration) bool {
	until := time.Now().Add(atMost)
	for {
		left := max(time.Until(until), 0)
		fds := []unix.PollFd{{Fd: int32(h.file.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond))
		if n > 0 {
			return true
		}
		if err != unix.EINTR || left == 0 {
			return false
		}
	}
}

// Close lets go of the process.
func (h *Handle) Close() error { return h.file.Close() }
