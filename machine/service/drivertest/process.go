package drivertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startTime is a process's start in clock ticks since boot. A zombie has none: it has ended.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", os.ErrProcessDone
	}
	return fields[19], nil
}

// environmentOf is the value of a key in a process's environment.
func environmentOf(pid int, key string) string {
	for _, entry := range environ(pid) {
		if value, ok := strings.CutPrefix(entry, key); ok {
			return value
		}
	}
	return ""
}

func environ(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil // it has ended, or is not ours
	}
	return strings.Split(string(data), "\x00")
}

// marked lists the processes that carry the entry in their environment.
func marked(entry string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if slices.Contains(environ(pid), entry) {
			if _, err := startTime(pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// killAll kills every process with the mark and returns when there is none.
func killAll(entry string) error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		pids, err := marked(entry)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("cannot kill process %d: %w", pid, err)
			}
		}
	}
	return errors.New("processes of the machine do not end")
}
