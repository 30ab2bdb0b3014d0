package image

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func demoEntry() Entry {
	backend, d, name := demo()
	return Entry{Owner: "owner-demo", Enclosure: d.Enclosure, Backend: backend, Descriptor: d, FileName: name,
		Recording: "/project/relay-evidence/relay-demo-1a2b3c4d", Remote: "state/snapshots/session-0demo/" + name}
}

func status(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return ""
}

func TestCatalogueWritesOnceAndAnswersItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "image-catalog")
	c := Open(dir)
	e := demoEntry()
	for range 2 {
		id, err := c.Register(e)
		if err != nil {
			t.Fatal(err)
		}
		e.ImageID = id
	}
	path := filepath.Join(dir, e.ImageID+".json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("the entry is %v, %v, want 0600 and one name", info, err)
	}
	got, err := c.Load(e.Binding(), e.ImageID)
	if err != nil || got.Descriptor != e.Descriptor || got.FileName != e.FileName {
		t.Errorf("Load = %+v, %v", got, err)
	}
	all, err := c.All()
	if err != nil || len(all) != 1 {
		t.Errorf("All = %v, %v", all, err)
	}
}

func TestCatalogueRefusesOthers(t *testing.T) {
	c := Open(t.TempDir())
	e := demoEntry()
	id, err := c.Register(e)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, binding, id string }{
		{"other owner", Binding("owner-other", e.Enclosure, e.Backend), id},
		{"other guest", Binding(e.Owner, "relay-other-1a2b3c4d", e.Backend), id},
		{"other backend", Binding(e.Owner, e.Enclosure, map[string]string{"endpoint": "http://127.0.0.1:1"}), id},
		{"guessed id", e.Binding(), "image-" + strings.Repeat("0", 64)},
		{"no id", e.Binding(), "../../etc/passwd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := c.Load(tt.binding, tt.id); status(err) != UnauthorizedReference {
				t.Errorf("Load = %v, want unauthorized-reference", err)
			}
		})
	}
}

func TestCatalogueNoticesTampering(t *testing.T) {
	edit := func(change func(e map[string]any)) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var e map[string]any
			if err := json.Unmarshal(data, &e); err != nil {
				t.Fatal(err)
			}
			change(e)
			data, err = json.MarshalIndent(e, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	descriptor := func(field string, value any) func(t *testing.T, path string) {
		return edit(func(e map[string]any) { e["descriptor"].(map[string]any)[field] = value })
	}
	replace := func(make func(path string) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := make(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name   string
		tamper func(t *testing.T, path string)
		want   string
	}{
		{"other order of keys and blanks", edit(func(map[string]any) {}), ""},
		{"hash", descriptor("sha256", strings.Repeat("0", 64)), IntegrityFailed},
		{"phase", descriptor("phase", "before"), IntegrityFailed},
		{"size", descriptor("bytes", 11), IntegrityFailed},
		{"file name", edit(func(e map[string]any) { e["fileName"] = "other.png" }), IntegrityFailed},
		{"remote", edit(func(e map[string]any) { e["remote"] = "state/snapshots/session-0demo/other.png" }), IntegrityFailed},
		{"owner", edit(func(e map[string]any) { e["owner"] = "owner-other" }), IntegrityFailed},
		{"unknown field", edit(func(e map[string]any) { e["more"] = 1 }), IntegrityFailed},
		{"cut off", func(t *testing.T, path string) {
			if err := os.Truncate(path, 40); err != nil {
				t.Fatal(err)
			}
		}, IntegrityFailed},
		{"oversized", replace(func(p string) error { return os.WriteFile(p, make([]byte, maxEntry+1), 0o600) }), IntegrityFailed},
		{"symlink", replace(func(p string) error { return os.Symlink("/etc/passwd", p) }), IntegrityFailed},
		{"fifo", replace(func(p string) error { return syscall.Mkfifo(p, 0o600) }), IntegrityFailed},
		{"second name", func(t *testing.T, path string) {
			if err := os.Link(path, path+"2"); err != nil {
				t.Fatal(err)
			}
		}, IntegrityFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			c := Open(dir)
			e := demoEntry()
			id, err := c.Register(e)
			if err != nil {
				t.Fatal(err)
			}
			tt.tamper(t, filepath.Join(dir, id+".json"))
			if _, err := c.Load(e.Binding(), id); status(err) != tt.want {
				t.Errorf("Load = %v, want %q", err, tt.want)
			}
			if _, err := c.All(); status(err) != tt.want {
				t.Errorf("All = %v, want %q", err, tt.want)
			}
			if _, err := c.Register(e); status(err) != tt.want {
				t.Errorf("Register = %v, want %q", err, tt.want)
			}
		})
	}
}

func storedPicture(t *testing.T) (Store, string, Descriptor, string) {
	t.Helper()
	e := demoEntry()
	from := filepath.Join(t.TempDir(), "from")
	if err := os.WriteFile(from, []byte("PNG\nBYTES\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return OpenStore(filepath.Join(t.TempDir(), "images")), ID(e.Binding(), e.Descriptor, e.FileName), e.Descriptor, from
}

func TestStorePublishesOnceAndFinds(t *testing.T) {
	s, id, d, from := storedPicture(t)
	if _, err := s.Find(id, d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Find before = %v, want not-exist", err)
	}
	for range 2 {
		path, err := s.Publish(id, d, from)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) != "original.png" {
			t.Errorf("published as %s", path)
		}
	}
	if _, err := s.Find(id, d); err != nil {
		t.Errorf("Find = %v", err)
	}
	found, err := os.ReadDir(filepath.Dir(s.Path(id, d)))
	if err != nil || len(found) != 1 {
		t.Errorf("the folder holds %v, %v", found, err)
	}
}

func TestStoreKeepsAndReportsAConflict(t *testing.T) {
	s, id, d, from := storedPicture(t)
	path := s.Path(id, d)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("other byte"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(id, d, from); status(err) != IntegrityFailed {
		t.Errorf("Publish = %v, want integrity-failed", err)
	}
	if _, err := s.Find(id, d); status(err) != IntegrityFailed {
		t.Errorf("Find = %v, want integrity-failed", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "other byte" {
		t.Errorf("the file is now %q, %v", data, err)
	}
}

func TestStoreRefusesOtherBytesAndSpecialFiles(t *testing.T) {
	s, id, d, from := storedPicture(t)
	dir := t.TempDir()
	wrong, link, fifo := filepath.Join(dir, "wrong"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	for _, err := range []error{os.WriteFile(wrong, []byte("PNG\nBYTEZ\n"), 0o600), os.Symlink(from, link), syscall.Mkfifo(fifo, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{wrong: IntegrityFailed, link: UnsafePath, fifo: UnsafePath, dir: UnsafePath} {
		if _, err := s.Publish(id, d, path); status(err) != want {
			t.Errorf("Publish(%s) = %v, want %s", path, err, want)
		}
	}
	if found, err := os.ReadDir(filepath.Dir(s.Path(id, d))); err != nil || len(found) != 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}

func TestEachDeliveryHasAReceiptOfItsOwn(t *testing.T) {
	s, id, d, _ := storedPicture(t)
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for range 2 {
		if err := s.RecordDelivery(id, Downloaded, Reference{ImageID: id, Descriptor: d}, nil, at); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path(id, d)), "delivery-*.json"))
	if err != nil || len(found) != 2 {
		t.Fatalf("receipts %v, %v", found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil || !strings.Contains(string(data), `"status": "downloaded"`) || !strings.Contains(string(data), `"at": "2026-11-30T10:00:00.000Z"`) {
		t.Errorf("receipt %s, %v", data, err)
	}
}
