package receiver

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const zombieState = 5 // SZOMB

// processTable asks the kernel.
func processTable() ([]process, error) {
	rows, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("cannot read the process table: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("cannot read the process table: it is empty")
	}
	var table []process
	for i := range rows {
		table = append(table, rowOf(&rows[i]))
	}
	return table, nil
}

func rowOf(row *unix.KinfoProc) process {
	pid := int(row.Proc.P_pid)
	started := row.Proc.P_starttime
	name := row.Proc.P_comm[:]
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	session, err := unix.Getsid(pid)
	if err != nil {
		session = 0
	}
	return process{
		identity: identity{PID: pid, Start: strconv.FormatInt(started.Sec*1_000_000+int64(started.Usec), 10)},
		parent:   int(row.Eproc.Ppid), group: int(row.Eproc.Pgid), session: session,
		name: string(name), zombie: row.Proc.P_stat == zombieState,
	}
}

func readProcess(pid int) (process, error) {
	row, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	return rowOf(row), nil
}

// signalExactly signals the process with this identity: ESRCH when it is gone.
func signalExactly(id identity, sig syscall.Signal) error {
	if p, err := readProcess(id.PID); err != nil || p.identity != id {
		return unix.ESRCH
	}
	return unix.Kill(id.PID, sig)
}

// adoptOrphans does nothing: this system has no subreaper. Descendants that leave the session and lose their parent are not found.
func adoptOrphans() error { return nil }

// scriptAttributes start a script in a session of its own.
func scriptAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitEnd waits until our child pid has ended, and leaves it unreaped, so that its number stays its own.
func awaitEnd(pid int) error {
	queue, err := unix.Kqueue()
	if err != nil {
		return err
	}
	defer unix.Close(queue)
	var watch unix.Kevent_t
	unix.SetKevent(&watch, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch.Fflags = unix.NOTE_EXIT
	for {
		_, err := unix.Kevent(queue, []unix.Kevent_t{watch}, make([]unix.Kevent_t, 1), nil)
		if errors.Is(err, unix.ESRCH) {
			return nil // it ended before we looked
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// bootID tells this run of the kernel from another.
func bootID() (string, error) {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(boot.Sec, 10), nil
}
