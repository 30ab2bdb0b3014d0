package evidence

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNoReplace renames in one step, so that no crash leaves a file with two names.
func renameNoReplace(temp, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return linkAndRemove(temp, path)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
	}
	return nil
}
