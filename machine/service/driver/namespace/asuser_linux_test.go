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
	home := userDir(t)
	binary := filepath.Join(home, "test")
	copyTestBinary(t, binary)
	shared := sharedFile(t)
	if err := os.Chown(shared, ordinaryID, ordinaryID); err != nil {
		t.Fatal(err)
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

// userDir makes a folder of the ordinary user's where that user can reach it, which t.TempDir need not be.
func userDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "mcp-relay-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, ordinaryID, ordinaryID); err != nil {
		t.Fatal(err)
	}
	return dir
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
