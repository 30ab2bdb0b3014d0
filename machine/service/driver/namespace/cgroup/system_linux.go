package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// System is the control groups of this host as this process may use them.
type System struct{ hierarchies []Hierarchy }

// NewSystem uses the hierarchies as they are.
func NewSystem(hierarchies []Hierarchy) *System { return &System{hierarchies: hierarchies} }

// Host reads what is mounted. A host without control groups gives a System that limits nothing.
func Host() *System {
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	hierarchies := Parse(string(mountinfo), string(own))
	for i, h := range hierarchies {
		if h.Unified {
			names, _ := os.ReadFile(filepath.Join(h.Dir, h.Own, "cgroup.controllers"))
			if h.Own != "." && len(names) == 0 {
				names, _ = os.ReadFile(filepath.Join(h.Dir, "cgroup.controllers"))
			}
			hierarchies[i].Controllers = known(strings.Fields(string(names)))
		}
	}
	return NewSystem(hierarchies)
}

// Limits of one guest; zero means none.
type Limits struct {
	Memory int64 // bytes, with swap
	Pids   int   // processes and threads
	CPUs   int
}

// Plan is where a guest's groups will be. It is made before they are, so that a record of it can be.
type Plan struct {
	Name   string
	groups []group
	why    map[Controller]string // why a controller will not be there
}

type group struct {
	Hierarchy
	base string // the group below which Parent lies
}

func (g group) parent() string          { return filepath.Join(g.base, Parent) }
func (g group) path(name string) string { return filepath.Join(g.parent(), name) }

// Plan chooses, for each controller, the hierarchy that has it and the topmost group of it on the way to our own that
// may be written to. It changes nothing.
func (s *System) Plan(name string) Plan {
	p := Plan{Name: name, why: map[Controller]string{}}
	for _, c := range Controllers {
		i := slices.IndexFunc(s.hierarchies, func(h Hierarchy) bool { return slices.Contains(h.Controllers, c) })
		if i < 0 {
			p.why[c] = fmt.Sprintf("this host has no %s controller", c)
			continue
		}
		h := s.hierarchies[i]
		base, ok := writable(h)
		if !ok {
			p.why[c] = "no delegated cgroup"
			continue
		}
		h.Controllers = []Controller{c}
		if j := slices.IndexFunc(p.groups, func(g group) bool { return g.Dir == h.Dir }); j >= 0 {
			p.groups[j].Controllers = append(p.groups[j].Controllers, c)
			continue
		}
		p.groups = append(p.groups, group{Hierarchy: h, base: base})
	}
	return p
}

// writable finds the topmost directory from h.Dir down to our own group in which Parent is, or can be made, ours.
func writable(h Hierarchy) (string, bool) {
	dir := h.Dir
	for _, step := range append([]string{""}, strings.Split(filepath.Clean(h.Own), "/")...) {
		dir = filepath.Join(dir, step)
		if mayWrite(filepath.Join(dir, Parent)) {
			return dir, true
		}
		if _, err := os.Stat(filepath.Join(dir, Parent)); errors.Is(err, fs.ErrNotExist) && mayWrite(dir) {
			return dir, true
		}
	}
	return "", false
}

// Paths are the directories that Create will make.
func (p Plan) Paths() []string {
	paths := []string{}
	for _, g := range p.groups {
		paths = append(paths, g.path(p.Name))
	}
	return paths
}

// Groups finds the groups of guests below Parent in every hierarchy, anywhere in it: path and name. What cannot be read
// is passed over; groups of this user's can be.
func (s *System) Groups() map[string]string {
	found := map[string]string{}
	for _, h := range s.hierarchies {
		_ = filepath.WalkDir(h.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() || path == h.Dir || filepath.Base(filepath.Dir(path)) != Parent {
				return nil
			}
			found[path] = e.Name()
			return fs.SkipDir
		})
	}
	return found
}
