package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerifyNamesEveryKindOfChange(t *testing.T) {
	t.Parallel()
	needMachines(t)
	w := newWorld(t)
	pkg := tryOnce(t, w).Package
	receipts, err := filepath.Glob(filepath.Join(pkg, "host", "receiver-receipts", "*.json"))
	if err != nil || len(receipts) == 0 {
		t.Fatalf("no receipts in the package: %v", err)
	}
	victim := strings.TrimPrefix(receipts[0], pkg+"/")
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		named  []string
	}{
		{"one byte changed", func(t *testing.T, dir string) {
			path := filepath.Join(dir, victim)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			must(t, os.WriteFile(path, b, 0o600))
		}, []string{victim}},
		{"one file added", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "host", "added.txt"), []byte("x"), 0o600))
		}, []string{"host/added.txt"}},
		{"one file removed", func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, victim))) }, []string{victim}},
		{"one file renamed", func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, victim), filepath.Join(dir, "host", "renamed.json")))
		}, []string{victim, "host/renamed.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "package")
			must(t, os.CopyFS(dir, os.DirFS(pkg)))
			if out, _, code := w.run("verify", dir); code != 0 {
				t.Fatalf("the untouched copy does not verify: %s", out)
			}
			c.change(t, dir)
			out, _, code := w.run("verify", dir)
			if code != 3 {
				t.Errorf("exit code %d, want 3", code)
			}
			for _, name := range c.named {
				if !strings.Contains(out, name) {
					t.Errorf("%s is not named in:\n%s", name, out)
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
