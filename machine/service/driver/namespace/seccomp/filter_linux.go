package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Classic BPF as seccomp uses it.
const (
	opLoad     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opEqual    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opAtLeast  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opAnySet   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opReturn   = unix.BPF_RET | unix.BPF_K
	retKill    = 0x80000000
	retErrno   = 0x00050000
	retAllow   = 0x7fff0000
	offsetNr   = 0
	offsetArch = 4
)

// offsetArg is where the low half of argument n lies on a little-endian machine.
func offsetArg(n uint32) uint32 { return 16 + 8*n }

// x32 system calls carry this bit; they are a second way to every call, so all are refused.
const x32Bit = 0x40000000

// namespaceFlags make new namespaces in clone and unshare. CLONE_NEWTIME shares its bit with clone's exit signal, so it
// counts for unshare only.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// families are the socket families of a guest.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// Terminal commands that put input into somebody else's terminal.
const tioclinux = 0x541c

var denied = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_QUOTACTL,
	unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_FANOTIFY_INIT,
}

// Policy is what differs between guests.
type Policy struct {
	// PretendSetgroups makes setgroups succeed without doing anything. A guest with one user id only may not call it, and
	// programs that drop their supplementary groups at the start (terminals, for one) would not run.
	PretendSetgroups bool
}

// Filter is the program for this architecture. Denied calls fail with EPERM; clone3, whose flags a filter cannot read,
// fails with ENOSYS so that libraries fall back to clone; calls of a foreign architecture kill the caller.
func (p Policy) Filter() []unix.SockFilter {
	var b builder
	b.load(offsetArch)
	b.skipUnlessEqual(auditArch, 1)
	b.jump(1)
	b.ret(retKill)
	b.load(offsetNr)
	if hasX32 {
		b.add(opAtLeast, x32Bit, 0, 1)
		b.ret(retErrno | uint32(unix.ENOSYS))
	}
	b.refuse(unix.SYS_CLONE3, unix.ENOSYS)
	for _, nr := range slices.Concat(denied, archDenied) {
		b.refuse(nr, unix.EPERM)
	}
	if p.PretendSetgroups {
		b.refuse(unix.SYS_SETGROUPS, 0)
	}
	b.refuseFlags(unix.SYS_CLONE, 0, namespaceFlags)
	b.refuseFlags(unix.SYS_UNSHARE, 0, namespaceFlags|unix.CLONE_NEWTIME)
	b.refuseValues(unix.SYS_IOCTL, 1, unix.TIOCSTI, tioclinux)
	b.allowValues(unix.SYS_SOCKET, 0, unix.EAFNOSUPPORT, families)
	b.allowValues(unix.SYS_SOCKETPAIR, 0, unix.EAFNOSUPPORT, families)
	b.ret(retAllow)
	return b.program
}

// builder appends instructions. Every check begins and ends with the call number in the accumulator.
type builder struct{ program []unix.SockFilter }

func (b *builder) add(code uint16, k uint32, ifTrue, ifFalse uint8) {
	b.program = append(b.program, unix.SockFilter{Code: code, Jt: ifTrue, Jf: ifFalse, K: k})
}

func (b *builder) load(offset uint32) { b.add(opLoad, offset, 0, 0) }
func (b *builder) ret(value uint32)   { b.add(opReturn, value, 0, 0) }
func (b *builder) jump(n uint32)      { b.add(unix.BPF_JMP|unix.BPF_JA, n, 0, 0) }

// skipUnlessEqual passes over the next n instructions unless the accumulator is k.
func (b *builder) skipUnlessEqual(k uint32, n uint8) { b.add(opEqual, k, 0, n) }

func (b *builder) refuse(nr uint32, errno unix.Errno) {
	b.skipUnlessEqual(nr, 1)
	b.ret(retErrno | uint32(errno))
}

// refuseFlags refuses call nr when argument arg has any of the flags.
func (b *builder) refuseFlags(nr, arg, flags uint32) {
	b.skipUnlessEqual(nr, 4)
	b.load(offsetArg(arg))
	b.add(opAnySet, flags, 0, 1)
	b.ret(retErrno | uint32(unix.EPERM))
	b.load(offsetNr)
}

// refuseValues refuses call nr when argument arg is one of the values.
func (b *builder) refuseValues(nr, arg uint32, values ...uint32) {
	b.skipUnlessEqual(nr, uint8(2+2*len(values)))
	b.load(offsetArg(arg))
	for _, v := range values {
		b.refuse(v, unix.EPERM)
	}
	b.load(offsetNr)
}

// allowValues refuses call nr unless argument arg is one of the values.
func (b *builder) allowValues(nr, arg uint32, errno unix.Errno, values []uint32) {
	b.skipUnlessEqual(nr, uint8(3+len(values)))
	b.load(offsetArg(arg))
	for i, v := range values {
		b.add(opEqual, v, uint8(len(values)-i), 0)
	}
	b.ret(retErrno | uint32(errno))
	b.load(offsetNr)
}
