package machine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

func catalogue(app string) string {
	return `{"schemaVersion":1,"images":[{"image":"host","os":"linux","architecture":"x86_64","applications":[` + app + `]}]}`
}

func application(id, name, aliases, version string) string {
	return fmt.Sprintf(`{"id":%s,"name":%s,"aliases":%s,"version":%s}`, id, name, aliases, version)
}

func TestCatalogueRules(t *testing.T) {
	q := func(s string) string { return `"` + s + `"` }
	long := strings.Repeat("é", 256)
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf(`"%02d"`, i))
	}
	cases := []struct {
		name, body string
		ok         bool
	}{
		{"whole", catalogue(application(q("a"), q("A"), `["x","y"]`, "null")), true},
		{"no images", `{"schemaVersion":1,"images":[]}`, true},
		{"an image without applications", catalogue(""), true},
		{"256 characters, however many bytes", catalogue(application(q("a"), q(long), "[]", q(long))), true},
		{"257 characters", catalogue(application(q("a"), q(long+"x"), "[]", "null")), false},
		{"id of 129", catalogue(application(q(strings.Repeat("a", 129)), q("A"), "[]", "null")), false},
		{"a pair of surrogates is one character", catalogue(application(q("a"), q(`\ud83d\ude00`), "[]", "null")), true},
		{"a lone surrogate", catalogue(application(q("a"), q(`x\ud83d`), "[]", "null")), false},
		{"a low surrogate first", catalogue(application(q("a"), q(`\ude00x`), "[]", "null")), false},
		{"an escaped backslash before u", catalogue(application(q("a"), q(`\\ud83d`), "[]", "null")), true},
		{"blank", catalogue(application(q("a"), q(" \u00a0\ufeff"), "[]", "null")), false},
		{"U+0085 is not blank", catalogue(application(q("a"), q("\u0085"), "[]", "null")), true},
		{"a control character", catalogue(application(q("a"), q(`a\u001fb`), "[]", "null")), false},
		{"an empty version", catalogue(application(q("a"), q("A"), "[]", q(""))), false},
		{"a version that is a number", catalogue(application(q("a"), q("A"), "[]", "1")), false},
		{"17 aliases", catalogue(application(q("a"), q("A"), "["+strings.Join(many, ",")+"]", "null")), false},
		{"aliases out of order", catalogue(application(q("a"), q("A"), `["y","x"]`, "null")), false},
		{"an alias twice", catalogue(application(q("a"), q("A"), `["x","x"]`, "null")), false},
		{"aliases null", catalogue(application(q("a"), q("A"), "null", "null")), false},
		{"ids out of order", catalogue(application(q("b"), q("B"), "[]", "null") + "," + application(q("a"), q("A"), "[]", "null")), false},
		{"an id twice", catalogue(application(q("a"), q("A"), "[]", "null") + "," + application(q("a"), q("A"), "[]", "null")), false},
		{"version left out", catalogue(`{"id":"a","name":"A","aliases":[]}`), false},
		{"an unknown key in an application", catalogue(`{"id":"a","name":"A","aliases":[],"version":null,"x":1}`), false},
		{"a key in capitals", catalogue(`{"ID":"a","name":"A","aliases":[],"version":null}`), false},
		{"an unknown key at the top", `{"schemaVersion":1,"images":[],"note":"hi"}`, false},
		{"another version", `{"schemaVersion":2,"images":[]}`, false},
		{"images null", `{"schemaVersion":1,"images":null}`, false},
		{"another os", strings.Replace(catalogue(""), "linux", "windows", 1), false},
		{"another architecture", strings.Replace(catalogue(""), "x86_64", "riscv64", 1), false},
		{"an image name with a slash", strings.Replace(catalogue(""), `"host"`, `"a/b"`, 1), false},
		{"something after it", `{"schemaVersion":1,"images":[]} {}`, false},
		{"bytes that are no UTF-8", catalogue(application(q("a"), q("\xff"), "[]", "null")), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := machine.DecodeCatalogue([]byte(c.body))
			if (err == nil) != c.ok || err != nil && !errors.Is(err, machine.ErrMalformed) {
				t.Errorf("DecodeCatalogue = %v, want ok: %t", err, c.ok)
			}
		})
	}
}

func FuzzDecodeCatalogue(f *testing.F) {
	f.Add([]byte(catalogue(application(`"a"`, `"A"`, `["x"]`, `"1"`))))
	f.Add([]byte(`{"schemaVersion":1,"images":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := machine.DecodeCatalogue(data); err == nil && c.Validate() != nil {
			t.Errorf("accepted a catalogue that is not valid: %q", data)
		}
	})
}
