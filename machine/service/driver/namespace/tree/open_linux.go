package tree

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Links says whether symlinks may lead to the place that is meant. The last part of a path may never be one.
type Links int

const (
	NoLinks      Links = iota // in a guest: nothing on the way may be a symlink
	LinksOnWay                // on the host, whose own directories may be reached through symlinks
	resolveFlags = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// open opens an absolute path without waiting for a pipe's other end and without following a symlink in its last part.
func open(path string, flags int, links Links) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, unsafePath("%s is not absolute", path)
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK)}
	if links == NoLinks {
		how.Resolve = resolveFlags
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, filepath.Clean(path), &how)
	if err != nil {
		return nil, sorted(path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openRoot opens a directory as a root that nothing below it can lead out of.
func openRoot(dir *os.File) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
}
