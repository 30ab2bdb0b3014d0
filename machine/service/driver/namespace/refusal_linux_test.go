package namespace

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

func TestCheckInsideAGuestSaysThatGuestsDoNotNest(t *testing.T) {
	g := newTestGuest(t)
	found := probe(t, g, "check")
	if found["code"] != machine.CodeIsolation || !strings.Contains(found["error"], "already inside a guest") {
		t.Errorf("%v", found)
	}
}

// The kernel's word for it is ENOSPC, which must not be shown as a full disk.
func TestCheckWithoutNamespacesLeftNamesTheSetting(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const inside = 1000
	cmd := exec.Command(self, probeArg, "check", "none")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := map[string]string{}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	text := found["error"]
	if found["code"] != machine.CodeIsolation || !strings.Contains(text, "user.max_user_namespaces") || !strings.HasPrefix(text, "this host allows no more user namespaces") {
		t.Errorf("%v", found)
	}
}
