package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	hasX32    = true
)

var archDenied = []uint32{unix.SYS_KEXEC_FILE_LOAD}
