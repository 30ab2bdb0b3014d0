package namespace

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
)

// listArg starts the test binary as a process that lists its user's machines.
const listArg = "list"

func runList() int {
	listed, err := List(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(listed)
	}
	if err != nil {
		return 1
	}
	return 0
}

// asOrdinaryUser is a command of this test binary under the ordinary user's id.
func asOrdinaryUser(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home := userDir(t)
	binary := filepath.Join(home, "test")
	copyTestBinary(t, binary)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
	return cmd
}

func listedByUser(t *testing.T) map[string]string {
	t.Helper()
	out, err := asOrdinaryUser(t, listArg).Output()
	if err != nil {
		t.Fatal(err)
	}
	var listed []driver.Listed
	if err := json.Unmarshal(out, &listed); err != nil {
		t.Fatal(err)
	}
	return states(listed)
}

func states(listed []driver.Listed) map[string]string {
	found := map[string]string{}
	for _, l := range listed {
		found[l.Name] = l.State
	}
	return found
}

func listedByRoot(t *testing.T) map[string]string {
	t.Helper()
	listed, err := List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return states(listed)
}

// userGuest makes a guest of the ordinary user's that outlives its service.
func userGuest(t *testing.T) string {
	t.Helper()
	home := userDir(t)
	spec := newSpec(t, home, uniqueName())
	if err := os.Chown(spec.Folder, ordinaryID, ordinaryID); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := asOrdinaryUser(t, serviceArg, home, string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len("ready\n"))
	if _, err := out.Read(ready); err != nil || string(ready) != "ready\n" {
		t.Fatalf("the user's service said %q, %v", ready, err)
	}
	r, err := readRecord(spec.Folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if handle, err := holdInit(r); err == nil && handle != nil {
			_ = handle.Kill()
			handle.Wait(endWait)
			handle.Close()
		}
		if err := cgroup.Remove(r.Cgroups, endWait); err != nil {
			t.Error(err)
		}
	})
	return spec.Name
}

func TestEachUserListsTheirOwnMachinesOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	dir := t.TempDir()
	roots, _ := create(t, newDriver(t, dir), newSpec(t, dir, uniqueName()))
	users := userGuest(t)
	byRoot, byUser := listedByRoot(t), listedByUser(t)
	tests := []struct {
		name   string
		listed map[string]string
		of     string
		want   string
	}{
		{"root lists root's", byRoot, roots.name, listedRunning},
		{"root does not list the user's", byRoot, users, ""},
		{"the user lists the user's", byUser, users, listedRunning},
		{"the user does not list root's", byUser, roots.name, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.listed[tt.of]; got != tt.want {
				t.Errorf("state %q, want %q", got, tt.want)
			}
		})
	}
}

// A list is the proof of a destruction, so it shows the user's groups also where nothing is delegated to the lister.
func TestRemnantInAGroupDelegatedElsewhereIsListed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can delegate")
	}
	paths := cgroup.Host().Plan("any").Paths()
	if len(paths) == 0 {
		lacking(t, "no control groups can be made here")
	}
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	name := uniqueName()
	delegated := filepath.Join(filepath.Dir(filepath.Dir(paths[0])), "mcp-relay-delegated-"+uniqueName())
	group := filepath.Join(delegated, "deeper", cgroup.Parent, cgroupName(markOf(""), me, name))
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	for path := group; ; path = filepath.Dir(path) {
		if err := os.Chown(path, ordinaryID, ordinaryID); err != nil {
			t.Fatal(err)
		}
		if path == delegated {
			break
		}
	}
	t.Cleanup(func() {
		for path := group; strings.HasPrefix(path, delegated); path = filepath.Dir(path) {
			if err := unix.Rmdir(path); err != nil {
				t.Error(err)
			}
		}
	})
	if got := listedByUser(t)[name]; got != listedRemnant {
		t.Errorf("the user's list gives it as %q, want %q", got, listedRemnant)
	}
	if got := listedByRoot(t)[name]; got != "" {
		t.Errorf("root's list gives it as %q", got)
	}
}
