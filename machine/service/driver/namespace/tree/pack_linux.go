package tree

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Source is a file or a directory that was opened to be packed.
type Source struct {
	file *os.File
	info fs.FileInfo
}

// Open opens path, so that what is missing or refused is known before a stream begins.
func Open(path string, links Links) (*Source, error) {
	file, err := open(path, unix.O_RDONLY, links)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = unsafePath("%s is a special file", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Source{file: file, info: info}, nil
}

// Close closes the source.
func (s *Source) Close() error { return s.file.Close() }

// Pack writes the source to w. A file that shrinks meanwhile makes it fail; one that grows is cut.
func (s *Source) Pack(w io.Writer) error {
	archive := tar.NewWriter(w)
	if !s.info.IsDir() {
		if err := packFile(archive, ".", s.file, s.info); err != nil {
			return err
		}
		return archive.Close()
	}
	root, err := openRoot(s.file)
	if err != nil {
		return err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return packEntry(archive, root, path, entry)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func packEntry(archive *tar.Writer, root *os.Root, path string, entry fs.DirEntry) error {
	if entry.IsDir() {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: int64(info.Mode().Perm())})
	}
	if !entry.Type().IsRegular() {
		return unsafePath("%s is not a regular file (%s)", path, entry.Type())
	}
	file, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return sorted(path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return unsafePath("%s is not a regular file", path)
	}
	return packFile(archive, path, file, info)
}

func packFile(archive *tar.Writer, name string, file *os.File, info fs.FileInfo) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(archive, io.LimitReader(file, info.Size()))
	if err == nil && n < info.Size() {
		err = fmt.Errorf("%s shrank from %d to %d bytes while it was read", name, info.Size(), n)
	}
	return err
}
