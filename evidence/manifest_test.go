package evidence

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestManifestRules(t *testing.T) {
	sum := strings.Repeat("a", 64)
	entry := func(path string) string { return `{"path":"` + path + `","sha256":"` + sum + `","bytes":1}` }
	whole := func(records string) string {
		return `{"manifestVersion":1,"attempts":[],"segments":[],"media":[],"records":[` + records + `]}`
	}
	tests := []struct {
		name, text string
		want       string // part of a problem; "" for none
	}{
		{"sound", whole(entry("OPENING.txt")), ""},
		{"no JSON", "{", "not a manifest"},
		{"a list", "[]", "not a manifest"},
		{"other version", strings.Replace(whole(entry("OPENING.txt")), `"manifestVersion":1`, `"manifestVersion":2`, 1), "version is 2"},
		{"media", strings.Replace(whole(entry("OPENING.txt")), `"media":[]`, `"media":[{}]`, 1), "media are not"},
		{"no segments", strings.Replace(whole(entry("OPENING.txt")), `"segments":[],`, ``, 1), "segments are not"},
		{"records that are null", `{"manifestVersion":1,"attempts":[],"segments":[],"media":[],"records":null}`, "records are not"},
		{"listed twice", whole(entry("OPENING.txt") + "," + entry("OPENING.txt")), "listed twice"},
		{"lists itself", whole(entry("OPENING.txt") + "," + entry("manifest.json")), "list itself"},
		{"traversal", whole(entry("OPENING.txt") + "," + entry("../x")), "dot segment"},
		{"short hash", strings.Replace(whole(entry("OPENING.txt")), sum, "aa", 1), "malformed"},
		{"upper-case hash", strings.Replace(whole(entry("OPENING.txt")), sum, strings.ToUpper(sum), 1), "malformed"},
		{"negative size", strings.Replace(whole(entry("OPENING.txt")), `"bytes":1`, `"bytes":-1`, 1), "malformed"},
		{"broken size", strings.Replace(whole(entry("OPENING.txt")), `"bytes":1`, `"bytes":1.5`, 1), "not a manifest"},
		{"no opening text", whole(entry("x")), "does not list OPENING.txt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := parseManifest([]byte(tt.text))
			found := slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.Message, tt.want) })
			if tt.want == "" && len(problems) > 0 || tt.want != "" && !found {
				t.Errorf("problems = %v, want %q", problems, tt.want)
			}
		})
	}
}

// FuzzManifest: no bytes make the reader panic, and a manifest of ours has one form only: what passes its own checks is
// written again to the same bytes.
func FuzzManifest(f *testing.F) {
	r := demoPackage(f)
	m, _, err := readManifest(r.dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.raw)
	f.Add([]byte(`{"manifestVersion":1,"attempts":[],"segments":[],"media":[],"records":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, problems := parseManifest(data)
		if len(problems) > 0 || len(selfFaults(m, opening(m), m.CaptureSoftware)) > 0 {
			return
		}
		if again, err := MarshalRecord(m); err != nil || !bytes.Equal(again, data) {
			t.Errorf("accepted %q, which is written as %q, %v", data, again, err)
		}
	})
}
