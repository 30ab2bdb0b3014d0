package receiver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/frame"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// ask performs a verb through Main and decodes its answer.
func ask[T any](t *testing.T, args ...string) (T, error) {
	t.Helper()
	var out bytes.Buffer
	code := Main(args, &out)
	var answer T
	err := protocol.ParseAnswer(out.String(), &answer)
	if (err == nil) != (code == 0) {
		t.Errorf("exit code %d goes with %v", code, err)
	}
	if out.Len() > 1000 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("answer of %d bytes: %s", out.Len(), out.String())
	}
	return answer, err
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil || failureOf(err).Code != code {
		t.Errorf("error is %v, want %s", err, code)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHelloNamesItsOwnFile(t *testing.T) {
	t.Setenv("DISPLAY", ":7")
	hello, err := ask[protocol.Hello](t, protocol.VerbHello)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	want := protocol.Hello{Protocol: protocol.Version, OS: runtime.GOOS, Arch: runtime.GOARCH, SHA256: hexSum(data), Bytes: int64(len(data)), Display: ":7"}
	if hello != want {
		t.Errorf("hello is %+v, want %+v", hello, want)
	}
}

func TestVerbsMakeMeasureAndRemove(t *testing.T) {
	root := t.TempDir()
	if _, err := ask[any](t, protocol.VerbPrepare, root, root+"/a/b/file"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(root + "/a/b"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	if _, err := os.Stat(root + "/a/b/file"); !os.IsNotExist(err) {
		t.Error("prepare made the file itself")
	}
	if _, err := ask[any](t, protocol.VerbMkdir, root, root+"/c/d"); err != nil {
		t.Fatal(err)
	}
	write(t, root+"/c/d/one", "12345")
	write(t, root+"/c/two", "")
	if size, err := ask[protocol.Size](t, protocol.VerbSize, root, root+"/c"); err != nil || size != (protocol.Size{Bytes: 5, Files: 2, Largest: 5}) {
		t.Errorf("%+v %v", size, err)
	}
	fact, err := ask[protocol.Fact](t, protocol.VerbFact, root, root+"/c/d/one")
	if err != nil || fact != (protocol.Fact{Path: root + "/c/d/one", SHA256: hexSum([]byte("12345")), Bytes: 5}) {
		t.Errorf("%+v %v", fact, err)
	}
	for range 2 { // a missing file is fine
		if _, err := ask[any](t, protocol.VerbRemove, root, root+"/c/d/one"); err != nil {
			t.Error(err)
		}
	}
	_, err = ask[any](t, protocol.VerbRemove, root, root+"/c/d")
	wantCode(t, err, protocol.CodeUnsafe)
}

// The path check: no link at or below the root, nothing outside it; links above it are the system's affair.
func TestVerbsNeverFollowLinks(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/secret", "secret")
	root := t.TempDir()
	write(t, root+"/real/file", "x")
	for link, to := range map[string]string{root + "/dir": outside, root + "/file": outside + "/secret", root + "/inner": root + "/real"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(root, alias); err != nil {
		t.Fatal(err)
	}
	above := filepath.Join(t.TempDir(), "above")
	if err := os.Symlink(filepath.Dir(root), above); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"file through a link", []string{protocol.VerbFact, root, root + "/dir/secret"}, protocol.CodeUnsafe},
		{"link to a file", []string{protocol.VerbFact, root, root + "/file"}, protocol.CodeUnsafe},
		{"link inside the root", []string{protocol.VerbFact, root, root + "/inner/file"}, protocol.CodeUnsafe},
		{"root is a link", []string{protocol.VerbFact, alias, alias + "/real/file"}, protocol.CodeUnsafe},
		{"outside", []string{protocol.VerbFact, root, outside + "/secret"}, protocol.CodeUnsafe},
		{"above", []string{protocol.VerbFact, root + "/real", root + "/real/../../x"}, protocol.CodeUnsafe},
		{"beside, with the root's name as prefix", []string{protocol.VerbFact, root + "/re", root + "/real/file"}, protocol.CodeUnsafe},
		{"prepare through a link", []string{protocol.VerbPrepare, root, root + "/dir/x/y"}, protocol.CodeUnsafe},
		{"mkdir through a link", []string{protocol.VerbMkdir, root, root + "/dir/x"}, protocol.CodeUnsafe},
		{"size of a tree with a link", []string{protocol.VerbSize, root, root}, protocol.CodeUnsafe},
		{"scan of a tree with a link", []string{protocol.VerbScan, root, root, root + "/frame"}, protocol.CodeUnsafe},
		{"scan into a link", []string{protocol.VerbScan, root, root + "/real", root + "/dir/frame"}, protocol.CodeUnsafe},
		{"archive of a link", []string{protocol.VerbArchive, root, root, root + "/frame", "all", "file"}, protocol.CodeUnsafe},
		{"archive through a link", []string{protocol.VerbArchive, root, root, root + "/frame", "present", "dir/secret"}, protocol.CodeUnsafe},
		{"archive name above", []string{protocol.VerbArchive, root, root + "/real", root + "/frame", "all", "../file"}, protocol.CodeInvalid},
		{"remove through a link", []string{protocol.VerbRemove, root, root + "/dir/secret"}, protocol.CodeUnsafe},
		{"relative", []string{protocol.VerbFact, root, "real/file"}, protocol.CodeInvalid},
		{"missing", []string{protocol.VerbFact, root, root + "/nothing"}, protocol.CodeMissing},
		{"missing root", []string{protocol.VerbFact, root + "/no", root + "/no/thing"}, protocol.CodeMissing},
		{"not a verb", []string{"rm", root}, protocol.CodeInvalid},
		{"too few arguments", []string{protocol.VerbFact, root}, protocol.CodeInvalid},
		{"no verb", nil, protocol.CodeInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := ask[any](t, row.args...)
			wantCode(t, err, row.want)
		})
	}
	if fact, err := ask[protocol.Fact](t, protocol.VerbFact, above+"/"+filepath.Base(root), above+"/"+filepath.Base(root)+"/real/file"); err != nil || fact.Bytes != 1 {
		t.Errorf("a link above the root is refused: %v", err)
	}
	if data, err := os.ReadFile(outside + "/secret"); err != nil || string(data) != "secret" {
		t.Errorf("outside was touched: %q %v", data, err)
	}
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("outside was touched: %v", names)
	}
	if _, err := os.Lstat(root + "/frame"); !os.IsNotExist(err) {
		t.Error("a failed verb left its frame")
	}
}

func TestSpecialFilesAreRefused(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mkfifo(root+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{protocol.VerbSize, root, root}, {protocol.VerbFact, root, root + "/pipe"}, {protocol.VerbSize, root, root + "/pipe"}} {
		_, err := ask[any](t, args...)
		wantCode(t, err, protocol.CodeUnsafe)
	}
}

// 750 long names do not fit an answer: the inventory travels as a file.
func TestScanWritesTheInventoryAsAFile(t *testing.T) {
	root := t.TempDir()
	for i := range 750 {
		write(t, fmt.Sprintf("%s/tree/%03d-%s", root, i, strings.Repeat("n", 150)), fmt.Sprint(i))
	}
	fact, err := ask[protocol.Fact](t, protocol.VerbScan, root, root+"/tree", root+"/frame")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(root + "/frame")
	if err != nil || hexSum(data) != fact.SHA256 || int64(len(data)) != fact.Bytes || fact.Path != root+"/frame" || len(data) < 64_000 {
		t.Fatalf("%+v %v", fact, err)
	}
	var facts []protocol.Fact
	if err := json.Unmarshal(data, &facts); err != nil || len(facts) != 750 {
		t.Fatalf("%d facts: %v", len(facts), err)
	}
	for i, f := range facts {
		if f != (protocol.Fact{Path: fmt.Sprintf("%03d-%s", i, strings.Repeat("n", 150)), SHA256: hexSum([]byte(fmt.Sprint(i))), Bytes: int64(len(fmt.Sprint(i)))}) {
			t.Fatalf("fact %d is %+v", i, f)
		}
	}
	_, err = ask[any](t, protocol.VerbScan, root, root+"/tree", root+"/frame")
	wantCode(t, err, protocol.CodeIO) // never written over
}

func TestScanOfOneFileHasAnEmptyPath(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/one", "x")
	if _, err := ask[protocol.Fact](t, protocol.VerbScan, root, root+"/one", root+"/frame"); err != nil {
		t.Fatal(err)
	}
	var facts []protocol.Fact
	data, err := os.ReadFile(root + "/frame")
	if err != nil || json.Unmarshal(data, &facts) != nil || len(facts) != 1 || facts[0].Path != "" || facts[0].Bytes != 1 {
		t.Errorf("%s %v", data, err)
	}
}

func TestNameThatIsNotTextIsRefused(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tree/a\xffb", "x")
	_, err := ask[any](t, protocol.VerbScan, root, root+"/tree", root+"/frame")
	wantCode(t, err, protocol.CodeUnsafe)
}

func TestArchiveHoldsTheFilesAskedFor(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/tree/a", "one\n")
	write(t, root+"/tree/deep/b", "")
	fact, err := ask[protocol.Fact](t, protocol.VerbArchive, root, root+"/tree", root+"/frame", "present", "a", "missing", "deep/b")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(root + "/frame")
	if err != nil || int64(len(data)) != fact.Bytes || fact.SHA256 != "" {
		t.Fatalf("%+v %v", fact, err)
	}
	got, err := frame.Unpack(bytes.NewReader(data), []frame.Want{{Path: "a"}, {Path: "missing"}, {Path: "deep/b"}}, frame.Present,
		func(frame.Header, io.Reader) error { return nil })
	if err != nil || len(got) != 2 || got[0].SHA256 != hexSum([]byte("one\n")) {
		t.Errorf("%+v %v", got, err)
	}
	_, err = ask[any](t, protocol.VerbArchive, root, root+"/tree", root+"/other", "all", "a", "missing")
	wantCode(t, err, protocol.CodeMissing)
	if _, err := os.Lstat(root + "/other"); !os.IsNotExist(err) {
		t.Error("a failed archive stayed")
	}
}

// Scanning a large sparse file reads it in pieces.
func TestLargeFileIsHashedInPieces(t *testing.T) {
	if testing.Short() {
		t.Skip("hashes 300 MiB")
	}
	root := t.TempDir()
	write(t, root+"/big", "")
	if err := os.Truncate(root+"/big", 300<<20); err != nil {
		t.Fatal(err)
	}
	fact, err := ask[protocol.Fact](t, protocol.VerbFact, root, root+"/big")
	if err != nil || fact.Bytes != 300<<20 {
		t.Errorf("%+v %v", fact, err)
	}
	out, err := exec.Command("sha256sum", root+"/big").Output()
	if err == nil && !strings.HasPrefix(string(out), fact.SHA256) {
		t.Errorf("hash is %s, want %s", fact.SHA256, out)
	}
}

func TestImageFact(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/p.png", onePixel)
	write(t, root+"/j.jpg", "\xff\xd8\xff\xe0rest")
	write(t, root+"/w.webp", "RIFF\x00\x00\x00\x00WEBPVP8 ")
	write(t, root+"/t.png", "text")
	write(t, root+"/e.png", "")
	for _, row := range []struct{ name, file, limit, mime, code string }{
		{"png", "p.png", "1000", "image/png", ""},
		{"jpeg", "j.jpg", "1000", "image/jpeg", ""},
		{"webp", "w.webp", "1000", "image/webp", ""},
		{"text", "t.png", "1000", "", protocol.CodeNotImage},
		{"empty", "e.png", "1000", "", protocol.CodeNotImage},
		{"too large", "p.png", "10", "", protocol.CodeTooLarge},
		{"missing", "no.png", "10", "", protocol.CodeMissing},
		{"odd bound", "p.png", "ten", "", protocol.CodeInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			fact, err := ask[protocol.ImageFact](t, protocol.VerbImageFact, root, root+"/"+row.file, row.limit)
			if row.code != "" {
				wantCode(t, err, row.code)
				return
			}
			data, _ := os.ReadFile(root + "/" + row.file)
			if err != nil || fact.MimeType != row.mime || fact.SHA256 != hexSum(data) || fact.Identity == "" {
				t.Errorf("%+v %v", fact, err)
			}
		})
	}
	// The same bytes in another file are another identity.
	before, err := ask[protocol.ImageFact](t, protocol.VerbImageFact, root, root+"/p.png", "1000")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root+"/new", onePixel)
	if err := os.Rename(root+"/new", root+"/p.png"); err != nil {
		t.Fatal(err)
	}
	after, err := ask[protocol.ImageFact](t, protocol.VerbImageFact, root, root+"/p.png", "1000")
	if err != nil || after.SHA256 != before.SHA256 || after.Identity == before.Identity {
		t.Errorf("replaced by equal bytes: %+v %+v %v", before, after, err)
	}
}
