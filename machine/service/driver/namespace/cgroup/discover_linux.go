package cgroup

import (
	"path/filepath"
	"slices"
	"strings"
)

// Parent is the name of the group above those of all guests.
const Parent = "mcp-relay"

// Controller is one thing that control groups can limit.
type Controller string

const (
	Memory Controller = "memory"
	Pids   Controller = "pids"
	CPU    Controller = "cpu"
)

// Controllers are those used, in the order in which they are reported.
var Controllers = []Controller{Memory, Pids, CPU}

// Hierarchy is one mounted tree of control groups.
type Hierarchy struct {
	Dir         string // where it is mounted
	Own         string // the group of this process, relative to Dir
	Unified     bool   // version 2
	Controllers []Controller
}

// Parse finds the mounted hierarchies in the texts of /proc/self/mountinfo and /proc/self/cgroup. The controllers of a
// version 2 hierarchy are in its file cgroup.controllers and are left for the caller to fill in.
func Parse(mountinfo, own string) []Hierarchy {
	var all []Hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 || strings.Contains(left[4], `\`) {
			continue
		}
		h := Hierarchy{Dir: left[4]}
		switch right[0] {
		case "cgroup2":
			h.Unified = true
		case "cgroup":
			h.Controllers = known(strings.Split(right[2], ","))
			if len(h.Controllers) == 0 {
				continue
			}
		default:
			continue
		}
		h.Own = ownGroup(own, h, left[3])
		all = append(all, h)
	}
	return all
}

func known(names []string) []Controller {
	var out []Controller
	for _, c := range Controllers {
		if slices.Contains(names, string(c)) {
			out = append(out, c)
		}
	}
	return out
}

// ownGroup finds the line of h in the text of /proc/self/cgroup: "2:cpu,cpuacct:/a/b", or "0::/a/b" for version 2. root
// is the group that is mounted at h.Dir.
func ownGroup(own string, h Hierarchy, root string) string {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mine := h.Unified && parts[1] == "" ||
			!h.Unified && slices.Contains(strings.Split(parts[1], ","), string(h.Controllers[0]))
		if !mine {
			continue
		}
		rel, err := filepath.Rel(root, parts[2])
		if err != nil || !filepath.IsLocal(rel) {
			return "."
		}
		return rel
	}
	return "."
}
