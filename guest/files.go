package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// makeDir makes the parent of path, private and durable.
func makeDir(path string) error {
	if err := evidence.MakeDirs(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot make a folder for %s: %w", path, err)
	}
	return nil
}

// hashFile is the fact of one regular file on the host, with an empty path.
func hashFile(path string) (protocol.Fact, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return protocol.Fact{}, err
	}
	if !info.Mode().IsRegular() {
		return protocol.Fact{}, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return protocol.Fact{}, err
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	if err != nil {
		return protocol.Fact{}, err
	}
	return protocol.Fact{SHA256: hex.EncodeToString(hash.Sum(nil)), Bytes: n}, nil
}

func hashBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// same compares two facts without their paths.
func same(a, b protocol.Fact) bool { return a.SHA256 == b.SHA256 && a.Bytes == b.Bytes }

// copyFile copies a regular file to a path that must not exist, and makes the copy durable.
func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := makeDir(to); err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	err = errors.Join(err, target.Sync(), target.Close())
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// publish moves a checked file under its final name, which must be free, durably. The two may lie on different volumes.
func publish(from, to string) error {
	if err := syncPath(from); err != nil {
		return err
	}
	if err := move(from, to); err != nil {
		return err
	}
	return syncPath(filepath.Dir(to))
}

// move is publish for whoever flushes the whole tree afterwards.
func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	err := os.Link(from, to)
	if err == nil {
		err = os.Remove(from)
	} else if !errors.Is(err, fs.ErrExist) {
		err = copyFile(from, to)
	}
	if err != nil {
		return fmt.Errorf("cannot publish %s: %w", to, err)
	}
	return nil
}

// syncPath flushes one file or folder.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	err = file.Sync()
	return errors.Join(err, file.Close())
}

// syncTree flushes every regular file and folder below root: nothing of it is lost with the power once it returns.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || entry.Type().IsRegular() {
			return syncPath(path)
		}
		return nil
	})
}

// inventory lists the regular files below root with their hashes, sorted by path. Anything but folders and regular files is
// an error.
func inventory(root string) ([]protocol.Fact, error) {
	var facts []protocol.Fact
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return nil
		}
		fact, err := hashFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		fact.Path = filepath.ToSlash(rel)
		facts = append(facts, fact)
		return nil
	})
	sortFacts(facts)
	return facts, err
}
