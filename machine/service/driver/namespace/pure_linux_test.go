package namespace

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
)

func TestRangesOfSlotsAreApartAndBelongToNobody(t *testing.T) {
	const all = "         0          0 4294967295\n"
	last := idRange{}
	for slot := range mostSlots {
		ids, err := rangeOf(all, slot)
		if err != nil {
			t.Fatal(err)
		}
		if ids.first < last.first+last.size || ids.size != guestIDs || ids.first+ids.size > 0x7fff0000 {
			t.Fatalf("slot %d: %+v after %+v", slot, ids, last)
		}
		if !isGuestID(ids.first) || !isGuestID(ids.first+ids.size-1) {
			t.Fatalf("ids of slot %d are not taken for a guest's", slot)
		}
		last = ids
	}
	for _, uid := range []int{0, 1000, 65534, 100000, firstGuestID - 1, firstGuestID + mostSlots*guestIDs} {
		if isGuestID(uid) {
			t.Errorf("uid %d is taken for a guest's", uid)
		}
	}
}

func TestContainerWithFewIDsGivesOneToEachGuest(t *testing.T) {
	const few = "0 100000 65536\n"
	seen := map[int]bool{}
	for slot := range 50 {
		ids, err := rangeOf(few, slot)
		if err != nil || ids.size != 1 || ids.first <= 1000 || ids.first >= 65534 || seen[ids.first] {
			t.Fatalf("slot %d: %+v, %v", slot, ids, err)
		}
		seen[ids.first] = true
	}
	if ids, err := rangeOf("0 1000 1\n", 0); err == nil {
		t.Errorf("a namespace of one id gave %+v", ids)
	}
}

// D44: the cause and the remedy in one line, and never an error number that leads astray.
func TestRefusalNamesCauseStepAndRemedy(t *testing.T) {
	tests := []struct {
		name string
		at   surroundings
		step string
		err  error
		want string
	}{
		{"no namespaces left", surroundings{}, stepNamespaces, unix.ENOSPC, "user.max_user_namespaces"},
		{"none allowed", surroundings{noNamespaces: true}, stepNamespaces, unix.EPERM, "user.max_user_namespaces"},
		{"Ubuntu", surroundings{appArmor: true}, stepNamespaces, unix.EACCES, "AppArmor profile"},
		{"Ubuntu, later step", surroundings{appArmor: true}, "bring up the loopback interface", unix.EPERM, "AppArmor profile"},
		{"Ubuntu's restriction is not root's", surroundings{appArmor: true, root: true}, stepNamespaces, unix.EPERM, "for root"},
		{"old Debian", surroundings{cloneForbidden: true}, stepNamespaces, unix.EPERM, "kernel.unprivileged_userns_clone"},
		{"container", surroundings{container: true, root: true}, stepNamespaces, unix.EPERM, "SYS_ADMIN and an unmasked /proc"},
		{"container with a masked /proc", surroundings{container: true, root: true}, "mount /proc", unix.EPERM, "unmasked /proc"},
		{"nested", surroundings{inGuest: true, container: true}, stepNamespaces, unix.EPERM, "already inside a guest"},
		{"old kernel", surroundings{}, "bind the host's programs", unix.ENOSYS, "Linux 5.14"},
		{"programs in memory forbidden", surroundings{noExecutableMemo: true}, "copy the program for the guest", unix.EACCES, "vm.memfd_noexec"},
		{"unknown", surroundings{}, "make devices", unix.EIO, "this user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.at.remedy(&stepError{tt.step, tt.err})
			if !strings.Contains(got, tt.want) {
				t.Errorf("%q does not name %q", got, tt.want)
			}
			if strings.Contains(got, "no space left") {
				t.Errorf("%q reads like a full disk", got)
			}
		})
	}
}

func TestExplainKeepsTheStepAndTheCause(t *testing.T) {
	err := explain(&stepError{"mount /proc", unix.EPERM})
	var refusal *driver.Refusal
	if !errors.As(err, &refusal) || refusal.Code != machine.CodeIsolation || !strings.Contains(err.Error(), "mount /proc") || !errors.Is(err, unix.EPERM) {
		t.Errorf("%v", err)
	}
	if !errors.As(explain(&stepError{stepDisplay, errors.New("no")}), &refusal) || refusal.Code != machine.CodeBootFailed {
		t.Errorf("a display that does not start: %v", refusal)
	}
	plain := errors.New("disk is full")
	if explain(plain) != plain {
		t.Error("an error that is no step was changed")
	}
}

func TestLimitsSayWhatIsNotEnforced(t *testing.T) {
	s := size{cpus: 2, memoryMB: 512, diskMB: 64, pids: 100}
	tests := []struct {
		name    string
		outcome cgroup.Outcome
		want    string
	}{
		{"all", nil, "memory 512 MiB, pids 100, cpu 2, disk 64 MiB"},
		{"none", cgroup.Outcome{cgroup.Memory: "no delegated cgroup", cgroup.Pids: "no delegated cgroup", cgroup.CPU: "no delegated cgroup"},
			"pids 100 (rlimit), disk 64 MiB; memory not limited: no delegated cgroup; cpu not limited: no delegated cgroup"},
		{"one", cgroup.Outcome{cgroup.CPU: "this host has no cpu controller"},
			"memory 512 MiB, pids 100, disk 64 MiB; cpu not limited: this host has no cpu controller"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.describe(tt.outcome); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestOnlyOurOwnStartIsAStage(t *testing.T) {
	for _, args := range [][]string{nil, {"mcp-relay"}, {"mcp-relay", "setup", "m", "n"}, {stageName}, {stageName, "other", "m", "n"}, {stageName, stageInit, "m"}} {
		if IsStage(args) {
			t.Errorf("%q is taken for a stage", args)
		}
	}
	if !IsStage(stageArgs(stageSetup, "m", "n")) {
		t.Error("the start of a guest is not taken for a stage")
	}
}

func TestMarkFollowsTheFolderNotItsSpelling(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, dir+".link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir + ".link") })
	if markOf(dir) != markOf(dir+"/.") || markOf(dir) != markOf(dir+".link") {
		t.Error("one folder has two marks")
	}
	if markOf(dir) == markOf(t.TempDir()) {
		t.Error("two services share a mark")
	}
	if one, other := markOf(""), markOf(""); one == other {
		t.Error("two drivers without a state folder share a mark")
	}
	before := markOf(dir + ".link/new/state")
	if err := os.MkdirAll(dir+"/new/state", 0o700); err != nil {
		t.Fatal(err)
	}
	if markOf(dir+".link/new/state") != before {
		t.Error("the mark changes when the folder is made")
	}
	if len(markOf(dir)) != markLength {
		t.Errorf("mark %q", markOf(dir))
	}
}
