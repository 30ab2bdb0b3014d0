package evidence

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestVerifyNamesEachTamperedFile: a changed byte, an added, a removed and a renamed file, for every file of a package.
func TestVerifyNamesEachTamperedFile(t *testing.T) {
	r := demoPackage(t)
	if got := mustVerify(t, r.dir); !got.OK {
		t.Fatalf("the package is not sound: %v", got.Problems)
	}
	all, err := walkTree(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		tamper func(path string)
		want   string
	}{
		{"changed byte", func(path string) { changeByte(t, path) }, ProblemChanged},
		{"byte appended", func(path string) { appendByte(t, path) }, ProblemChanged},
		{"removed", func(path string) { must(t, os.Remove(path)) }, ProblemRemoved},
		{"renamed", func(path string) { must(t, os.Rename(path, path+".moved")) }, ProblemRenamed},
		{"symlink instead", func(path string) { must(t, os.Rename(path, path+"~")); must(t, os.Symlink(path+"~", path)) }, ProblemUnsafe},
		{"fifo instead", func(path string) { must(t, os.Remove(path)); must(t, syscall.Mkfifo(path, 0o600)) }, ProblemUnsafe},
		{"second name", func(path string) { must(t, os.Link(path, path+"2")) }, ProblemUnsafe},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, rel := range all.names() {
				if rel == manifestPath {
					continue
				}
				copied := t.TempDir()
				must(t, os.CopyFS(copied, os.DirFS(r.dir)))
				tt.tamper(copied + "/" + rel)
				got := mustVerify(t, copied)
				if got.OK || !slices.Contains(kinds(got.Problems), tt.want+" "+rel) {
					t.Errorf("%s: problems %v, want %s", rel, kinds(got.Problems), tt.want)
				}
			}
		})
	}
}

func TestVerifyNamesAddedFilesOfAnyKind(t *testing.T) {
	tests := []struct {
		name, path string
		add        func(path string) error
		want       string
	}{
		{"a file", "host/extra.json", func(p string) error { return os.WriteFile(p, []byte("{}"), 0o600) }, ProblemAdded},
		{"a file in the root", "extra", func(p string) error { return os.WriteFile(p, nil, 0o600) }, ProblemAdded},
		{"a hidden file", "state/.x", func(p string) error { return os.WriteFile(p, nil, 0o600) }, ProblemAdded},
		{"an extraction", "extractions/report/5b0c/more", func(p string) error { return os.WriteFile(p, nil, 0o600) }, ProblemAdded},
		{"a symlink", "host/link", func(p string) error { return os.Symlink("/etc/passwd", p) }, ProblemUnsafe},
		{"a symlink to a folder", "host/dir", func(p string) error { return os.Symlink("/etc", p) }, ProblemUnsafe},
		{"a fifo", "host/fifo", func(p string) error { return syscall.Mkfifo(p, 0o600) }, ProblemUnsafe},
		{"an unsafe name", "host/a:b", func(p string) error { return os.WriteFile(p, nil, 0o600) }, ProblemUnsafe},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := demoPackage(t)
			must(t, tt.add(r.path(tt.path)))
			if got := kinds(mustVerify(t, r.dir).Problems); !slices.Equal(got, []string{tt.want + " " + tt.path}) {
				t.Errorf("problems = %v, want only %s %s", got, tt.want, tt.path)
			}
		})
	}
}

// TestNoSingleByteOfTheManifestCanChange flips each byte once; the manifest has no hash of its own anywhere.
func TestNoSingleByteOfTheManifestCanChange(t *testing.T) {
	r := newRecording(t, t.TempDir())
	r.add(run{capture: "x11"})
	r.write("extractions/report/5b0c/result.json", []byte("{}\n"))
	r.seal()
	data, err := os.ReadFile(r.path(manifestPath))
	must(t, err)
	analyses := map[Identity]*analysis{}
	for i := range data {
		changed := slices.Clone(data)
		changed[i] ^= byte(1 << rand.IntN(8))
		m, problems := parseManifest(changed)
		if analyses[m.identity()] == nil {
			if analyses[m.identity()], err = examine(t.Context(), r.dir, m.identity()); err != nil {
				t.Fatal(err)
			}
		}
		if got := report(r.dir, m, problems, analyses[m.identity()]); got.OK {
			t.Fatalf("byte %d changed from %q to %q, and the package still verifies", i, data[i], changed[i])
		}
	}
}

func TestVerifyReportsAnUnreadableFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything; run the tests as an ordinary user")
	}
	r := demoPackage(t)
	must(t, os.Chmod(r.path("host/events/1-a.json"), 0))
	if got := kinds(mustVerify(t, r.dir).Problems); !slices.Equal(got, []string{ProblemUnreadable + " host/events/1-a.json"}) {
		t.Errorf("problems = %v", got)
	}
}

// TestHashingStreams hashes a sparse file that would not fit the memory a test may use.
func TestHashingStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("hashes 256 MiB")
	}
	path := t.TempDir() + "/sparse"
	f, err := os.Create(path)
	must(t, err)
	const size = 256 << 20
	must(t, f.Truncate(size))
	must(t, f.Close())
	buf := make([]byte, hashBuffer)
	allocated := testing.AllocsPerRun(1, func() {
		d, err := hashFile(t.Context(), path, buf)
		if err != nil || d.Bytes != size || d.SHA256 != "a6d72ac7690f53be6ae46ba88506bd97302a093f7108472bd9efc3cefda06484" {
			t.Errorf("hashFile = %+v, %v", d, err)
		}
	})
	if allocated > 100 {
		t.Errorf("%v allocations for one file", allocated)
	}
}

func TestSafePath(t *testing.T) {
	tests := []struct {
		name, path string
		want       bool
	}{
		{"plain", "host/a.json", true},
		{"hidden", "state/.x.part", true},
		{"unicode", "extractions/ü/日本", true},
		{"space", "a b", true},
		{"empty", "", false},
		{"absolute", "/a", false},
		{"parent", "a/../b", false},
		{"dot", "./a", false},
		{"double slash", "a//b", false},
		{"trailing slash", "a/", false},
		{"backslash", `a\b`, false},
		{"newline", "a\nb", false},
		{"delete", "a\x7fb", false},
		{"colon", "a:b", false},
		{"hash", "a#b", false},
		{"question mark", "a?b", false},
		{"not UTF-8", "a\xffb", false},
		{"NUL", "a\x00b", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := SafePath(tt.path); (err == nil) != tt.want {
				t.Errorf("SafePath(%q) = %v, want safe %v", tt.path, err, tt.want)
			}
		})
	}
}

func changeByte(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
}

func appendByte(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, append(data, '\n'), 0o600))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpeningSaysWhatTheManifestSays(t *testing.T) {
	m := Manifest{PackageID: "pkg-x", SessionID: "session-x", TaskID: "x", CreatedAt: "2026-11-30T10:05:00.000Z"}
	for _, want := range []string{"pkg-x", "session-x", "2026-11-30T10:05:00.000Z", "pictures   none", "mcp-relay verify PATH"} {
		if !strings.Contains(opening(m), want) {
			t.Errorf("the opening text lacks %q", want)
		}
	}
}
