package guestinit

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// kept are the capabilities of root in a guest, over what belongs to the guest. Among those dropped is CAP_SYS_PTRACE:
// without it nobody can look into init, which is not dumpable.
var kept = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_AUDIT_WRITE,
	unix.CAP_SETFCAP,
}

// dropCapabilities limits what any later exec can have; this thread keeps its own until then.
func dropCapabilities() error {
	for c := 0; c <= 63; c++ {
		if slices.Contains(kept, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if err == unix.EINVAL {
			break // the kernel has no more
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

func limitResources(pids int) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("core: %w", err)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		return fmt.Errorf("nproc: %w", err)
	}
	n := min(uint64(pids), now.Max)
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return fmt.Errorf("nproc: %w", err)
	}
	return nil
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request)
}
