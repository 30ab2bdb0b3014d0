//go:build linux && !amd64 && !arm64

package seccomp

// No filter is known for this architecture: Install refuses.
const (
	auditArch = 0
	hasX32    = false
)

var archDenied []uint32
