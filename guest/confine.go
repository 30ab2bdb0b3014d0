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
	"sort"
	"strings"
	"syscall"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Bounds of one staging request, all its files together.
const (
	maxStageBytes = 512 << 20
	maxStageFiles = 10_000
)

// evidenceFolder holds the evidence of every guest, in the project.
const evidenceFolder = "relay-evidence"

// project reads host files for the caller: only below the project folder, and never through a symlink at or below it.
type project struct {
	path string
	root *os.Root
}

func openProject(path string) (*project, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, Refuse("the project folder cannot be read: %v", err)
	}
	if !info.IsDir() {
		return nil, Refuse("the project folder %s is not a folder, or is a symlink", path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, Refuse("the project folder cannot be read: %v", err)
	}
	return &project{path: path, root: root}, nil
}

func (p *project) Close() error { return p.root.Close() }

// resolve turns what the caller named into a path below the project: relative to it, or absolute within it.
func (p *project) resolve(name string) (string, error) {
	if strings.ContainsRune(name, 0) || strings.TrimSpace(name) == "" {
		return "", Refuse("the path %q cannot be used", name)
	}
	rel := name
	if filepath.IsAbs(name) {
		var err error
		if rel, err = filepath.Rel(p.path, name); err != nil {
			return "", Refuse("the path %s lies outside the project folder %s", name, p.path)
		}
	}
	rel = filepath.Clean(rel)
	if !filepath.IsLocal(rel) {
		return "", Refuse("the path %s lies outside the project folder %s", name, p.path)
	}
	return rel, p.noSymlink(rel)
}

// noSymlink refuses rel when one of its components is a symlink.
func (p *project) noSymlink(rel string) error {
	parts := strings.Split(rel, string(filepath.Separator))
	for i := range parts {
		part := filepath.Join(parts[:i+1]...)
		info, err := p.root.Lstat(part)
		if errors.Is(err, fs.ErrNotExist) {
			return Refuse("there is no %s in the project folder", part)
		}
		if err != nil {
			return Refuse("%s in the project folder cannot be read: %v", part, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return Refuse("%s in the project folder is a symlink; name the real file", part)
		}
	}
	return nil
}

// open opens a regular file below the project.
func (p *project) open(rel string) (*os.File, fs.FileInfo, error) {
	if err := p.noSymlink(rel); err != nil {
		return nil, nil, err
	}
	file, err := p.root.OpenFile(rel, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, Refuse("%s in the project folder cannot be read: %v", rel, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, nil, errors.Join(Refuse("%s in the project folder cannot be used: %v", rel, err), file.Close())
	}
	return file, info, nil
}

// copyOut copies a project file to a private file that must not exist, and answers its fact. What is pushed later is that
// copy, so that the file cannot change between its hash and its push.
func (p *project) copyOut(rel, to string) (protocol.Fact, error) {
	file, _, err := p.open(rel)
	if err != nil {
		return protocol.Fact{}, err
	}
	defer file.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return protocol.Fact{}, fmt.Errorf("cannot copy %s for its push: %w", rel, err)
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(file, maxStageBytes+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return protocol.Fact{}, fmt.Errorf("cannot copy %s for its push: %w", rel, err)
	}
	if n > maxStageBytes {
		return protocol.Fact{}, Refuse("%s is larger than the %d MiB that one request may stage", rel, maxStageBytes>>20)
	}
	return protocol.Fact{Path: filepath.ToSlash(rel), SHA256: hex.EncodeToString(hash.Sum(nil)), Bytes: n}, nil
}

// check says whether a project file still is what fact says.
func (p *project) check(fact protocol.Fact) error {
	file, _, err := p.open(filepath.FromSlash(fact.Path))
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	if err != nil {
		return fmt.Errorf("cannot read %s again: %w", fact.Path, err)
	}
	if n != fact.Bytes || hex.EncodeToString(hash.Sum(nil)) != fact.SHA256 {
		return fmt.Errorf("%s changed while it was staged; stage again when nothing writes to it", fact.Path)
	}
	return nil
}

// tree lists the regular files below a project folder, by path. A symlink or special file in it is refused.
func (p *project) tree(rel string) ([]sized, error) {
	var files []sized
	err := fs.WalkDir(p.root.FS(), filepath.ToSlash(rel), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == evidenceFolder {
			return fs.SkipDir // what we write ourselves is no input
		}
		if entry.IsDir() {
			return nil
		}
		if !entry.Type().IsRegular() {
			return Refuse("%s in the project folder is a symlink or a special file; a workspace holds only folders and regular files", path)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if len(files) > maxStageFiles {
			return tooManyFiles()
		}
		files = append(files, sized{path: path, bytes: info.Size()})
		return nil
	})
	if err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) {
			return nil, refused
		}
		return nil, fmt.Errorf("cannot list %s in the project folder: %w", rel, err)
	}
	sort.Slice(files, func(i, j int) bool { return files[i].path < files[j].path })
	return files, nil
}

// sized is a file of the project, by slash path, before it is read.
type sized struct {
	path  string
	bytes int64
}

func tooManyFiles() error {
	return Refuse("one request may stage at most %d files", maxStageFiles)
}
