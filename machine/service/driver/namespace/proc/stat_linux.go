package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Stat is what /proc/PID/stat says that we need.
type Stat struct {
	State   byte   // R, S, D, T, Z, X ...
	Group   int    // process group
	Session int    // session
	Start   uint64 // clock ticks since boot
}

// Gone says that nothing of the process runs any more: it waits for its parent at most.
func (s Stat) Gone() bool { return s.State == 'Z' || s.State == 'X' }

// ReadStat reads a process of this pid namespace.
func ReadStat(pid int) (Stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	return parseStat(data)
}

// parseStat begins behind the last parenthesis: the name before it may hold anything.
func parseStat(data []byte) (Stat, error) {
	i := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[i+1:]))
	if i < 0 || len(fields) < 20 {
		return Stat{}, fmt.Errorf("cannot read process status %q", data)
	}
	s := Stat{State: fields[0][0]}
	var err error
	if s.Group, err = strconv.Atoi(fields[2]); err != nil {
		return Stat{}, err
	}
	if s.Session, err = strconv.Atoi(fields[3]); err != nil {
		return Stat{}, err
	}
	s.Start, err = strconv.ParseUint(fields[19], 10, 64)
	return s, err
}

// Pids lists the processes of this pid namespace.
func Pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// Args reads the argument list a process was started with, or has since pretended to have.
func Args(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

// Status is what /proc/PID/status says that we need.
type Status struct {
	UID  int   // real user, as this namespace sees it
	Pids []int // pid in each pid namespace from here to the process's own
}

// FirstOfOwnNamespace says that the process is pid 1 of a pid namespace below ours.
func (s Status) FirstOfOwnNamespace() bool { return len(s.Pids) > 1 && s.Pids[len(s.Pids)-1] == 1 }

// ReadStatus reads a process of this pid namespace.
func ReadStatus(pid int) (Status, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Status{}, err
	}
	s := Status{UID: -1}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		switch {
		case key == "Uid" && len(fields) > 0:
			s.UID, err = strconv.Atoi(fields[0])
		case key == "NSpid":
			for _, f := range fields {
				n, convErr := strconv.Atoi(f)
				if convErr != nil {
					return Status{}, convErr
				}
				s.Pids = append(s.Pids, n)
			}
		}
		if err != nil {
			return Status{}, err
		}
	}
	return s, nil
}
