package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	hybridMounts = `30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
33 24 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
34 24 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
35 24 8:1 / / rw - ext4 /dev/sda1 rw
`
	hybridOwn   = "3:pids:/\n2:memory:/tool/one\n1:cpu,cpuacct:/\n0::/\n"
	unifiedOnly = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	container   = "30 24 0:26 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
)

func TestParseFindsTheHierarchies(t *testing.T) {
	tests := []struct {
		name   string
		mounts string
		own    string
		want   []Hierarchy
	}{
		{"hybrid", hybridMounts, hybridOwn, []Hierarchy{
			{Dir: "/sys/fs/cgroup/cpu,cpuacct", Own: ".", Controllers: []Controller{CPU}},
			{Dir: "/sys/fs/cgroup/memory", Own: "tool/one", Controllers: []Controller{Memory}},
			{Dir: "/sys/fs/cgroup/pids", Own: ".", Controllers: []Controller{Pids}},
			{Dir: "/sys/fs/cgroup/unified", Own: ".", Unified: true},
		}},
		{"unified", unifiedOnly, "0::/user.slice/user-1000.slice/session-2.scope\n", []Hierarchy{
			{Dir: "/sys/fs/cgroup", Own: "user.slice/user-1000.slice/session-2.scope", Unified: true},
		}},
		{"part of a tree", container, "0::/docker/abc/inner\n", []Hierarchy{{Dir: "/sys/fs/cgroup", Own: "inner", Unified: true}}},
		{"elsewhere than what is mounted", container, "0::/\n", []Hierarchy{{Dir: "/sys/fs/cgroup", Own: ".", Unified: true}}},
		{"none", "35 24 8:1 / / rw - ext4 /dev/sda1 rw\nbroken line\n", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Parse(tt.mounts, tt.own)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// A plain directory stands for a tree of version 2: what is written where is what matters.
func TestUnifiedTreeIsWritten(t *testing.T) {
	dir := t.TempDir()
	s := NewSystem([]Hierarchy{{Dir: dir, Own: ".", Unified: true, Controllers: Controllers}})
	plan := s.Plan("one")
	if diff := cmp.Diff([]string{filepath.Join(dir, Parent, "one")}, plan.Paths()); diff != "" {
		t.Fatalf("paths (-want +got)\n%s", diff)
	}
	out := plan.Create(Limits{Memory: 64 << 20, Pids: 20, CPUs: 3}, 4711)
	if len(out) > 0 {
		t.Fatalf("not limited: %v", out)
	}
	tests := []struct{ file, want string }{
		{"memory.max", "67108864"}, {"memory.swap.max", "0"}, {"pids.max", "20"}, {"cpu.max", "300000 100000"}, {"cgroup.procs", "4711"},
	}
	for _, tt := range tests {
		if got := read(t, plan.Paths()[0], tt.file); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.file, got, tt.want)
		}
	}
	for _, above := range []string{dir, filepath.Join(dir, Parent)} {
		if got := read(t, above, "cgroup.subtree_control"); !strings.HasPrefix(got, "+") {
			t.Errorf("%s hands on %q", above, got)
		}
	}
	if got := s.Groups(); got[plan.Paths()[0]] != "one" {
		t.Errorf("Groups: %v", got)
	}
}

func TestVersionOneTreesAreWritten(t *testing.T) {
	dir := t.TempDir()
	var all []Hierarchy
	for _, c := range Controllers {
		h := Hierarchy{Dir: filepath.Join(dir, string(c)), Own: ".", Controllers: []Controller{c}}
		if err := os.Mkdir(h.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	out := NewSystem(all).Plan("one").Create(Limits{Memory: 1 << 20, Pids: 5, CPUs: 1}, 4711)
	if len(out) > 0 {
		t.Fatalf("not limited: %v", out)
	}
	tests := []struct{ file, want string }{
		{"memory/mcp-relay/one/memory.limit_in_bytes", "1048576"},
		{"memory/mcp-relay/one/memory.memsw.limit_in_bytes", "1048576"},
		{"pids/mcp-relay/one/pids.max", "5"},
		{"cpu/mcp-relay/one/cpu.cfs_quota_us", "100000"},
		{"cpu/mcp-relay/one/cgroup.procs", "4711"},
	}
	for _, tt := range tests {
		if got := read(t, dir, tt.file); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.file, got, tt.want)
		}
	}
}

func TestDelegatedGroupBelowAForeignTopIsUsed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	own := filepath.Join("slice", "mine", "leaf")
	if err := os.MkdirAll(filepath.Join(dir, own), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{dir, filepath.Join(dir, "slice")} {
		if err := os.Chmod(foreign, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(foreign, 0o755) })
	}
	plan := NewSystem([]Hierarchy{{Dir: dir, Own: own, Unified: true, Controllers: Controllers}}).Plan("one")
	if diff := cmp.Diff([]string{filepath.Join(dir, "slice", "mine", Parent, "one")}, plan.Paths()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhatIsNotLimitedIsSaid(t *testing.T) {
	missing := NewSystem(nil).Plan("one").Create(Limits{Memory: 1}, 4711)
	for _, c := range Controllers {
		if !strings.Contains(missing[c], "no "+string(c)+" controller") {
			t.Errorf("%s without a hierarchy: %q", c, missing[c])
		}
	}
	// A group that cannot be made: its parent is a file.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Parent), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, Parent), 0o777); err != nil {
		t.Fatal(err)
	}
	out := NewSystem([]Hierarchy{{Dir: dir, Own: ".", Unified: true, Controllers: Controllers}}).Plan("one").Create(Limits{Memory: 1}, 4711)
	for _, c := range Controllers {
		if out[c] == "" {
			t.Errorf("%s counts as limited", c)
		}
	}
}

func TestRemoveTakesTheParentWithTheLast(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, Parent, "one"), filepath.Join(dir, Parent, "two")
	for _, path := range []string{first, second} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove([]string{first, filepath.Join(dir, Parent, "never-made")}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(second); err != nil {
		t.Fatal("another's group was removed")
	}
	if err := Remove([]string{second}, 0); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}
