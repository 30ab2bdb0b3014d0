package receiver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processTable reads /proc. A process that ends meanwhile is left out.
func processTable() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot read the process table: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot read the process table: %w", err)
	}
	var table []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			table = append(table, p)
		}
	}
	if len(table) == 0 {
		return nil, errors.New("cannot read the process table: /proc holds no process")
	}
	return table, nil
}

// readProcess reads /proc/<pid>/stat: "pid (name) state parent group session ... start ...".
func readProcess(pid int) (process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 20 {
		return process{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	p := process{identity: identity{PID: pid, Start: f[19]}, name: string(data[open+1 : end]), zombie: f[0] == "Z" || f[0] == "X"}
	for i, to := range []*int{&p.parent, &p.group, &p.session} {
		if *to, err = strconv.Atoi(f[i+1]); err != nil {
			return process{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
		}
	}
	return p, nil
}

// signalExactly signals the process with this identity and no other: ESRCH when it is gone.
func signalExactly(id identity, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ENOSYS) {
		return signalChecked(id, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The handle is for whoever had the number when it was opened; the start time says whether that is the one meant.
	if p, err := readProcess(id.PID); err != nil || p.identity != id {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

func signalChecked(id identity, sig syscall.Signal) error {
	if p, err := readProcess(id.PID); err != nil || p.identity != id {
		return unix.ESRCH
	}
	return unix.Kill(id.PID, sig)
}

// adoptOrphans makes this process the parent of every descendant that loses its own, wherever it moved.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become the subreaper: %w", err)
	}
	return nil
}

// scriptAttributes start a script in a session of its own, and let it die with the thread that started it.
func scriptAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until our child pid has ended, and leaves it unreaped, so that its number stays its own.
func awaitEnd(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// bootID tells this run of the kernel from another.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}
