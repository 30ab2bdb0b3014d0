package seccomp

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// call is what the kernel shows a filter.
type call struct {
	arch, nr uint32
	args     [6]uint32
}

// decide runs a program as the kernel would.
func decide(t *testing.T, program []unix.SockFilter, c call) uint32 {
	t.Helper()
	var acc uint32
	for pc := 0; pc < len(program); pc++ {
		ins := program[pc]
		branch := func(holds bool) {
			if holds {
				pc += int(ins.Jt)
			} else {
				pc += int(ins.Jf)
			}
		}
		switch ins.Code {
		case opLoad:
			switch {
			case ins.K == offsetNr:
				acc = c.nr
			case ins.K == offsetArch:
				acc = c.arch
			default:
				acc = c.args[(ins.K-16)/8]
			}
		case opEqual:
			branch(acc == ins.K)
		case opAtLeast:
			branch(acc >= ins.K)
		case opAnySet:
			branch(acc&ins.K != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(ins.K)
		case opReturn:
			return ins.K
		default:
			t.Fatalf("unknown instruction %+v", ins)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

func refusal(errno unix.Errno) uint32 { return retErrno | uint32(errno) }

func TestFilterDecides(t *testing.T) {
	if auditArch == 0 {
		t.Skipf("no filter for %s", runtime.GOARCH)
	}
	args := func(a ...uint32) (out [6]uint32) { copy(out[:], a); return out }
	tests := []struct {
		name string
		call call
		want uint32
	}{
		{"read", call{nr: unix.SYS_READ}, retAllow},
		{"execve", call{nr: unix.SYS_EXECVE}, retAllow},
		{"foreign architecture", call{arch: unix.AUDIT_ARCH_I386 + 1, nr: unix.SYS_READ}, retKill},
		{"mount", call{nr: unix.SYS_MOUNT}, refusal(unix.EPERM)},
		{"last of the list", call{nr: denied[len(denied)-1]}, refusal(unix.EPERM)},
		{"clone3", call{nr: unix.SYS_CLONE3}, refusal(unix.ENOSYS)},
		{"thread", call{nr: unix.SYS_CLONE, args: args(unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_FILES)}, retAllow},
		{"clone into a user namespace", call{nr: unix.SYS_CLONE, args: args(unix.CLONE_NEWUSER | 17)}, refusal(unix.EPERM)},
		{"unshare files", call{nr: unix.SYS_UNSHARE, args: args(unix.CLONE_FILES)}, retAllow},
		{"unshare time", call{nr: unix.SYS_UNSHARE, args: args(unix.CLONE_NEWTIME)}, refusal(unix.EPERM)},
		{"terminal size", call{nr: unix.SYS_IOCTL, args: args(0, unix.TIOCGWINSZ)}, retAllow},
		{"TIOCSTI", call{nr: unix.SYS_IOCTL, args: args(0, unix.TIOCSTI)}, refusal(unix.EPERM)},
		{"TIOCLINUX", call{nr: unix.SYS_IOCTL, args: args(0, tioclinux)}, refusal(unix.EPERM)},
		{"setgroups", call{nr: unix.SYS_SETGROUPS}, retAllow},
	}
	for family := range uint32(50) {
		want := refusal(unix.EAFNOSUPPORT)
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
			want = retAllow
		}
		for name, nr := range map[string]uint32{"socket": unix.SYS_SOCKET, "socketpair": unix.SYS_SOCKETPAIR} {
			tests = append(tests, struct {
				name string
				call call
				want uint32
			}{fmt.Sprintf("%s of family %d", name, family), call{nr: nr, args: args(family)}, want})
		}
	}
	program := Policy{}.Filter()
	for _, tt := range tests {
		if tt.call.arch == 0 {
			tt.call.arch = auditArch
		}
		if got := decide(t, program, tt.call); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

func TestPretendedSetgroupsSucceeds(t *testing.T) {
	program := Policy{PretendSetgroups: true}.Filter()
	c := call{arch: auditArch, nr: unix.SYS_SETGROUPS}
	if got := decide(t, program, c); got != retErrno {
		t.Errorf("setgroups: %#x, want success without the call", got)
	}
	c.nr = unix.SYS_MOUNT
	if got := decide(t, program, c); got != refusal(unix.EPERM) {
		t.Errorf("mount: %#x, want EPERM", got)
	}
}

func TestX32CallsAreRefused(t *testing.T) {
	if !hasX32 {
		t.Skip("this architecture has no x32")
	}
	if got := decide(t, Policy{}.Filter(), call{arch: auditArch, nr: unix.SYS_MOUNT | x32Bit}); got != refusal(unix.ENOSYS) {
		t.Errorf("%#x, want ENOSYS", got)
	}
}
