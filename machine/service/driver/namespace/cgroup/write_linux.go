package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// period of the CPU bandwidth limit, in microseconds.
const period = 100_000

// Outcome says of each controller why it does not limit the guest; a controller that is not in it does.
type Outcome map[Controller]string

// Create makes the groups, sets the limits and moves the process in. What fails is in the outcome, and its group is
// removed. The process should not have done anything yet: what it allocated before is not counted.
func (p Plan) Create(limits Limits, pid int) Outcome {
	out := Outcome{}
	for c, why := range p.why {
		out[c] = why
	}
	for _, g := range p.groups {
		if err := g.create(p.Name, limits, pid, out); err != nil {
			os.Remove(g.path(p.Name))
			for _, c := range g.Controllers {
				out[c] = err.Error()
			}
		}
	}
	return out
}

// create fails when the process cannot be moved in; a limit that cannot be set is noted only.
func (g group) create(name string, limits Limits, pid int, out Outcome) error {
	err := g.make(name)
	for range 5 { // another service may remove the parent just when it is empty
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		err = g.make(name)
	}
	if err != nil {
		return err
	}
	for _, c := range g.Controllers {
		if err := g.limit(g.path(name), c, limits); err != nil {
			out[c] = err.Error()
		}
	}
	if err := set(g.path(name), "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("cannot move the guest into its cgroup: %w", err)
	}
	return nil
}

// make makes the guest's group and its parent.
func (g group) make(name string) error {
	if err := g.delegate(g.base); err != nil {
		return err
	}
	if err := os.Mkdir(g.parent(), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make cgroup %s: %w", g.parent(), err)
	}
	if err := g.delegate(g.parent()); err != nil {
		return err
	}
	if err := os.Mkdir(g.path(name), 0o755); err != nil {
		return fmt.Errorf("cannot make cgroup %s: %w", g.path(name), err)
	}
	return nil
}

// delegate hands the controllers to the groups below dir.
func (g group) delegate(dir string) error {
	if !g.Unified {
		return nil // version 1 needs no leave
	}
	for _, c := range g.Controllers {
		err := set(dir, "cgroup.subtree_control", "+"+string(c))
		if err != nil && !delegated(dir, c) {
			return fmt.Errorf("cannot hand the %s controller on: %w", c, err)
		}
	}
	return nil
}

func delegated(dir string, c Controller) bool {
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return slices.Contains(strings.Fields(string(data)), string(c))
}

func (g group) limit(dir string, c Controller, l Limits) error {
	switch {
	case c == Memory && l.Memory > 0:
		return g.limitMemory(dir, strconv.FormatInt(l.Memory, 10))
	case c == Pids && l.Pids > 0:
		return set(dir, "pids.max", strconv.Itoa(l.Pids))
	case c == CPU && l.CPUs > 0 && g.Unified:
		return set(dir, "cpu.max", fmt.Sprintf("%d %d", l.CPUs*period, period))
	case c == CPU && l.CPUs > 0:
		if err := set(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
			return err
		}
		return set(dir, "cpu.cfs_quota_us", strconv.Itoa(l.CPUs*period))
	}
	return nil
}

// limitMemory bounds memory and memory with swap together. A kernel that does not account for swap has no second file.
func (g group) limitMemory(dir, bytes string) error {
	file, swap, swapValue := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes
	if g.Unified {
		file, swap, swapValue = "memory.max", "memory.swap.max", "0"
	}
	if err := set(dir, file, bytes); err != nil {
		return err
	}
	if err := set(dir, swap, swapValue); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// set writes a control file. The kernel allows no new files, so there O_CREATE only changes the error of a missing one;
// it lets a plain directory stand for a tree.
func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func mayWrite(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

// Remove removes groups whose processes have ended, and their parent with the last of them; the kernel may need a moment
// to see that. A group that is not there is no error.
func Remove(paths []string, atMost time.Duration) error {
	until := time.Now().Add(atMost)
	var errs []error
	for _, path := range paths {
		for {
			err := unix.Rmdir(path)
			if err == nil || err == unix.ENOENT {
				_ = unix.Rmdir(filepath.Dir(path)) // fails while other guests are in it
				break
			}
			if err != unix.EBUSY || time.Now().After(until) {
				errs = append(errs, fmt.Errorf("cannot remove cgroup %s: %w", path, err))
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return errors.Join(errs...)
}

// Processes returns the processes in a group, as this pid namespace sees them; none when the group is not there.
func Processes(path string) []int {
	data, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
