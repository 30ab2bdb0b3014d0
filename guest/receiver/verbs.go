package receiver

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/frame"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// hello says what this runtime is.
func hello(display string) (protocol.Hello, error) {
	path, err := os.Executable()
	if err != nil {
		return protocol.Hello{}, failure(protocol.CodeIO, "", "cannot find the runtime's own file: %v", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return protocol.Hello{}, err
	}
	defer f.Close()
	fact, err := factOfOpen(f, path)
	return protocol.Hello{
		Protocol: protocol.Version, OS: runtime.GOOS, Arch: runtime.GOARCH,
		SHA256: fact.SHA256, Bytes: fact.Bytes, Display: display,
	}, err
}

// prepare makes the directories above target.
func prepare(root, target string) error {
	rel, err := within(root, target)
	if err != nil {
		return err
	}
	if rel == "." {
		return failure(protocol.CodeInvalid, target, "path is the root itself")
	}
	return makeDirs(root, filepath.Dir(rel))
}

// makeDir makes target and the directories above it.
func makeDir(root, target string) error {
	rel, err := within(root, target)
	if err != nil {
		return err
	}
	return makeDirs(root, rel)
}

// factOf hashes one file.
func factOf(root, path string) (protocol.Fact, error) {
	f, err := openFile(root, path)
	if err != nil {
		return protocol.Fact{}, err
	}
	defer f.Close()
	return factOfOpen(f, path)
}

func factOfOpen(f *os.File, path string) (protocol.Fact, error) {
	info, err := f.Stat()
	if err != nil {
		return protocol.Fact{}, pathFailure(path, err)
	}
	sum, err := hashWhole(f, info.Size(), make([]byte, hashChunk))
	return protocol.Fact{Path: path, SHA256: sum, Bytes: info.Size()}, err
}

// scan writes the inventory of tree to the new file list, as JSON, and answers list's own fact.
func scan(root, tree, list string) (protocol.Fact, error) {
	facts, err := inventory(root, tree)
	if err != nil {
		return protocol.Fact{}, err
	}
	data, err := json.Marshal(facts)
	if err != nil {
		return protocol.Fact{}, failure(protocol.CodeIO, list, "cannot encode the inventory: %v", err)
	}
	f, err := createFile(root, list)
	if err != nil {
		return protocol.Fact{}, err
	}
	_, err = f.Write(data)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		return factOf(root, list)
	}
	return protocol.Fact{}, withdraw(root, list, pathFailure(list, err))
}

// archive writes the named files of tree to the new file target and answers its size. On an error nothing is left.
func archive(root, tree, target string, mode frame.Mode, paths []string) (protocol.Fact, error) {
	if mode != frame.All && mode != frame.Present {
		return protocol.Fact{}, failure(protocol.CodeInvalid, "", "archive mode %q is not known", mode)
	}
	headers, need, err := plan(root, tree, mode, paths)
	if err != nil {
		return protocol.Fact{}, err
	}
	f, err := createFile(root, target)
	if err != nil {
		return protocol.Fact{}, err
	}
	size, err := fill(f, root, tree, headers, need)
	if closing := f.Close(); err == nil && closing != nil {
		err = pathFailure(target, closing)
	}
	if err != nil {
		return protocol.Fact{}, withdraw(root, target, err)
	}
	return protocol.Fact{Path: target, Bytes: size}, nil
}

// plan measures the files of an archive. Need is an upper bound of the room it takes.
func plan(root, tree string, mode frame.Mode, paths []string) (headers []frame.Header, need int64, err error) {
	for _, path := range paths {
		if err := frame.CheckPath(path); err != nil {
			return nil, 0, failure(protocol.CodeInvalid, path, "%v", err)
		}
		f, err := openFile(root, filepath.Join(tree, path))
		if err != nil {
			if failureOf(err).Code == protocol.CodeMissing && mode == frame.Present {
				continue
			}
			return nil, 0, err
		}
		info, err := f.Stat()
		f.Close()
		if err != nil {
			return nil, 0, pathFailure(path, err)
		}
		headers = append(headers, frame.Header{Path: path, Bytes: info.Size()})
		need += info.Size() + int64(len(path)) + 128
	}
	return headers, need, nil
}

func fill(f *os.File, root, tree string, headers []frame.Header, need int64) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return 0, pathFailure(f.Name(), err)
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < need {
		return 0, failure(protocol.CodeSpace, f.Name(), "the guest has %d bytes free and the archive needs %d", free, need)
	}
	w := frame.NewWriter(f)
	for _, h := range headers {
		source, err := openFile(root, filepath.Join(tree, h.Path))
		if err != nil {
			return 0, err
		}
		_, err = w.Add(h, source)
		source.Close()
		if err != nil {
			return 0, archiveFailure(h.Path, err)
		}
	}
	return w.Bytes(), nil
}

func archiveFailure(path string, err error) error {
	switch {
	case errors.Is(err, frame.ErrSourceChanged):
		return failure(protocol.CodeChanged, path, "%v", err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return failure(protocol.CodeSpace, path, "%v", err)
	}
	return failure(protocol.CodeIO, path, "%v", err)
}

// withdraw removes what a failed verb began to write and returns why it failed.
func withdraw(root, path string, cause error) error {
	if err := removeFile(root, path); err != nil {
		f := *failureOf(cause)
		f.Message += "; and its partial output stayed: " + err.Error()
		return &f
	}
	return cause
}

// imageFact is the fact of an image file, with the identity that tells a replaced file of equal bytes.
func imageFact(root, path, limit string) (protocol.ImageFact, error) {
	bound, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || bound < 1 {
		return protocol.ImageFact{}, failure(protocol.CodeInvalid, path, "size bound %q is not a positive number", limit)
	}
	f, err := openFile(root, path)
	if err != nil {
		return protocol.ImageFact{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return protocol.ImageFact{}, pathFailure(path, err)
	}
	if info.Size() > bound {
		return protocol.ImageFact{}, failure(protocol.CodeTooLarge, path, "%s has %d bytes, over the bound of %d", path, info.Size(), bound)
	}
	mime := imageType(f)
	if mime == "" {
		return protocol.ImageFact{}, failure(protocol.CodeNotImage, path, "%s is not a PNG, JPEG or WebP image", path)
	}
	identity, err := identify(f)
	if err != nil {
		return protocol.ImageFact{}, err
	}
	fact, err := factOfOpen(f, path)
	if err != nil {
		return protocol.ImageFact{}, err
	}
	return protocol.ImageFact{Fact: fact, Identity: identity, MimeType: mime}, samePlace(root, path, identity)
}

// samePlace checks that path still names the file that was read.
func samePlace(root, path, identity string) error {
	again, err := openFile(root, path)
	if err != nil {
		return err
	}
	defer again.Close()
	now, err := identify(again)
	if err == nil && now != identity {
		err = failure(protocol.CodeChanged, path, "%s was replaced while it was read", path)
	}
	return err
}

// imageType is the MIME type by the first bytes, or "".
func imageType(f io.ReaderAt) string {
	head := make([]byte, 12)
	n, _ := f.ReadAt(head, 0)
	head = head[:n]
	switch {
	case n >= 8 && slices.Equal(head[:8], []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case n >= 3 && slices.Equal(head[:3], []byte{0xff, 0xd8, 0xff}):
		return "image/jpeg"
	case n == 12 && string(head[:4]) == "RIFF" && string(head[8:]) == "WEBP":
		return "image/webp"
	}
	return ""
}
