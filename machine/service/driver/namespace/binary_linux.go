package namespace

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// binary is the program that becomes init, as a sealed copy in memory. A guest that finds a way to the file of its own
// init thus finds nothing of the host's, and nothing it can change, whoever owns the program on disk; and the program
// needs neither to stay where it is nor to be executable for the guest's user.
type binary struct {
	once sync.Once
	file *os.File
	err  error
}

// lowestFD keeps the file out of the way of those that a child is given by number.
const lowestFD = 64

func (b *binary) path(executable string) (string, error) {
	b.once.Do(func() { b.file, b.err = sealedCopy(executable) })
	if b.err != nil {
		return "", b.err
	}
	return descriptorPath(b.file), nil
}

func descriptorPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func sealedCopy(executable string) (*os.File, error) {
	if executable == "" {
		executable = "/proc/self/exe"
	}
	source, err := os.Open(executable)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	memory, err := executableMemory()
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	if _, err := io.Copy(memory, source); err != nil {
		return nil, err
	}
	if err := memory.Chmod(0o555); err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	reader, err := os.Open(descriptorPath(memory))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	fd, err := unix.FcntlInt(reader.Fd(), unix.F_DUPFD_CLOEXEC, lowestFD)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), executable), nil
}

func executableMemory() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(stageName, flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 all memory files are executable
		fd, err = unix.MemfdCreate(stageName, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create (see sysctl vm.memfd_noexec): %w", err)
	}
	return os.NewFile(uintptr(fd), stageName), nil
}
