package tree

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// ErrUnsafe means that a symlink, a special file or a name that leads elsewhere was met.
var ErrUnsafe = errors.New("path refused")

func unsafePath(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsafe, fmt.Sprintf(format, args...))
}

// sorted gives an error of opening its kind: a symlink on the way is unsafe, a missing part is fs.ErrNotExist.
func sorted(path string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		return unsafePath("%s leads through a symlink", path)
	case errors.Is(err, unix.ENXIO):
		return unsafePath("%s is a special file", path)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrNotExist):
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}
