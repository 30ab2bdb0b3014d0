package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// Sweep ends guests that carry our mark and whose names are not in live, and removes their control groups. Of other
// services of this user, and of checks, it removes only what can be nobody's any more: control groups without a process
// and folders of checks, both of processes that are dead. Their guests end by themselves when nobody renews them.
func (d *hostDriver) Sweep(ctx context.Context, live map[string]bool) ([]string, error) {
	d.checking.Lock()
	defer d.checking.Unlock()
	removed, checkErr := d.sweepChecks()
	errs := []error{checkErr}
	inits, err := findInits()
	if err != nil {
		return removed, errors.Join(checkErr, err)
	}
	for _, f := range inits {
		if f.mark != d.mark || live[f.name] || d.isMaking(f.name) {
			continue
		}
		if err := endOrphan(f); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, fmt.Sprintf("guest %s (pid %d)", f.name, f.pid))
	}
	for _, g := range findGroups() {
		if ctx.Err() != nil {
			return removed, errors.Join(append(errs, ctx.Err())...)
		}
		if !d.sweepable(g, live) {
			continue
		}
		if g.mark != d.mark {
			if cgroup.Remove([]string{g.path}, 0) == nil { // not empty after all: then it is not ours to wait for
				removed = append(removed, "cgroup "+g.path)
			}
			continue
		}
		if err := cgroup.Remove([]string{g.path}, endWait); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "cgroup "+g.path)
	}
	slices.Sort(removed)
	return removed, errors.Join(errs...)
}

// sweepChecks removes what checks left that were killed: our own service's and doctors'.
func (d *hostDriver) sweepChecks() ([]string, error) {
	removed, err := sweepTempChecks()
	if d.opt.StateDir == "" || !exists(d.ownCheckFolder()) {
		return removed, err
	}
	if ownErr := clearCheck(d.ownCheckFolder()); ownErr != nil {
		return removed, errors.Join(err, fmt.Errorf("cannot clear %s: %w", d.ownCheckFolder(), ownErr))
	}
	return append(removed, "folder "+d.ownCheckFolder()), err
}

func (d *hostDriver) sweepable(g foundGroup, live map[string]bool) bool {
	if g.mark == d.mark {
		return !live[g.name] && !d.isMaking(g.name)
	}
	return leftBehind(g.by, g.stat) && len(cgroup.Processes(g.path)) == 0
}

// endOrphan ends a guest that was found. The process is held first and looked at again then, so that what is killed is
// what was found.
func endOrphan(f found) error {
	handle, err := proc.OpenPID(f.pid)
	if errors.Is(err, proc.ErrOther) {
		return nil
	}
	if err != nil {
		return err
	}
	defer handle.Close()
	if now, ok := initAt(f.pid); !ok || now != f || handle.Ended() {
		return nil
	}
	if err := handle.Kill(); err != nil {
		return fmt.Errorf("cannot end abandoned machine %s: %w", f.name, err)
	}
	if !handle.Wait(endWait) {
		return fmt.Errorf("cannot end abandoned machine %s: pid %d was killed but is not gone", f.name, f.pid)
	}
	return nil
}
