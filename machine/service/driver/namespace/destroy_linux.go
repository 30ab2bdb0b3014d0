package namespace

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// endWait is how long processes and control groups may take to be gone.
const endWait = 20 * time.Second

// erase ends a machine and removes all that is left of it but the folder itself, the record last: as long as anything
// may be there, the record says what. handle is nil when there is no process. It may be repeated.
//
// The end of init is the end of its pid namespace: the kernel reports it only after every process in it is gone, and the
// mounts, which are in namespaces of theirs, go with the last of them. A namespace whose init ended earlier is not looked
// for: its number may long be that of another guest's.
func erase(folder string, r *record, handle *proc.Handle) error {
	if handle != nil {
		if err := handle.Kill(); err != nil {
			return fmt.Errorf("cannot end machine %s: %w", r.Name, err)
		}
		if !handle.Wait(endWait) {
			return fmt.Errorf("cannot end machine %s: its init was killed but is not gone after %s", r.Name, endWait)
		}
		if left := membersOf(r.PIDNamespace); len(left) > 0 {
			return fmt.Errorf("cannot end machine %s: processes %v are left", r.Name, left)
		}
	}
	if err := cgroup.Remove(r.Cgroups, endWait); err != nil {
		return err
	}
	return removeFiles(folder)
}

// membersOf returns the living processes in a pid namespace.
func membersOf(namespace uint64) []int {
	if namespace == 0 {
		return nil
	}
	pids, _ := proc.Pids()
	var members []int
	for _, pid := range pids {
		if pidNamespace(pid) != namespace {
			continue
		}
		if stat, err := proc.ReadStat(pid); err == nil && !stat.Gone() {
			members = append(members, pid)
		}
	}
	return members
}

// holdInit takes hold of the init that a record names; nil when it is gone.
func holdInit(r *record) (*proc.Handle, error) {
	if r.Init == nil {
		return nil, nil
	}
	handle, err := proc.Open(*r.Init)
	if errors.Is(err, proc.ErrOther) {
		return nil, nil
	}
	return handle, err
}
