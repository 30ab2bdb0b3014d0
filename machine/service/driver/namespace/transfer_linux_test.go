package namespace

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

func writeFile(t *testing.T, path string, data []byte, perm fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, perm); err != nil {
		t.Fatal(err)
	}
}

func TestALargeFileTravelsWhole(t *testing.T) {
	g, dir := newTestGuest(t), t.TempDir()
	data := make([]byte, 64<<20)
	rand.Read(data)
	writeFile(t, filepath.Join(dir, "big"), data, 0o600)
	if err := g.Push(t.Context(), filepath.Join(dir, "big"), "/var/tmp/big"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%x", sha256.Sum256(data))
	if out := sh(t, g, "sha256sum /var/tmp/big; stat -c %a /var/tmp/big"); out != want+"  /var/tmp/big\n600\n" {
		t.Errorf("in the guest: %s, want %s", out, want)
	}
	if err := g.Pull(t.Context(), "/var/tmp/big", filepath.Join(dir, "back")); err != nil {
		t.Fatal(err)
	}
	back, err := os.ReadFile(filepath.Join(dir, "back"))
	if err != nil || !bytes.Equal(back, data) {
		t.Errorf("pulled %d bytes, not those pushed (%v)", len(back), err)
	}
}

func TestATreeOfManyFilesTravelsThereAndBack(t *testing.T) {
	g, dir := newTestGuest(t), t.TempDir()
	want := map[string]string{}
	for i := range 500 {
		rel := fmt.Sprintf("d%d/e%d/file %d", i%7, i%13, i)
		want[rel] = strings.Repeat(rel, i%50)
		writeFile(t, filepath.Join(dir, "tree", rel), []byte(want[rel]), 0o644)
	}
	if err := os.Mkdir(filepath.Join(dir, "tree", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.Push(t.Context(), filepath.Join(dir, "tree"), "/var/tmp/there"); err != nil {
		t.Fatal(err)
	}
	if err := g.Pull(t.Context(), "/var/tmp/there", filepath.Join(dir, "back")); err != nil {
		t.Fatal(err)
	}
	for rel, content := range want {
		if data, err := os.ReadFile(filepath.Join(dir, "back", rel)); err != nil || string(data) != content {
			t.Errorf("%s: %q, %v", rel, data, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "back", "empty")); err != nil || !info.IsDir() {
		t.Errorf("the empty directory did not come back: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("beside the trees lies something: %v, %v", entries, err)
	}
}

// As scp does: a target that is a directory takes the source in, under its own name.
func TestTransfersLandInDirectoriesThatExist(t *testing.T) {
	g, dir := newTestGuest(t), t.TempDir()
	writeFile(t, filepath.Join(dir, "tree", "a"), []byte("new"), 0o644)
	sh(t, g, "mkdir -p /root/in/tree; echo old > /root/in/tree/a; echo kept > /root/in/tree/b")
	if err := g.Push(t.Context(), filepath.Join(dir, "tree"), "/root/in"); err != nil {
		t.Fatal(err)
	}
	if out := sh(t, g, "cd /root/in/tree; ls -A; cat a b"); out != "a\nb\nnewkept\n" {
		t.Errorf("merged tree: %q", out)
	}
	if err := g.Push(t.Context(), filepath.Join(dir, "tree", "a"), "/root/in/"); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	if err := g.Pull(t.Context(), "/root/in/tree/b", into); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(into, "b")); err != nil || string(data) != "kept\n" {
		t.Errorf("pulled into a directory: %q, %v", data, err)
	}
}

func TestNoTransferFollowsASymlink(t *testing.T) {
	g, dir := newTestGuest(t), t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), []byte("x"), 0o644)
	file := filepath.Join(dir, "file")
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	sh(t, g, "cd /root; mkdir real; echo inside > real/file; ln -s real way; ln -s real/file leaf; mkfifo real/pipe; ln -s /etc/hosts tree-link; mkdir tree; ln -s /etc/hosts tree/link")
	out := filepath.Join(dir, "out")
	tests := []struct {
		name string
		do   func(context.Context) error
	}{
		{"push of a symlink", func(ctx context.Context) error { return g.Push(ctx, filepath.Join(dir, "link"), "/root/x") }},
		{"push through a symlink", func(ctx context.Context) error { return g.Push(ctx, file, "/root/way/x") }},
		{"push over a symlink", func(ctx context.Context) error { return g.Push(ctx, file, "/root/leaf") }},
		{"push over a symlink to a directory", func(ctx context.Context) error { return g.Push(ctx, file, "/root/way") }},
		{"push to a relative path", func(ctx context.Context) error { return g.Push(ctx, file, "root/x") }},
		{"pull of a symlink", func(ctx context.Context) error { return g.Pull(ctx, "/root/leaf", out) }},
		{"pull through a symlink", func(ctx context.Context) error { return g.Pull(ctx, "/root/way/file", out) }},
		{"pull through init's root", func(ctx context.Context) error { return g.Pull(ctx, "/proc/self/root/etc/hosts", out) }},
		{"pull of a pipe", func(ctx context.Context) error { return g.Pull(ctx, "/root/real/pipe", out) }},
		{"pull of a tree with a symlink", func(ctx context.Context) error { return g.Pull(ctx, "/root/tree", out) }},
		{"pull onto a symlink", func(ctx context.Context) error {
			return g.Pull(ctx, "/root/real/file", filepath.Join(dir, "link"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(t.Context()); !errors.Is(err, driver.ErrUnsafePath) {
				t.Errorf("%v, want ErrUnsafePath", err)
			}
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the folder on the host holds %v, %v", entries, err)
	}
	if got := sh(t, g, "cd /root; ls; cat real/file"); strings.Contains(got, "x\n") || !strings.HasSuffix(got, "inside\n") {
		t.Errorf("the guest's files changed: %q", got)
	}
}

func TestMissingSourcesAndParents(t *testing.T) {
	g, dir := newTestGuest(t), t.TempDir()
	if err := g.Push(t.Context(), filepath.Join(dir, "none"), "/root/x"); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("push of a missing file: %v, want ErrMissing", err)
	}
	if err := g.Pull(t.Context(), "/root/none", filepath.Join(dir, "out")); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("pull of a missing file: %v, want ErrMissing", err)
	}
	writeFile(t, filepath.Join(dir, "file"), []byte("x"), 0o644)
	err := g.Push(t.Context(), filepath.Join(dir, "file"), "/root/no/parent")
	if err == nil || errors.Is(err, driver.ErrMissing) || !strings.Contains(err.Error(), "parent directory") {
		t.Errorf("push below a missing directory: %v", err)
	}
	if err := g.Push(t.Context(), filepath.Join(dir, "file"), "/usr/bin/file"); err == nil {
		t.Error("a push into the host's programs succeeded")
	}
}

func TestAGuestThatIsFullRefusesTheRestAndKeepsWorking(t *testing.T) {
	dir := t.TempDir()
	spec := newSpec(t, dir, uniqueName())
	spec.DiskMB = 32
	g, _ := create(t, newDriver(t, dir), spec)
	writeFile(t, filepath.Join(dir, "big"), make([]byte, 48<<20), 0o644)
	err := g.Push(t.Context(), filepath.Join(dir, "big"), "/root/big")
	if !errors.Is(err, driver.ErrFull) || !strings.Contains(err.Error(), unix.ENOSPC.Error()) {
		t.Errorf("push of 48 MiB into 32: %v, want ErrFull", err)
	}
	if out := sh(t, g, "ls -A /root"); out != "" {
		t.Errorf("left in the guest: %q", out)
	}
}

func TestAGuestThatEndsUnderATransferIsGone(t *testing.T) {
	for _, row := range []string{"push", "pull"} {
		t.Run(row, func(t *testing.T) {
			g, dir, out := newTestGuest(t), t.TempDir(), t.TempDir()
			writeFile(t, filepath.Join(dir, "large"), nil, 0o644)
			if err := os.Truncate(filepath.Join(dir, "large"), 900<<20); err != nil {
				t.Fatal(err)
			}
			sh(t, g, "mkdir /root/in; truncate -s 4G /root/large")
			done := make(chan error, 1)
			go func() {
				if row == "push" {
					done <- g.Push(context.Background(), filepath.Join(dir, "large"), "/root/in/large")
					return
				}
				done <- g.Pull(context.Background(), "/root/large", filepath.Join(out, "large"))
			}()
			eventually(t, "the transfer has begun", func() bool {
				if row == "push" {
					return sh(t, g, "ls -A /root/in") != ""
				}
				entries, _ := os.ReadDir(out)
				return len(entries) > 0
			})
			if err := g.held().Kill(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, driver.ErrGone) {
				t.Errorf("%s into a guest that was killed: %v, want ErrGone", row, err)
			}
			if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
				t.Errorf("left on the host: %v, %v", entries, err)
			}
		})
	}
}

func TestASparseFileDoesNotFillTheHost(t *testing.T) {
	g, dir := newTestGuest(t), t.TempDir()
	sh(t, g, "truncate -s 1P /root/huge")
	if err := g.Pull(t.Context(), "/root/huge", filepath.Join(dir, "huge")); err == nil {
		t.Error("a file of one pebibyte was pulled")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left on the host: %v, %v", entries, err)
	}
}

func TestCancellingATransferLeavesNothingUnderTheName(t *testing.T) {
	g, dir := newTestGuest(t), t.TempDir()
	sh(t, g, "truncate -s 4G /root/large")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Pull(ctx, "/root/large", filepath.Join(dir, "large")) }()
	eventually(t, "the transfer has begun", func() bool {
		entries, _ := os.ReadDir(dir)
		return len(entries) > 0
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left on the host: %v, %v", entries, err)
	}
}
