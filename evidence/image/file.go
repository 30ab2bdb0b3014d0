package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// MaxOriginal bounds an original, in bytes.
const MaxOriginal = 64 << 20

// openRegular opens a file for reading when it is a regular one with one name and 1 to limit bytes. Nothing is followed and
// nothing blocks. A missing file is fs.ErrNotExist.
func openRegular(path string, limit int64) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return nil, 0, &Error{Status: UnsafePath, Why: path + " is a symlink or a special file"}
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkRegular(path, info, limit)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func checkRegular(path string, info fs.FileInfo, limit int64) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return &Error{Status: UnsafePath, Why: path + " is not a regular file"}
	case ok && stat.Nlink != 1:
		return &Error{Status: UnsafePath, Why: path + " has a second name"}
	case info.Size() < 1 || info.Size() > limit:
		return integrity("%s has %d bytes, outside 1 to %d", path, info.Size(), limit)
	}
	return nil
}

// CheckFile compares the file at path with a descriptor's size and hash. A missing file is fs.ErrNotExist, a symlink or
// special file UnsafePath, other bytes IntegrityFailed.
func CheckFile(path string, d Descriptor) error {
	f, size, err := openRegular(path, MaxOriginal)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, MaxOriginal+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if size != d.Bytes || n != d.Bytes || hex.EncodeToString(h.Sum(nil)) != d.SHA256 {
		return integrity("%s has other bytes than were captured; it was left as it is", path)
	}
	return nil
}

// readRegular reads a small file whole.
func readRegular(path string, limit int64) ([]byte, error) {
	f, _, err := openRegular(path, limit)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = io.Copy(&out, io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(out.Len()) > limit {
		return nil, integrity("%s grew over %d bytes while it was read", path, limit)
	}
	return out.Bytes(), nil
}
