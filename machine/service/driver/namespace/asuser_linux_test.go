package namespace

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// ordinaryID is a user and group that need not exist.
const ordinaryID = 23456

// runAsUser runs all tests of this binary under an ordinary user's id, with a home and a folder for temporary files of
// its own.
func runAsUser(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "mcp-relay-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "test")
	copyTestBinary(t, binary)
	home := filepath.Join(dir, "home")
	shared := sharedFile(t)
	for _, path := range []string{dir, home} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{home, shared} {
		if err := os.Chown(path, ordinaryID, ordinaryID); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-test.v", "-test.count=1"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "XDG_RUNTIME_DIR="+home, sharedFileVariable+"="+shared)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
	out, err := cmd.CombinedOutput()
	t.Logf("as user %d:\n%s", ordinaryID, out)
	if err != nil {
		t.Errorf("as user %d: %v", ordinaryID, err)
	}
}

func copyTestBinary(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}
