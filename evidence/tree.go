package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// digest is a file's hash and size.
type digest struct {
	SHA256 string
	Bytes  int64
}

// tree is a folder's regular files by relative path, and whatever else is in it.
type tree struct {
	files    map[string]int64 // size
	dirs     map[string]bool
	problems []Problem
}

// names returns the files' paths, sorted.
func (t tree) names() []string { return sortedKeys(t.files) }

// walkTree lists everything under root without following anything. What a package may not hold, and a folder that
// cannot be read, is a problem and not among the files. The error is of root itself.
func walkTree(root string) (tree, error) {
	t := tree{files: map[string]int64{}, dirs: map[string]bool{}}
	root = filepath.Clean(root)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if path == root {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, strings.TrimSuffix(root, "/")+"/"))
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if err != nil {
			t.problems = append(t.problems, Problem{Kind: ProblemUnreadable, Path: rel, Message: err.Error()})
			return nil
		}
		t.add(rel, info)
		return nil
	})
	if err != nil {
		return tree{}, fmt.Errorf("cannot list %s: %w", root, err)
	}
	return t, nil
}

func (t *tree) add(rel string, info fs.FileInfo) {
	why := ""
	if err := SafePath(rel); err != nil {
		why = err.Error()
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.IsDir() && why == "":
		t.dirs[rel] = true
		return
	case info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		why = "it is a symlink"
	case !info.Mode().IsRegular():
		why = "it is neither a file nor a folder"
	case ok && stat.Nlink != 1:
		why = "it has a second name (hard link)"
	}
	if why != "" {
		t.problems = append(t.problems, Problem{Kind: ProblemUnsafe, Path: rel, Message: why})
		return
	}
	t.files[rel] = info.Size()
}

// hashBuffer is how much of a file is read at a time.
const hashBuffer = 1 << 20

// hashFile reads the file once, through buf. It follows no symlink and does not wait for a fifo.
func hashFile(ctx context.Context, path string, buf []byte) (digest, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return digest{}, err
	}
	h := sha256.New()
	n, err := io.CopyBuffer(h, readerWithContext{ctx, f}, buf)
	if err = errors.Join(err, f.Close()); err != nil {
		return digest{}, err
	}
	return digest{SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n}, nil
}

// readerWithContext ends a long read when ctx ends. It hides the file's own WriteTo.
type readerWithContext struct {
	ctx context.Context
	f   *os.File
}

func (r readerWithContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.f.Read(p)
}

// hashTree hashes every file of the tree, each once. A file that cannot be read is a problem; the error is the end of ctx.
func hashTree(ctx context.Context, root string, t tree) (map[string]digest, []Problem, error) {
	digests := make(map[string]digest, len(t.files))
	var problems []Problem
	buf := make([]byte, hashBuffer)
	for _, rel := range t.names() {
		d, err := hashFile(ctx, filepath.Join(root, filepath.FromSlash(rel)), buf)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			problems = append(problems, Problem{Kind: ProblemUnreadable, Path: rel, Message: err.Error()})
			continue
		}
		digests[rel] = d
	}
	return digests, problems, nil
}

// checkRealDir reports why path is not a folder reached through real folders only. A symlink directly below / is an alias
// of the system's (/var, /home) and is accepted; any other could send writes elsewhere.
func checkRealDir(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at := string(filepath.Separator)
	for i, part := range strings.Split(strings.Trim(filepath.ToSlash(abs), "/"), "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err == nil && i == 0 && at != abs && info.Mode()&fs.ModeSymlink != 0 {
			info, err = os.Stat(at)
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a real folder", at)
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
