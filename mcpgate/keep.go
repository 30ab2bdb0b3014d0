package mcpgate

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// maxKept bounds how many whole results stay; the oldest go first.
const maxKept = 256

var keptName = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json$`)

// keepResult writes a whole result to a new file of dir that only its owner can read, and returns the file's path. It
// makes dir if need be, and refuses one that others can enter.
func keepResult(dir, whole string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot make the folder for results: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("cannot look at the folder for results: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("cannot keep a result in %s: it is not a folder that is closed to others (mode 0700)", dir)
	}
	path := filepath.Join(dir, newUUID()+".json")
	if err := writeNew(path, whole); err != nil {
		return "", errors.Join(fmt.Errorf("cannot keep a result: %w", err), os.Remove(path))
	}
	return path, prune(dir)
}

func writeNew(path, whole string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(whole)
	return errors.Join(err, file.Close())
}

// prune removes the oldest kept results beyond the bound. Files with other names are nobody's business here.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot list kept results: %w", err)
	}
	var kept []fs.FileInfo
	for _, entry := range entries {
		if !keptName.MatchString(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil {
			kept = append(kept, info)
		}
	}
	if len(kept) <= maxKept {
		return nil
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range kept[:len(kept)-maxKept] {
		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove an old result: %w", err)
		}
	}
	return nil
}

// newUUID makes a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
