package namespace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// An ordinary user's guests are limited where control groups are delegated to the user. Version 1 only: a tree of
// version 2 is the business of the service manager that delegates it.
func TestDelegatedGroupsLimitAnOrdinaryUsersGuests(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can delegate")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		lacking(t, "no setpriv: install the package util-linux")
	}
	id := strconv.Itoa(ordinaryID)
	script := ""
	for _, controller := range []string{"memory", "pids", "cpu"} {
		top := filepath.Join("/sys/fs/cgroup", controller)
		if _, err := os.Stat(filepath.Join(top, "cgroup.clone_children")); err != nil {
			t.Skipf("%s is not a version 1 hierarchy", top)
		}
		group := filepath.Join(top, "mcp-relay-delegated-"+uniqueName())
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Skipf("control groups cannot be made here: %v", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(group); err != nil {
				t.Errorf("not all groups of the guests are gone: %v", err)
			}
		})
		if err := os.Chown(group, ordinaryID, ordinaryID); err != nil {
			t.Fatal(err)
		}
		script += "echo $$ > " + group + "/cgroup.procs && "
	}
	binary := filepath.Join(userDir(t), "test")
	copyTestBinary(t, binary)
	home := filepath.Dir(binary)
	script += "exec setpriv --reuid " + id + " --regid " + id + " --clear-groups " + binary +
		" -test.v -test.count=1 -test.run 'TestMemoryHog|TestForkBomb|TestFacts|TestNext|TestLiving|TestSweep|TestList'"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, delegatedVariable+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("as user %s: %v", id, err)
	}
}

// delegatedVariable is set where control groups are delegated to the user who runs the tests.
const delegatedVariable = "MCP_RELAY_TEST_DELEGATED"

func TestFactsTellOfEveryLimit(t *testing.T) {
	dir := t.TempDir()
	_, facts := create(t, newDriver(t, dir), newSpec(t, dir, uniqueName()))
	limits, _ := facts["limits"].(string)
	if os.Getenv(delegatedVariable) != "" && strings.Contains(limits, "not limited") {
		t.Errorf("with delegated control groups: %q", limits)
	}
	for _, word := range []string{"memory", "pids", "cpu", "disk"} {
		if !strings.Contains(limits, word) {
			t.Errorf("limits %q do not speak of %s", limits, word)
		}
	}
}
