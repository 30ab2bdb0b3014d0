package mcpgate

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

func gate(t *testing.T) *Server {
	return New(&fakeRelay{}, Options{ResultDir: filepath.Join(t.TempDir(), "state", "results")})
}

func TestPlainResultIsIndentedJSONWithoutEscapes(t *testing.T) {
	got := gate(t).render(guest.Result{Value: map[string]any{"out": "<a> & é", "n": 1}})
	want := "{\n  \"n\": 1,\n  \"out\": \"<a> & é\"\n}"
	if textOf(got) != want || got.IsError || len(got.Content) != 1 {
		t.Errorf("%q, isError %v, %d blocks; want %q alone", textOf(got), got.IsError, len(got.Content), want)
	}
}

// T11, T17.
func TestImageBearingResultLeadsWithItsIdentity(t *testing.T) {
	descriptor := json.RawMessage(`{"imageId": "image-1", "source": "display"}`)
	for _, row := range []struct {
		name       string
		result     guest.Result
		wantLead   string
		wantBlocks int
		wantError  bool
	}{
		{"pending", guest.Result{Value: 1, Delivery: &guest.ImageDelivery{Status: "pending", Image: descriptor}},
			`{"imageDelivery":{"status":"pending","image":{"imageId":"image-1","source":"display"}},"executionFailed":false}`, 1, false},
		{"not requested", guest.Result{Value: 1, Delivery: &guest.ImageDelivery{Status: "not-requested"}},
			`{"imageDelivery":{"status":"not-requested"},"executionFailed":false}`, 1, false},
		{"attached", guest.Result{Value: 1, Delivery: &guest.ImageDelivery{Status: "attached"}, Image: []byte("picture"), MimeType: "image/png"},
			`{"imageDelivery":{"status":"attached"},"executionFailed":false}`, 2, false},
		{"attached, execution failed", guest.Result{Value: 1, Delivery: &guest.ImageDelivery{Status: "attached", ExecutionFailed: true}, Image: []byte("picture"), MimeType: "image/png"},
			`{"imageDelivery":{"status":"attached"},"executionFailed":true}`, 2, true},
		{"execution failed by its own account", guest.Result{Value: 1, Failed: true, Delivery: &guest.ImageDelivery{Status: "not-requested"}},
			`{"imageDelivery":{"status":"not-requested"},"executionFailed":false}`, 1, true},
		{"capture failed", guest.Result{Value: 1, Delivery: &guest.ImageDelivery{Status: "capture-failed", Diagnostic: "no <display>"}},
			`{"imageDelivery":{"status":"capture-failed","diagnostic":"no <display>"},"executionFailed":false}`, 1, true},
		{"transfer failed", guest.Result{Value: 1, Delivery: &guest.ImageDelivery{Status: "transfer-failed"}},
			`{"imageDelivery":{"status":"transfer-failed"},"executionFailed":false}`, 1, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := gate(t).render(row.result)
			if textOf(got) != row.wantLead+"\n1" {
				t.Errorf("text %q, want it to lead with %q", textOf(got), row.wantLead)
			}
			if len(got.Content) != row.wantBlocks || got.IsError != row.wantError {
				t.Errorf("%d blocks, isError %v; want %d, %v", len(got.Content), got.IsError, row.wantBlocks, row.wantError)
			}
			if row.wantBlocks == 2 {
				image, ok := got.Content[1].(*mcp.ImageContent)
				if !ok || string(image.Data) != "picture" || image.MIMEType != "image/png" {
					t.Errorf("image block %+v", got.Content[1])
				}
			}
		})
	}
}

// T18.
func TestLongResultIsCutAndKeptWhole(t *testing.T) {
	lines := make([]string, 3000)
	for i := range lines {
		lines[i] = fmt.Sprint(i)
	}
	for _, row := range []struct {
		name      string
		value     any
		wantLines int
		wantBytes int
	}{
		{"too many lines", lines, maxResultLines, 0},
		{"too many bytes", strings.Repeat("é", 40_000), 1, maxResultBytes - 1}, // a quote, then characters of two bytes
		{"both", []string{strings.Repeat("x", 60_000), "y"}, 2, maxResultBytes},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := gate(t)
			got := textOf(server.render(guest.Result{Value: row.value, Delivery: &guest.ImageDelivery{Status: "pending"}}))
			lead, rest, _ := strings.Cut(got, "\n")
			if lead != `{"imageDelivery":{"status":"pending"},"executionFailed":false}` {
				t.Errorf("the identity did not survive: %q", short(lead))
			}
			note := strings.LastIndex(rest, "\n[")
			shown := rest[:note]
			if n := strings.Count(shown, "\n") + 1; n != row.wantLines {
				t.Errorf("%d lines, want %d", n, row.wantLines)
			}
			if row.wantBytes > 0 && len(shown) != row.wantBytes || len(shown) > maxResultBytes || !utf8.ValidString(shown) {
				t.Errorf("%d bytes, want %d whole characters", len(shown), row.wantBytes)
			}
			found := regexp.MustCompile(`; the whole result is in (\S+)\]$`).FindStringSubmatch(rest)
			if found == nil {
				t.Fatalf("the text names no file: %q", rest[note:])
			}
			whole, err := os.ReadFile(found[1])
			if want, _ := indented(row.value); err != nil || string(whole) != want {
				t.Errorf("the file holds %d bytes, %v; want the whole result of %d", len(whole), err, len(want))
			}
			if !keptName.MatchString(filepath.Base(found[1])) {
				t.Errorf("the file is called %s", found[1])
			}
			wantMode(t, found[1], 0o600)
			wantMode(t, filepath.Dir(found[1]), 0o700|fs.ModeDir)
		})
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode() != want {
		t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, want)
	}
}

func TestResultAtTheBoundsIsWhole(t *testing.T) {
	for _, row := range []struct{ name, whole string }{
		{"2,000 lines", strings.Repeat("\n", maxResultLines-1)},
		{"50 KiB", strings.Repeat("x", maxResultBytes)},
		{"empty", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := gate(t).cut(row.whole); got != row.whole {
				t.Errorf("cut to %d of %d bytes", len(got), len(row.whole))
			}
		})
	}
}

func TestCutSaysWhenTheWholeIsNotKept(t *testing.T) {
	whole := strings.Repeat("x", maxResultBytes+1)
	if got := New(&fakeRelay{}, Options{}).cut(whole); !strings.HasSuffix(got, "\n[cut after 51200 of 51201 bytes; the rest is not kept]") {
		t.Errorf("without a folder: %q", got[maxResultBytes:])
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := New(&fakeRelay{}, Options{ResultDir: open}).cut(whole); !strings.HasSuffix(got, "; the rest could not be kept on disk]") {
		t.Errorf("in a folder that others can enter: %q", got[maxResultBytes:])
	}
	if left, err := os.ReadDir(open); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestOldestKeptResultsGoFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	var paths []string
	for i := range maxKept + 3 {
		path, err := keepResult(dir, "x")
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1_000_000+i), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	foreign := filepath.Join(dir, "notes.json")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := prune(dir); err != nil {
		t.Fatal(err)
	}
	for i, path := range append(paths, foreign) {
		_, err := os.Stat(path)
		if gone := err != nil; gone != (i < 3) {
			t.Errorf("file %d: gone %v", i, gone)
		}
	}
}
