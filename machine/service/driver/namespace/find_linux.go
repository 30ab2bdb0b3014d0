package namespace

import (
	"os"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// found is the init of a guest as the process table shows it.
type found struct {
	pid  int
	mark string
	name string
}

// findInits returns the inits of this user's guests, of any service. What a process says of itself proves nothing, so an
// init must also be pid 1 of a pid namespace below ours and run under an id that only guests have, or the user's own: what
// could pretend that much is a guest's process at most.
func findInits() ([]found, error) {
	pids, err := proc.Pids()
	if err != nil {
		return nil, err
	}
	var inits []found
	for _, pid := range pids {
		if f, ok := initAt(pid); ok {
			inits = append(inits, f)
		}
	}
	return inits, nil
}

// initAt says whether the process is the living init of a guest of this user.
func initAt(pid int) (found, bool) {
	args, err := proc.Args(pid)
	if err != nil || !IsStage(args) || len(args[2]) != markLength {
		return found{}, false
	}
	status, err := proc.ReadStatus(pid)
	if err != nil || !status.FirstOfOwnNamespace() || !ofThisUser(status.UID) {
		return found{}, false
	}
	stat, err := proc.ReadStat(pid)
	if err != nil || stat.Gone() {
		return found{}, false
	}
	return found{pid: pid, mark: args[2], name: args[3]}, true
}

func ofThisUser(uid int) bool {
	if me := os.Geteuid(); me != 0 {
		return uid == me
	}
	return isGuestID(uid) || !hasAllIDs()
}

// hasAllIDs is false for the root of a container with few ids, whose guests' ids cannot be told by their number.
func hasAllIDs() bool {
	uidMap, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true
	}
	ids, err := rangeOf(string(uidMap), 0)
	return err != nil || ids.size == guestIDs
}

// foundGroup is the control group of a guest.
type foundGroup struct {
	path string
	mark string
	name string
}

func findGroups() []foundGroup {
	var groups []foundGroup
	for path, group := range cgroup.Host().Groups() {
		if len(group) > markLength+1 && group[markLength] == '-' {
			groups = append(groups, foundGroup{path: path, mark: group[:markLength], name: group[markLength+1:]})
		}
	}
	return groups
}
