package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var roomy = Bounds{Bytes: 1 << 30, Entries: 1000}

func tarOf(t *testing.T, headers ...tar.Header) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, strings.Repeat("x", int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

// What a guest sends may be anything: nothing of it lands outside the target, and nothing stays of a refused tree.
func TestHostileTreesAreRefusedWithoutATrace(t *testing.T) {
	dir := tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}
	}
	tests := []struct {
		name    string
		headers []tar.Header
		bounds  Bounds
	}{
		{"parent", []tar.Header{dir, file("../out")}, roomy},
		{"parent in the middle", []tar.Header{dir, file("a/../../out")}, roomy},
		{"absolute", []tar.Header{dir, file("/out")}, roomy},
		{"not clean", []tar.Header{dir, file("a//b")}, roomy},
		{"symlink", []tar.Header{dir, {Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/"}}, roomy},
		{"hard link", []tar.Header{dir, {Typeflag: tar.TypeLink, Name: "link", Linkname: "/etc/passwd"}}, roomy},
		{"device", []tar.Header{dir, {Typeflag: tar.TypeBlock, Name: "disk"}}, roomy},
		{"pipe", []tar.Header{dir, {Typeflag: tar.TypeFifo, Name: "pipe"}}, roomy},
		{"twice the root", []tar.Header{dir, dir}, roomy},
		{"first is not the root", []tar.Header{file("a")}, roomy},
		{"the same file twice", []tar.Header{dir, file("a"), file("a")}, roomy},
		{"below a file", []tar.Header{file("."), file("a")}, roomy},
		{"nothing", nil, roomy},
		{"too many bytes", []tar.Header{dir, file("a"), file("b")}, Bounds{Bytes: 1, Entries: 10}},
		{"too many entries", []tar.Header{dir, file("a"), file("b")}, Bounds{Bytes: 10, Entries: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			around := t.TempDir()
			err := Unpack(tarOf(t, tt.headers...), filepath.Join(around, "target"), "base", LinksOnWay, tt.bounds)
			if err == nil {
				t.Error("unpacked")
			}
			if entries, _ := os.ReadDir(around); len(entries) > 0 {
				t.Errorf("left: %v", entries)
			}
		})
	}
}

func TestBrokenStreamChangesNothing(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "file")
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the sum is wrong")
	content := tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: ".", Mode: 0o644, Size: 3})
	r := io.MultiReader(content, readerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := Unpack(r, target, "base", LinksOnWay, roomy); !errors.Is(err, broken) {
		t.Errorf("%v, want the stream's error", err)
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "old" {
		t.Errorf("the file is now %q, %v", data, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestPackThenUnpackKeepsContentAndPermissions(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	for path, perm := range map[string]fs.FileMode{"a": 0o644, "b/run": 0o755, "b/c/secret": 0o600} {
		full := filepath.Join(source, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(path), perm); err != nil {
			t.Fatal(err)
		}
	}
	opened, err := Open(source, LinksOnWay)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var buf bytes.Buffer
	if err := opened.Pack(&buf); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "target")
	if err := Unpack(&buf, target, "base", LinksOnWay, roomy); err != nil {
		t.Fatal(err)
	}
	for path, perm := range map[string]fs.FileMode{"a": 0o644, "b/run": 0o755, "b/c/secret": 0o600} {
		info, err := os.Stat(filepath.Join(target, path))
		if err != nil || info.Mode().Perm() != perm {
			t.Errorf("%s: %v, %v; want %v", path, info, err, perm)
		}
		if data, _ := os.ReadFile(filepath.Join(target, path)); string(data) != path {
			t.Errorf("%s holds %q", path, data)
		}
	}
}

func TestOpenSortsWhatItMayNotPack(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "way")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		path  string
		links Links
		want  error
	}{
		{"missing", filepath.Join(dir, "none"), NoLinks, fs.ErrNotExist},
		{"symlink", filepath.Join(dir, "link"), LinksOnWay, ErrUnsafe},
		{"through a symlink", filepath.Join(dir, "way", "passwd"), NoLinks, ErrUnsafe},
		{"through a symlink on the host", filepath.Join(dir, "way", "passwd"), LinksOnWay, nil},
		{"device", "/dev/null", NoLinks, ErrUnsafe},
		{"relative", "etc/passwd", NoLinks, ErrUnsafe},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source, err := Open(tt.path, tt.links)
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if err == nil {
				source.Close()
			}
		})
	}
}
