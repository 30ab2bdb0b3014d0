package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile is never unlinked or replaced: a lock on an unlinked file excludes nobody.
const lockFile = "owner.lock"

// errLocked means that another open file description holds the lock.
var errLocked = errors.New("the owner lock is held")

// ownerLock is the kernel's lock on a guest: held by at most one process, freed when it dies, however it dies.
type ownerLock struct{ file *os.File }

// takeLock takes the lock at once or fails with errLocked. A symlink, directory or special file in its place is refused.
func takeLock(dir string) (*ownerLock, error) {
	path := filepath.Join(dir, lockFile)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the owner lock %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the owner lock %s: %w", path, errors.Join(err, file.Close()))
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		closeErr := file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("cannot lock %s: %w", path, errors.Join(err, closeErr))
	}
	return &ownerLock{file: file}, nil
}

// release frees the lock; again is fine.
func (l *ownerLock) release() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
