package receiver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// hashChunk is how much of a file is read at once; long files are read without filling memory.
const hashChunk = 8 << 20

// walk calls visit for every regular file of tree below root, in order of names, with its path relative to tree: "" when
// tree itself is a file. A link or a special file anywhere is an error.
func walk(root, tree string, visit func(dir *os.File, name, path string, size int64) error) error {
	if rel, err := within(root, tree); err != nil {
		return err
	} else if rel == "." {
		dir, err := openDir(root, ".")
		if err != nil {
			return err
		}
		return walkDir(dir, "", visit)
	}
	parent, name, err := openParent(root, tree)
	if err != nil {
		return err
	}
	defer parent.Close()
	return walkEntry(parent, name, "", visit)
}

// walkDir walks an open directory and closes it.
func walkDir(dir *os.File, prefix string, visit func(*os.File, string, string, int64) error) error {
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return pathFailure(dir.Name(), err)
	}
	slices.Sort(names)
	for _, name := range names {
		if !utf8.ValidString(name) {
			return failure(protocol.CodeUnsafe, dir.Name(), "name %q in %s is not UTF-8", name, dir.Name())
		}
		if err := walkEntry(dir, name, filepath.Join(prefix, name), visit); err != nil {
			return err
		}
	}
	return nil
}

func walkEntry(dir *os.File, name, path string, visit func(*os.File, string, string, int64) error) error {
	full := filepath.Join(dir.Name(), name)
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return pathFailure(full, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return visit(dir, name, path, st.Size)
	case unix.S_IFDIR:
		child, err := openAt(dir, name, openDirFlags, 0)
		if err != nil {
			return err
		}
		return walkDir(child, path, visit)
	case unix.S_IFLNK:
		return failure(protocol.CodeUnsafe, full, "%s is a symbolic link", full)
	}
	return failure(protocol.CodeUnsafe, full, "%s is not a regular file", full)
}

// measure adds up a tree without reading it.
func measure(root, tree string) (protocol.Size, error) {
	var s protocol.Size
	err := walk(root, tree, func(_ *os.File, _, _ string, size int64) error {
		s.Files++
		s.Bytes += min(size, math.MaxInt64-s.Bytes)
		s.Largest = max(s.Largest, size)
		return nil
	})
	return s, err
}

// inventory hashes every file of a tree.
func inventory(root, tree string) ([]protocol.Fact, error) {
	facts := []protocol.Fact{}
	buffer := make([]byte, hashChunk)
	err := walk(root, tree, func(dir *os.File, name, path string, size int64) error {
		f, err := openRegular(dir, name)
		if err != nil {
			return err
		}
		defer f.Close()
		sum, err := hashWhole(f, size, buffer)
		if err != nil {
			return err
		}
		facts = append(facts, protocol.Fact{Path: path, SHA256: sum, Bytes: size})
		return nil
	})
	return facts, err
}

// hashWhole hashes an open file that must hold exactly size bytes, before and after, and must not be written meanwhile.
func hashWhole(f *os.File, size int64, buffer []byte) (string, error) {
	before, err := identify(f)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	// The struct hides os.File's own WriteTo, which would not use our buffer.
	n, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, buffer)
	if err != nil {
		return "", pathFailure(f.Name(), err)
	}
	after, err := identify(f)
	if err != nil {
		return "", err
	}
	if before != after || n != size {
		return "", failure(protocol.CodeChanged, f.Name(), "%s changed while it was read", f.Name())
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// identify is what tells a file from another, or from itself rewritten: device, inode, size, times of change.
func identify(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", pathFailure(f.Name(), err)
	}
	return fmt.Sprintf("%d:%d:%d:%d:%d", st.Dev, st.Ino, st.Size, changed(&st), statusChanged(&st)), nil
}
