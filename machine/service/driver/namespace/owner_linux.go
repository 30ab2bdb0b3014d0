package namespace

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// owner is the process that makes something which the kernel does not remove when the process dies. It stands in the
// name of what is made, so that there is no moment at which the thing is there and its owner is not known: whoever finds
// it empty can tell what was left behind from what is about to be filled.
type owner struct {
	namespace uint64 // inode of the pid namespace that pid is of
	pid       int
	start     uint64 // clock ticks since boot
}

// self is this process as an owner.
func self() (owner, error) {
	pid := os.Getpid()
	stat, err := proc.ReadStat(pid)
	if err != nil {
		return owner{}, err
	}
	return owner{namespace: pidNamespace(pid), pid: pid, start: stat.Start}, nil
}

// String has neither a hyphen nor a slash.
func (o owner) String() string { return fmt.Sprintf("%d.%d.%d", o.namespace, o.pid, o.start) }

func parseOwner(text string) (owner, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return owner{}, false
	}
	namespace, err1 := strconv.ParseUint(parts[0], 10, 64)
	pid, err2 := strconv.Atoi(parts[1])
	start, err3 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || pid < 1 {
		return owner{}, false
	}
	return owner{namespace: namespace, pid: pid, start: start}, true
}

// visible says that this process can tell whether the owner lives: it sees the same pids.
func (o owner) visible() bool { return o.namespace != 0 && o.namespace == pidNamespace(os.Getpid()) }

// dead says that the owner is known to have ended. In doubt it has not.
func (o owner) dead() bool {
	if !o.visible() {
		return false
	}
	if unix.Kill(o.pid, 0) == unix.ESRCH { // asked of the kernel: /proc may hide processes
		return true
	}
	stat, err := proc.ReadStat(o.pid)
	return err == nil && (stat.Start != o.start || stat.Gone())
}
