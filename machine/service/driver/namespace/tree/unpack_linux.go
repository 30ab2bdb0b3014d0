package tree

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what one Unpack takes, so that a guest cannot fill the host with one sparse file.
type Bounds struct {
	Bytes   int64
	Entries int
}

// Unpack reads a packed source from r and puts it at path, or below path under the name base when path is a directory
// already. Parents must exist. Existing files are replaced, each by a whole one; a directory that exists is merged into.
// When r fails, and it fails when its content is not whole, nothing has changed under the final name.
func Unpack(r io.Reader, path, base string, links Links, bounds Bounds) error {
	parent, name, err := place(path, base, links)
	if err != nil {
		return err
	}
	defer parent.Close()
	root, err := openRoot(parent)
	if err != nil {
		return err
	}
	defer root.Close()
	temp := fmt.Sprintf(".%.40s.%s.part", name, rand.Text()[:10])
	defer root.RemoveAll(temp)
	if err := unpackTo(r, root, temp, bounds); err != nil {
		return err
	}
	return move(root, temp, name)
}

// place opens the directory that will hold the result, and says under which name.
func place(path, base string, links Links) (*os.File, string, error) {
	path = filepath.Clean(path)
	dir, err := open(path, unix.O_DIRECTORY|unix.O_RDONLY, links)
	if err == nil && base != "" {
		if !plainName(base) {
			dir.Close()
			return nil, "", unsafePath("%q is not a plain name", base)
		}
		return dir, base, nil
	}
	if err == nil {
		dir.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if !plainName(filepath.Base(path)) {
		return nil, "", unsafePath("%q cannot be replaced", path)
	}
	dir, err = open(filepath.Dir(path), unix.O_DIRECTORY|unix.O_RDONLY, links)
	return dir, filepath.Base(path), err
}

func plainName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

func unpackTo(r io.Reader, root *os.Root, temp string, bounds Bounds) error {
	archive := tar.NewReader(r)
	for n := 0; ; n++ {
		header, err := archive.Next()
		if err == io.EOF {
			if n == 0 {
				return errors.New("nothing was sent")
			}
			_, err = io.Copy(io.Discard, r) // to the very end: only there the sum is checked
			return err
		}
		if err != nil {
			return err
		}
		if bounds.Bytes -= header.Size; n >= bounds.Entries || bounds.Bytes < 0 {
			return errors.New("the tree is larger than a transfer may be")
		}
		if err := unpackEntry(archive, header, root, temp, n == 0); err != nil {
			return err
		}
	}
}

func unpackEntry(r io.Reader, header *tar.Header, root *os.Root, temp string, first bool) error {
	rel := strings.TrimSuffix(header.Name, "/")
	if (rel == ".") != first || !filepath.IsLocal(rel) || filepath.Clean(rel) != rel {
		return unsafePath("%q is not a name below the tree", header.Name)
	}
	target := filepath.Join(temp, rel)
	perm := fs.FileMode(header.Mode).Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		return root.Mkdir(target, perm|0o700)
	case tar.TypeReg:
		file, err := root.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, r)
		if first && err == nil {
			err = file.Sync()
		}
		return errors.Join(err, file.Close())
	}
	return unsafePath("%q is neither a file nor a directory", header.Name)
}

// move puts from under the name to: a file replaces a file, a directory is merged into one that exists.
func move(root *os.Root, from, to string) error {
	have, err := root.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return root.Rename(from, to)
	}
	if err != nil {
		return err
	}
	come, err := root.Lstat(from)
	if err != nil {
		return err
	}
	switch {
	case have.Mode().IsRegular() && come.Mode().IsRegular():
		return root.Rename(from, to)
	case !have.IsDir() || !come.IsDir():
		return unsafePath("%s is a %s, not to be replaced by a %s", to, kindOf(have), kindOf(come))
	}
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(from))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := move(root, filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "directory"
	case info.Mode().IsRegular():
		return "file"
	case info.Mode()&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "special file"
}
