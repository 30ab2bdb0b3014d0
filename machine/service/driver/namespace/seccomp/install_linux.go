package seccomp

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Install puts the filter on the calling thread, and so on everything it starts or becomes. The caller has locked its
// goroutine to the thread and set no_new_privs, and goes on with exec: other threads of the process stay unfiltered.
func (p Policy) Install() error {
	if auditArch == 0 {
		return fmt.Errorf("no filter for architecture %s", runtime.GOARCH)
	}
	program := p.Filter()
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return errno
	}
	return nil
}
