package namespace

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

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
	if err != nil || !status.FirstOfOwnNamespace() || !ofThisUser(pid, status.UID) {
		return found{}, false
	}
	stat, err := proc.ReadStat(pid)
	if err != nil || stat.Gone() {
		return found{}, false
	}
	return found{pid: pid, mark: args[2], name: args[3]}, true
}

func ofThisUser(pid, uid int) bool {
	if me := os.Geteuid(); me != 0 {
		return uid == me
	}
	if hasAllIDs() {
		return isGuestID(uid)
	}
	by, err := userNamespaceOwner(pid)
	return err != nil || by == 0 // in doubt it is listed: a list proves an absence
}

// userNamespaceOwner returns who made the user namespace that a process is in.
func userNamespaceOwner(pid int) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	uid, err := unix.IoctlGetUint32(int(f.Fd()), unix.NS_GET_OWNER_UID)
	return int(uid), err
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
	by   owner // zero when the name does not tell
	name string
	stat unix.Stat_t
}

// cgroupName is the name of a guest's control groups. A driver makes them before it puts the waiting init in; that they
// name it keeps others from taking them for left behind meanwhile.
func cgroupName(mark string, by owner, name string) string {
	return mark + "-" + by.String() + "-" + name
}

func parseCgroupName(group string) (foundGroup, bool) {
	if len(group) <= markLength+1 || group[markLength] != '-' {
		return foundGroup{}, false
	}
	g := foundGroup{mark: group[:markLength], name: group[markLength+1:]}
	text, name, _ := strings.Cut(g.name, "-")
	if by, ok := parseOwner(text); ok && name != "" {
		g.by, g.name = by, name
	}
	return g, true
}

// findGroups returns the control groups of this user's guests, of any service, wherever they are: what was delegated to
// the service need not be what was delegated to us.
func findGroups() []foundGroup {
	var groups []foundGroup
	for path, name := range cgroup.Host().Groups() {
		g, ok := parseCgroupName(name)
		if !ok || unix.Stat(path, &g.stat) != nil || int(g.stat.Uid) != os.Geteuid() {
			continue
		}
		g.path = path
		groups = append(groups, g)
	}
	return groups
}
