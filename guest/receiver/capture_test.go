package receiver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// driver writes a capture program of an image and plans it for a request.
func driver(t *testing.T, code string) func(*protocol.Request) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "cua-driver")
	picture := filepath.Join(dir, "picture.png")
	write(t, picture, onePixel)
	// $out is the file the program was told to write.
	script := "#!/bin/sh\n[ \"$1 $2 $3\" = 'call get_desktop_state --json' ] || exit 9\n" +
		"out=${4#*:\\\"}; out=${out%\\\"*}; picture=" + picture + "\n" + code + "\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return func(r *protocol.Request) {
		r.Snapshots.Capture, r.Snapshots.Driver = protocol.CaptureCuaDriver, path
	}
}

func TestImagesOwnCaptureProgramIsUsed(t *testing.T) {
	g := newGuest(t)
	receipt := g.run(g.push(protocol.Shell, "true", driver(t, `cp "$picture" "$out"; echo "{\"screenshot_file_path\":\"$out\"}"`)), Options{})
	wantExit(t, receipt, 0)
	images := receipt.ImageEvidence
	if images.Status != protocol.ImageAvailable || len(images.Snapshots) != 2 || images.Snapshots[0].SHA256 != hexSum([]byte(onePixel)) {
		t.Errorf("image evidence is %s", asJSON(t, images))
	}
	if left, _ := filepath.Glob(g.join(".capture*")); len(left) != 0 {
		t.Errorf("temporary captures stay: %v", left)
	}
}

// A capture is believed only when the program ended well, named the file, and the file is a whole picture.
func TestCaptureThatIsNoPictureRefuses(t *testing.T) {
	const answer = `; echo "{\"screenshot_file_path\":\"$out\"}"`
	for _, row := range []struct{ name, code, want string }{
		{"fails", `cp "$picture" "$out"` + answer + `; echo broken >&2; exit 3`, "broken"},
		{"writes nothing", `true` + answer, "no such file"},
		{"empty file", `: > "$out"` + answer, "empty"},
		{"not a PNG", `echo a picture of a rather beautiful sunset by the sea, taken in the late autumn > "$out"` + answer, "not a PNG"},
		{"cut short", `head -c 60 "$picture" > "$out"` + answer, "cut short"},
		{"another file", `cp "$picture" "$out"; echo '{"screenshot_file_path":"/elsewhere.png"}'`, "does not name"},
		{"no answer", `cp "$picture" "$out"`, "does not name"},
		{"a link", `ln -s "$picture" "$out"` + answer, ""},
		{"missing program", "", "no-driver"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			plan := driver(t, row.code)
			if row.code == "" {
				plan = func(r *protocol.Request) {
					r.Snapshots.Capture, r.Snapshots.Driver = protocol.CaptureCuaDriver, "/no-driver"
				}
			}
			receipt := g.run(g.push(protocol.Shell, "echo x >> ran", plan), Options{})
			want(t, receipt, protocol.Refused, protocol.ReasonCapture)
			if !strings.Contains(receipt.Outcome.Diagnostic, row.want) || g.count("ran") != 0 {
				t.Errorf("diagnostic is %s", receipt.Outcome.Diagnostic)
			}
			if left, _ := filepath.Glob(g.join(".capture*")); len(left) != 0 {
				t.Errorf("temporary captures stay: %v", left)
			}
		})
	}
}

// What a capture program leaves running is ended: it must not act between a picture and its script.
func TestCaptureProgramLeavesNothingRunning(t *testing.T) {
	g := newGuest(t)
	pid := g.join("workspace", "pid")
	plan := driver(t, `setsid sh -c 'echo $$ > `+pid+`; exec sleep 60' >/dev/null 2>&1 & while [ ! -s `+pid+` ]; do :; done
cp "$picture" "$out"; echo "{\"screenshot_file_path\":\"$out\"}"`)
	wantExit(t, g.run(g.push(protocol.Shell, "true", plan), Options{}), 0)
	if p := g.pidIn("pid"); alive(p) {
		killLater(t, p)
		t.Error("it is still there")
	}
}

func TestNoDisplayRefusesInWords(t *testing.T) {
	g := newGuest(t)
	receipt := g.run(g.push(protocol.Shell, "echo x >> ran"), Options{})
	want(t, receipt, protocol.Refused, protocol.ReasonCapture)
	if !strings.Contains(receipt.Outcome.Diagnostic, "no X display") || g.count("ran") != 0 {
		t.Error(receipt.Outcome.Diagnostic)
	}
}
