package guestinit

import (
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/seccomp"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

// Setup runs the first stage, and returns only when it failed. next is the argument list of the second.
//
// Capabilities, no_new_privs, the filter and the control group namespace belong to threads. Ours has them when it calls
// exec, which ends all others, so the second stage and everything it starts inherit them; this holds with cgo too.
func Setup(next []string) int {
	runtime.LockOSThread()
	control := os.NewFile(controlFD, "control")
	var cfg SetupConfig
	if err := wire.Receive(control, wire.KindRequest, &cfg); err != nil {
		return 1 // the driver is gone: nobody knows of us
	}
	steps := []step{
		{"hide inherited files", closeInherited},
		{"enter a control group namespace", func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) }},
		{"set the host name", func() error { return unix.Sethostname([]byte(cfg.Name)) }},
		{"bring up the loopback interface", loopbackUp},
	}
	steps = append(steps, rootSteps(cfg)...)
	steps = append(steps,
		step{"set resource limits", func() error { return limitResources(cfg.Pids) }},
		step{"drop capabilities", dropCapabilities},
		step{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		step{"install the system call filter", seccomp.Policy{PretendSetgroups: !cfg.ManyUIDs}.Install},
		step{"execute the init", func() error { return syscall.Exec("/proc/self/exe", next, initEnvironment) }},
	)
	return fail(control, runSteps(steps))
}

// initEnvironment keeps the runtime of an idle init small.
var initEnvironment = []string{"PATH=" + guestPath, "GOMAXPROCS=2", "GOGC=50"}

// closeInherited closes at the next exec whatever a careless parent left open.
func closeInherited() error {
	return unix.CloseRange(slotFD+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}
