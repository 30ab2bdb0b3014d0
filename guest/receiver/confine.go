package receiver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Everything below opens one component at a time and never follows a link, at the root or below it. Directories above the
// root may be links: that is how an operating system names its temporary folders.

const (
	openDirFlags  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	openFileFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
)

// within is target relative to root, "." for root itself. It looks at the names only.
func within(root, target string) (string, error) {
	if !filepath.IsAbs(root) || !filepath.IsAbs(target) || strings.ContainsRune(root+target, 0) {
		return "", failure(protocol.CodeInvalid, target, "root and path must be absolute")
	}
	rel, err := filepath.Rel(root, target)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", failure(protocol.CodeUnsafe, target, "path is outside its root %s", root)
	}
	return rel, nil
}

// openDir opens the directory rel below root.
func openDir(root, rel string) (*os.File, error) {
	fd, err := unix.Open(root, openDirFlags, 0)
	if err != nil {
		return nil, pathFailure(root, err)
	}
	dir := os.NewFile(uintptr(fd), root)
	if rel == "." {
		return dir, nil
	}
	for part := range strings.SplitSeq(rel, "/") {
		next, err := openAt(dir, part, openDirFlags, 0)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// openParent opens the directory that holds target below root and returns it with target's last name.
func openParent(root, target string) (*os.File, string, error) {
	rel, err := within(root, target)
	if err != nil {
		return nil, "", err
	}
	if rel == "." {
		return nil, "", failure(protocol.CodeInvalid, target, "path is the root itself")
	}
	dir, err := openDir(root, filepath.Dir(rel))
	return dir, filepath.Base(rel), err
}

// openFile opens the regular file target below root for reading.
func openFile(root, target string) (*os.File, error) {
	dir, name, err := openParent(root, target)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openRegular(dir, name)
}

// openRegular opens the regular file name in dir for reading.
func openRegular(dir *os.File, name string) (*os.File, error) {
	f, err := openAt(dir, name, openFileFlags, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = failure(protocol.CodeUnsafe, f.Name(), "not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// createFile creates target below root, which must not exist, mode 0600.
func createFile(root, target string) (*os.File, error) {
	dir, name, err := openParent(root, target)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openAt(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
}

// makeDirs makes the directory rel below root and the ones above it, mode 0700, each name durable.
func makeDirs(root, rel string) error {
	dir, err := openDir(root, ".")
	if err != nil || rel == "." {
		if dir != nil {
			dir.Close()
		}
		return err
	}
	for part := range strings.SplitSeq(rel, "/") {
		err := unix.Mkdirat(int(dir.Fd()), part, 0o700)
		if err == nil {
			err = dir.Sync()
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			err = pathFailure(filepath.Join(dir.Name(), part), err)
			dir.Close()
			return err
		}
		next, err := openAt(dir, part, openDirFlags, 0)
		dir.Close()
		if err != nil {
			return err
		}
		dir = next
	}
	return dir.Close()
}

// removeFile removes target below root. A missing one is fine, a directory is not.
func removeFile(root, target string) error {
	dir, name, err := openParent(root, target)
	if err == nil {
		defer dir.Close()
		if err = unix.Unlinkat(int(dir.Fd()), name, 0); err != nil {
			err = pathFailure(target, err)
		}
	}
	if f := (*protocol.Failure)(nil); errors.As(err, &f) && f.Code == protocol.CodeMissing {
		return nil
	}
	return err
}

func openAt(dir *os.File, name string, flags int, perm uint32) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags, perm)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, pathFailure(path, err)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// failure makes the answer of a verb that could not do its work.
func failure(code, path, format string, args ...any) *protocol.Failure {
	return &protocol.Failure{Code: code, Path: path, Message: fmt.Sprintf(format, args...)}
}

// pathFailure gives an error from the system its code.
func pathFailure(path string, err error) *protocol.Failure {
	code := protocol.CodeIO
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = protocol.CodeMissing
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		code = protocol.CodeUnsafe
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		code = protocol.CodeSpace
	}
	return failure(code, path, "cannot use %s: %v", path, err)
}

// failureOf turns any error into a verb's answer.
func failureOf(err error) *protocol.Failure {
	var f *protocol.Failure
	if errors.As(err, &f) {
		return f
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return pathFailure(path.Path, path.Err)
	}
	return pathFailure("", err)
}
