package receiver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// A flood does not kill the script: its exit status decides, the receipt keeps both ends, a file keeps the whole.
func TestFloodKeepsBothEndsAndTheWholeAsAFile(t *testing.T) {
	g := newGuest(t)
	receipt := g.shell(`i=0; echo first; while [ $i -lt 20000 ]; do echo "line $i ........................................................................................"; i=$((i+1)); done; echo last; echo err >&2; exit 7`)
	wantExit(t, receipt, 7)
	out, s := *receipt.Stdout, receipt.StdoutStream
	if !receipt.OutputTruncated || s == nil || s.Bytes < 1_900_000 || receipt.StderrStream != nil || *receipt.Stderr != "err\n" {
		t.Fatalf("streams: %s %s", asJSON(t, s), asJSON(t, receipt.StderrStream))
	}
	if !strings.HasPrefix(out, "first\nline 0 ") || !strings.HasSuffix(out, "\nlast\n") || !strings.Contains(out, fmt.Sprintf("[... %d bytes left out ...]", s.Omitted)) {
		t.Error("the text does not hold both ends and the gap between")
	}
	if max := 2*protocol.StreamKept + 100; len(out) > max {
		t.Errorf("text has %d bytes", len(out))
	}
	data, err := os.ReadFile(g.join("state", s.Path))
	if err != nil || int64(len(data)) != s.Bytes || s.Saved != s.Bytes || hexSum(data) != s.SHA256 {
		t.Errorf("the file is not the whole: %d bytes, %v", len(data), err)
	}
}

// An endless flood is stopped by the timeout alone; beyond its bound nothing of it is saved.
func TestEndlessFloodIsStoppedByItsTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 64 MiB")
	}
	g := newGuest(t)
	receipt := g.shell("exec cat /dev/zero", func(r *protocol.Request) { r.TimeoutMs = 1500 })
	want(t, receipt, protocol.Uncertain, "")
	confirmed(t, receipt)
	s := receipt.StdoutStream
	if !receipt.TimedOut || !receipt.OutputTruncated || s == nil || s.Bytes <= protocol.StreamFileMax || s.Saved != protocol.StreamFileMax {
		t.Errorf("stream: %s", asJSON(t, s))
	}
	if info, err := os.Stat(g.join("state", s.Path)); err != nil || info.Size() != protocol.StreamFileMax {
		t.Errorf("file: %v %v", info, err)
	}
}

func TestOutputThatIsNotTextIsKeptAsAFile(t *testing.T) {
	g := newGuest(t)
	receipt := g.shell(`printf 'a\377b'`)
	wantExit(t, receipt, 0)
	s := receipt.StdoutStream
	if *receipt.Stdout != "a\uFFFDb" || s == nil || s.Omitted != 0 || receipt.OutputTruncated {
		t.Fatalf("stdout %q, stream %s", *receipt.Stdout, asJSON(t, s))
	}
	if data, err := os.ReadFile(g.join("state", s.Path)); err != nil || string(data) != "a\xffb" {
		t.Errorf("file holds %q: %v", data, err)
	}
}

func TestStreamText(t *testing.T) {
	const kept = protocol.StreamKept
	for _, row := range []struct {
		name    string
		content string
		omitted int64
		whole   bool
	}{
		{"empty", "", 0, true},
		{"exactly both ends", strings.Repeat("x", 2*kept), 0, true},
		{"one byte more", strings.Repeat("x", 2*kept+1), 1, false},
		{"a character across the first cut", strings.Repeat("x", kept-1) + "é" + strings.Repeat("y", 2*kept), kept + 2, false},
		{"a character across the last cut", strings.Repeat("x", 3*kept) + "é" + strings.Repeat("y", kept-1), 2*kept + 1 + 1, false},
		{"four bytes across both cuts", strings.Repeat("x", kept-2) + "🙂" + strings.Repeat("z", 100) + "🙂" + strings.Repeat("y", kept-2), 2 + 100 + 4 + 2, false},
		{"a character across head and tail", strings.Repeat("x", kept-1) + "é" + strings.Repeat("y", 10), 0, true},
	} {
		for _, chunk := range []int{1 << 20, 4096, 7} {
			t.Run(fmt.Sprint(row.name, " by ", chunk), func(t *testing.T) {
				s := newStream(filepath.Join(t.TempDir(), "out"), "outputs/out")
				for rest := []byte(row.content); len(rest) > 0; {
					n := min(chunk, len(rest))
					if wrote, err := s.Write(rest[:n]); wrote != n || err != nil {
						t.Fatal(wrote, err)
					}
					rest = rest[n:]
				}
				text, omitted, whole := s.text()
				if omitted != row.omitted || whole != row.whole || !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
					t.Errorf("omitted %d, whole %v", omitted, whole)
				}
				if whole && text != row.content {
					t.Error("text is not the content")
				}
				if !whole {
					note := fmt.Sprintf("\n[... %d bytes left out ...]\n", omitted)
					head, tail, found := strings.Cut(text, note)
					if !found || !strings.HasPrefix(row.content, head) || !strings.HasSuffix(row.content, tail) || int64(len(head)+len(tail))+omitted != int64(len(row.content)) {
						t.Error("text is not both ends of the content")
					}
				}
				_, beyond, err := s.finish()
				if err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(s.path)
				if row.whole {
					if beyond != nil || !os.IsNotExist(err) {
						t.Errorf("beyond %v, file %v", beyond, err)
					}
				} else if beyond == nil || !bytes.Equal(data, []byte(row.content)) {
					t.Errorf("beyond %v: the file is not the content", beyond)
				}
			})
		}
	}
}

// A file that cannot be written costs its bytes and nothing else.
func TestStreamWithoutAFileStillHasItsText(t *testing.T) {
	s := newStream(filepath.Join(t.TempDir(), "missing", "out"), "outputs/out")
	content := bytes.Repeat([]byte("x"), 100_000)
	if _, err := s.Write(content); err != nil {
		t.Fatal(err)
	}
	text, beyond, err := s.finish()
	if err == nil || beyond == nil || beyond.Path != "" || beyond.Bytes != 100_000 || len(text) < 2*protocol.StreamKept {
		t.Errorf("%v %v", beyond, err)
	}
}

// A receipt that cannot be written says why: a folder that is gone is no full disk.
func TestReceiptThatCannotBeWrittenSaysWhy(t *testing.T) {
	g := newGuest(t)
	hook := func(at string) {
		if at == pointRetained {
			if err := os.RemoveAll(g.join("state", "receiver", "receipts")); err != nil {
				t.Error(err)
			}
		}
	}
	req := g.push(protocol.Shell, "exit 4")
	receipt := g.run(req, Options{Capturer: &fakeCapturer{}, Hook: hook})
	want(t, receipt, protocol.Uncertain, "")
	for _, part := range []string{"receipt could not be written", "no such file or directory", "exit code 4"} {
		if !strings.Contains(receipt.Outcome.Diagnostic, part) {
			t.Errorf("diagnostic is %q, want %q in it", receipt.Outcome.Diagnostic, part)
		}
	}
	if strings.Contains(receipt.Outcome.Diagnostic, "room") {
		t.Errorf("diagnostic is %q, and the disk is not full", receipt.Outcome.Diagnostic)
	}
}

// A measured tree names its largest file, and the sum of sparse files stops where numbers end.
func TestMeasureOfSparseFilesStaysTrue(t *testing.T) {
	root := t.TempDir()
	const huge = 1 << 43
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(root, name)
		write(t, path, "")
		if err := os.Truncate(path, huge); err != nil {
			t.Skipf("this file system takes no sparse file of %d bytes: %v", int64(huge), err)
		}
	}
	write(t, filepath.Join(root, "c"), "c")
	size, err := measure(root, root)
	if err != nil || size != (protocol.Size{Bytes: 2*huge + 1, Files: 3, Largest: huge}) {
		t.Errorf("size %+v, %v", size, err)
	}
}
