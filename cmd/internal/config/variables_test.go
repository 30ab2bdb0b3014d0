package config

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

func TestEveryVariableThatIsReadIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, v := range Variables {
		documented[v.Name] = true
	}
	read := map[string]bool{}
	if _, err := Load(Source{Cwd: "/", Home: "/h", Lookup: func(name string) (string, bool) { read[name] = true; return "", false }}); err != nil {
		t.Fatal(err)
	}
	for name := range read {
		if !documented[name] {
			t.Errorf("%s is read and not documented", name)
		}
	}
	for name := range documented {
		if !read[name] {
			t.Errorf("%s is documented and never read", name)
		}
	}
}

func TestTheSettingsPageIsTheTable(t *testing.T) {
	const page = "../../../docs/configuration.md"
	if *update {
		if err := os.WriteFile(page, []byte(Page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(page)
	if err != nil || string(b) != Page() {
		t.Errorf("docs/configuration.md is not what the table says (%v); run: go test ./cmd/internal/config -update", err)
	}
}
