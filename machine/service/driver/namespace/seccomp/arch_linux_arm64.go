package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	hasX32    = false
)

var archDenied = []uint32{unix.SYS_KEXEC_FILE_LOAD}
