package fake

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

var errSpecial = errors.New("a transfer cannot contain symlinks or special files")

// copyInto copies a file or a tree. A target that is a folder takes the source inside it.
func copyInto(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if target, err := os.Stat(to); err == nil && target.IsDir() {
		to = filepath.Join(to, filepath.Base(from))
	}
	if !info.IsDir() {
		return copyFile(from, to, info)
	}
	return filepath.Walk(from, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), info.Mode().Perm())
		}
		return copyFile(path, filepath.Join(to, rel), info)
	})
}

// copyFile lets the copy appear under its name only when it is whole.
func copyFile(from, to string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s", errSpecial, from)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".copy-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // gone already when it was renamed
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
