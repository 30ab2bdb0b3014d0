package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// probeArg starts the test binary inside a guest as a process that tries to get out of it.
const probeArg = "probe-inside-a-guest"

// probes return, for each thing tried, "ok" or the kernel's refusal.
var probes = map[string]func(args []string) map[string]string{
	"syscalls": probeSyscalls,
	"init":     probeInit,
	"signals":  probeSignals,
	"write":    probeWrite,
	"dial":     probeDial,
	"check":    probeCheck,
}

func runProbe(name string, args []string) int {
	data, err := json.Marshal(probes[name](args))
	if err != nil {
		return 1
	}
	fmt.Println(string(data))
	return 0
}

func word(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil || errors.As(err, &errno) && errno == 0:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func probeSyscalls([]string) map[string]string {
	socket := func(family, kind int) error {
		fd, err := unix.Socket(family, kind, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	open := func(path string, flags int) error {
		f, err := os.OpenFile(path, flags, 0)
		if err == nil {
			f.Close()
		}
		return err
	}
	raw := func(nr uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		return errno
	}
	push := byte('x')
	tries := map[string]error{
		"mount":              unix.Mount("tmpfs", "/mnt", "tmpfs", 0, ""),
		"umount":             unix.Unmount("/proc/sys", unix.MNT_DETACH),
		"unshare user":       unix.Unshare(unix.CLONE_NEWUSER),
		"unshare mount":      unix.Unshare(unix.CLONE_NEWNS),
		"unshare semaphores": unix.Unshare(unix.CLONE_SYSVSEM),
		"clone user":         raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)),
		"clone3":             raw(unix.SYS_CLONE3, 0, 0),
		"setns":              unix.Setns(0, 0),
		"mknod device":       unix.Mknod("/tmp/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0))),
		"syslog":             raw(unix.SYS_SYSLOG, 10),
		"kmsg":               open("/dev/kmsg", os.O_RDONLY),
		"sysrq":              os.WriteFile("/proc/sysrq-trigger", []byte("h"), 0),
		"sysctl":             os.WriteFile("/proc/sys/kernel/panic", []byte("1"), 0),
		"sysctl net":         os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
		"bpf":                raw(unix.SYS_BPF),
		"keyctl":             raw(unix.SYS_KEYCTL),
		"io_uring":           raw(unix.SYS_IO_URING_SETUP),
		"userfaultfd":        raw(unix.SYS_USERFAULTFD),
		"perf":               raw(unix.SYS_PERF_EVENT_OPEN),
		"reboot":             raw(unix.SYS_REBOOT),
		"open by handle":     raw(unix.SYS_OPEN_BY_HANDLE_AT),
		"TIOCSTI":            raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&push))),
		"socket vsock":       socket(unix.AF_VSOCK, unix.SOCK_STREAM),
		"socket packet":      socket(unix.AF_PACKET, unix.SOCK_RAW),
		"socket alg":         socket(unix.AF_ALG, unix.SOCK_SEQPACKET),
		"socket raw":         socket(unix.AF_INET, unix.SOCK_RAW),
		"socket unix":        socket(unix.AF_UNIX, unix.SOCK_STREAM),
		"socket inet":        socket(unix.AF_INET, unix.SOCK_STREAM),
		"socket inet6":       socket(unix.AF_INET6, unix.SOCK_STREAM),
		"socket netlink":     socket(unix.AF_NETLINK, unix.SOCK_RAW),
		"set host name":      unix.Sethostname([]byte("other")),
		"set time":           unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{}),
		"lower oom score":    os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0),
		"raise file limits":  unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}),
	}
	found := map[string]string{}
	for name, err := range tries {
		found[name] = word(err)
	}
	return found
}

func probeInit([]string) map[string]string {
	found := map[string]string{}
	for _, path := range []string{"/proc/1/root", "/proc/1/cwd", "/proc/1/exe", "/proc/1/fd/2", "/proc/1/fd/4", "/proc/1/ns/net"} {
		_, err := os.Readlink(path)
		found["readlink "+path] = word(err)
	}
	for _, path := range []string{"/proc/1/mem", "/proc/1/maps", "/proc/1/environ", "/proc/1/exe", "/proc/1/root/etc", "/proc/1/fd/4"} {
		f, err := os.Open(path)
		if err == nil {
			f.Close()
		}
		found["open "+path] = word(err)
	}
	found["ptrace"] = word(unix.PtraceAttach(1))
	found["ptrace seize"] = word(unix.PtraceSeize(1))
	buffer := make([]byte, 8)
	_, err := unix.ProcessVMReadv(1, []unix.Iovec{{Base: &buffer[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	found["read memory"] = word(err)
	pidfd, err := unix.PidfdOpen(1, 0)
	if err == nil {
		_, err = unix.PidfdGetfd(pidfd, 4, 0)
		found["take file"] = word(err)
	}
	return found
}

// probeSignals sends every signal to init a few times. The sender goes on living only if init does.
func probeSignals([]string) map[string]string {
	found := map[string]string{}
	for range 3 {
		for sig := syscall.Signal(1); sig <= 64; sig++ {
			found[fmt.Sprint(int(sig))] = word(unix.Kill(1, sig))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return found
}

// probeWrite tries everything that changes a file or a directory.
func probeWrite(paths []string) map[string]string {
	found := map[string]string{}
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		info, statErr := os.Stat(path)
		if statErr != nil {
			found[path+" stat"] = word(statErr)
			continue
		}
		if info.IsDir() {
			f, err = os.Create(path + "/mcp-relay-canary")
			if err == nil {
				f.Close()
			}
		}
		found[path+" write"] = word(err)
		found[path+" chmod"] = word(os.Chmod(path, 0o777))
		found[path+" chown"] = word(os.Chown(path, 0, 0))
		found[path+" times"] = word(os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
		found[path+" attribute"] = word(unix.Setxattr(path, "user.canary", []byte("x"), 0))
		found[path+" rename"] = word(os.Rename(path, path+".moved"))
		found[path+" unlink"] = word(unix.Unlink(path))
	}
	return found
}

func probeDial(addresses []string) map[string]string {
	found := map[string]string{}
	for _, a := range addresses {
		network, address, _ := strings.Cut(a, "!")
		conn, err := net.DialTimeout(network, address, 2*time.Second)
		if err == nil {
			conn.Close()
		}
		found[a] = word(err)
	}
	return found
}

// probeCheck says why guests cannot be made where it runs. With an argument it first allows itself no namespaces.
func probeCheck(args []string) map[string]string {
	if len(args) > 0 {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			return map[string]string{"error": err.Error()}
		}
	}
	_, err := New(Options{Log: zerolog.Nop()}).Check(context.Background())
	if err == nil {
		return map[string]string{}
	}
	found := map[string]string{"error": err.Error()}
	var refusal *driver.Refusal
	if errors.As(err, &refusal) {
		found["code"] = refusal.Code
	}
	return found
}
