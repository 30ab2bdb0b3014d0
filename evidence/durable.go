package evidence

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tempPrefix begins the name of every file that is not yet published. One left by a crash is never read as a record: no
// reader of records accepts a name that begins with a dot.
const tempPrefix = ".relay-part-"

// WriteFileDurable replaces path by data, whole or not at all, and returns once file and name are on disk. The bytes go to a
// temporary file beside path first. A process that dies leaves the old content, or the new, and perhaps a temporary file.
// The parent must exist. perm is exact: the umask does not apply.
func WriteFileDurable(path string, data []byte, perm fs.FileMode) error {
	temp, err := writeTemp(path, data, perm)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, errors.Join(err, os.Remove(temp)))
	}
	return syncDir(filepath.Dir(path))
}

// WriteExclusive is WriteFileDurable for a path that must not exist: when it does, the error is fs.ErrExist and the file
// there is untouched. Whoever finds the file finds all of it.
func WriteExclusive(path string, data []byte, perm fs.FileMode) error {
	temp, err := writeTemp(path, data, perm)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	if err := PublishExclusive(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// PublishExclusive gives the finished, synced file temp the name path in the same file system, durably. It never replaces:
// when path exists the error is fs.ErrExist and both files are untouched. After success temp is gone.
func PublishExclusive(temp, path string) error {
	if err := renameNoReplace(temp, path); err != nil {
		return fmt.Errorf("cannot publish %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// linkAndRemove is renameNoReplace where the system or the file system has no such call. A process that dies between the two
// steps leaves a second name, which sealing reports.
func linkAndRemove(temp, path string) error {
	if err := os.Link(temp, path); err != nil {
		return err
	}
	return os.Remove(temp)
}

// MakeDirs makes path and its missing parents with perm, each entry durable.
func MakeDirs(path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	if err == nil {
		if !info.IsDir() {
			return fmt.Errorf("cannot make folder %s: %w", path, syscall.ENOTDIR)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot make folder %s: %w", path, err)
	}
	parent := filepath.Dir(path)
	if err := MakeDirs(parent, perm); err != nil {
		return err
	}
	if err := os.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make folder %s: %w", path, err)
	}
	return syncDir(parent)
}

// MarshalRecord renders v as the JSON of a record file: two spaces of indentation, no HTML escaping, one final newline.
func MarshalRecord(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode record: %w", err)
	}
	return out.Bytes(), nil
}

// WriteRecord writes v as a record file, durably, mode 0600, replacing an earlier one.
func WriteRecord(path string, v any) error {
	data, err := MarshalRecord(v)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return WriteFileDurable(path, data, 0o600)
}

// writeTemp writes data to a fresh, synced file beside path and returns its name. On error nothing is left.
func writeTemp(path string, data []byte, perm fs.FileMode) (string, error) {
	temp := tempBeside(path)
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(perm)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(temp))
	}
	return temp, nil
}

func tempBeside(path string) string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return filepath.Join(filepath.Dir(path), tempPrefix+hex.EncodeToString(random[:]))
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// syncDir makes the names in dir durable. File systems that cannot sync a folder are taken at their word.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot sync folder %s: %w", dir, err)
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot sync folder %s: %w", dir, err)
	}
	return nil
}
