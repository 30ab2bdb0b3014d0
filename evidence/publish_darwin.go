package evidence

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNoReplace renames in one step, so that no crash leaves a file with two names.
func renameNoReplace(temp, path string) error {
	err := unix.RenamexNp(temp, path, unix.RENAME_EXCL)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return linkAndRemove(temp, path)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: temp, New: path, Err: err}
	}
	return nil
}
