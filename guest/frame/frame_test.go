package frame

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type file struct{ path, content string }

func pack(t testing.TB, files ...file) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range files {
		if _, err := w.Add(Header{f.path, int64(len(f.content))}, strings.NewReader(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	if w.Bytes() != int64(b.Len()) {
		t.Errorf("the writer counted %d of %d bytes", w.Bytes(), b.Len())
	}
	return b.String()
}

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// golden is the archive of three files, byte for byte; other implementations make the same.
const golden = `{"path":"state/receiver/started/execution-0demo.json","bytes":7}
{"a":1}{"sha256":"015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"}
{"path":"state/snapshots/session-0demo/x.png","bytes":10}
PNG
BYTES
{"sha256":"5f36a5e4a3b14342bde5c4a49c760646fb24b332f45e9f903ad4f48fdf8aa94f"}
{"path":"state/empty","bytes":0}
{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
`

var goldenFiles = []file{
	{"state/receiver/started/execution-0demo.json", `{"a":1}`},
	{"state/snapshots/session-0demo/x.png", "PNG\nBYTES\n"},
	{"state/empty", ""},
}

func TestWriterMakesTheOneForm(t *testing.T) {
	got := pack(t, goldenFiles...)
	if diff := cmp.Diff(golden, got); diff != "" {
		t.Error(diff)
	}
	if len(got) != 407 || digestOf(got) != "9cf56356be066d6e26f57b722d49434c9b82075adfe35d6863302d2a9ad6456f" {
		t.Errorf("%d bytes, SHA-256 %s", len(got), digestOf(got))
	}
}

func TestSizeIsKnownBefore(t *testing.T) {
	var total int64
	for _, f := range append(goldenFiles, file{`odd "<&>" name é`, "x"}) {
		n, err := Size(Header{f.path, int64(len(f.content))})
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if got := int64(len(pack(t, append(goldenFiles, file{`odd "<&>" name é`, "x"})...))); got != total {
		t.Errorf("told %d, is %d", total, got)
	}
}

func TestWriterRefusesASourceOfAnotherSize(t *testing.T) {
	for _, content := range []string{"123", "12345"} {
		if _, err := NewWriter(io.Discard).Add(Header{"a", 4}, strings.NewReader(content)); !errors.Is(err, ErrSourceChanged) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, row := range []struct {
		path string
		fine bool
	}{
		{"a", true}, {"a/b", true}, {"...", true}, {"a b", true}, {"é", true},
		{"", false}, {"/a", false}, {"a/", false}, {"a//b", false}, {".", false}, {"a/./b", false}, {"..", false}, {"a/../b", false},
		{`a\b`, false}, {"a\x00", false}, {"a\xff", false},
	} {
		if err := CheckPath(row.path); (err == nil) != row.fine {
			t.Errorf("%q: %v", row.path, err)
		}
	}
	if _, err := NewWriter(io.Discard).Add(Header{strings.Repeat("x", MaxLine), 0}, strings.NewReader("")); err == nil {
		t.Error("a header over the line bound was written")
	}
}

// unpack collects what an archive holds.
func unpack(archive string, want []Want, mode Mode) ([]file, error) {
	var files []file
	_, err := Unpack(strings.NewReader(archive), want, mode, func(h Header, content io.Reader) error {
		data, err := io.ReadAll(content)
		files = append(files, file{h.Path, string(data)})
		return err
	})
	return files, err
}

func wantOf(files ...file) []Want {
	var want []Want
	for _, f := range files {
		want = append(want, Want{Path: f.path, Bytes: int64(len(f.content)), SHA256: digestOf(f.content), Known: true})
	}
	return want
}

func TestUnpackGivesBackWhatWasPacked(t *testing.T) {
	got, err := unpack(golden, wantOf(goldenFiles...), All)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goldenFiles, got, cmp.AllowUnexported(file{})); diff != "" {
		t.Error(diff)
	}
}

func TestPresentModeLetsFilesBeAbsent(t *testing.T) {
	archive := pack(t, goldenFiles[0], goldenFiles[2])
	if got, err := unpack(archive, wantOf(goldenFiles...), Present); err != nil || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	if _, err := unpack(archive, wantOf(goldenFiles...), All); err == nil {
		t.Error("mode all accepted an absent file")
	}
}

func TestArchiveThatIsNotTheOneAskedForIsRefused(t *testing.T) {
	a, b := file{"a", "one"}, file{"b", "two"}
	other := wantOf(a)
	other[0].SHA256 = digestOf("ONE")
	long := wantOf(a)
	long[0].Bytes++
	good := pack(t, a, b)
	for _, row := range []struct {
		name    string
		archive string
		want    []Want
		mode    Mode
	}{
		{"not asked for", good, wantOf(a), All},
		{"other order", pack(t, b, a), wantOf(a, b), Present},
		{"twice", pack(t, a, a), wantOf(a, b), Present},
		{"missing", pack(t, a), wantOf(a, b), All},
		{"other hash", pack(t, a), other, All},
		{"other size", pack(t, a), long, All},
		{"nothing at all", "", wantOf(a), All},
		{"cut in the header", good[:5], wantOf(a, b), Present},
		{"cut after the header", good[:len(`{"path":"a","bytes":3}`)+1], wantOf(a, b), Present},
		{"cut in the content", good[:len(`{"path":"a","bytes":3}`)+3], wantOf(a, b), Present},
		{"cut in the trailer", good[:len(good)-5], wantOf(a, b), Present},
		{"cut newline", good[:len(good)-1], wantOf(a, b), Present},
		{"trailing bytes", good + "x", wantOf(a, b), All},
		{"trailing newline", good + "\n", wantOf(a, b), All},
		{"content changed", strings.Replace(good, "one", "onE", 1), wantOf(a, b), All},
		{"spaces in the header", strings.Replace(good, `"bytes":3`, `"bytes": 3`, 1), wantOf(a, b), All},
		{"extra key", strings.Replace(good, `"bytes":3}`, `"bytes":3,"x":1}`, 1), wantOf(a, b), All},
		{"float size", strings.Replace(good, `"bytes":3`, `"bytes":3.0`, 1), wantOf(a, b), All},
		{"negative size", strings.Replace(good, `"bytes":3`, `"bytes":-3`, 1), wantOf(a, b), All},
		{"upper case hash", strings.Replace(good, digestOf("one"), strings.ToUpper(digestOf("one")), 1), wantOf(a, b), All},
		{"traversal", `{"path":"../a","bytes":0}` + "\n", []Want{{Path: "../a"}}, All},
		{"absolute", `{"path":"/a","bytes":0}` + "\n", []Want{{Path: "/a"}}, All},
		{"endless line", `{"path":"` + strings.Repeat("x", MaxLine), []Want{{Path: "a"}}, All},
	} {
		t.Run(row.name, func(t *testing.T) {
			var format *FormatError
			if _, err := unpack(row.archive, row.want, row.mode); !errors.As(err, &format) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestStoreMayStopTheUnpacking(t *testing.T) {
	full := errors.New("disk is full")
	_, err := Unpack(strings.NewReader(golden), wantOf(goldenFiles...), All, func(Header, io.Reader) error { return full })
	if !errors.Is(err, full) {
		t.Error(err)
	}
}

// An archive has one form: what can be read is written again byte for byte.
func FuzzReader(f *testing.F) {
	f.Add([]byte(golden))
	f.Add([]byte(golden[:100]))
	f.Add([]byte(`{"path":"a\u003cb","bytes":0}` + "\n" + `{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}` + "\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, archive []byte) {
		var again bytes.Buffer
		r, w := NewReader(bytes.NewReader(archive)), NewWriter(&again)
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return
			}
			content, err := io.ReadAll(r)
			if err != nil {
				return
			}
			if _, err := w.Add(h, bytes.NewReader(content)); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
		}
		if !bytes.Equal(archive, again.Bytes()) {
			t.Fatalf("written again it is\n%q, was\n%q", again.Bytes(), archive)
		}
	})
}
