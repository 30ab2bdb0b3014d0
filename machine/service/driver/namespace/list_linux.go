package namespace

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// States of a listed machine.
const (
	listedRunning = "running"
	listedRemnant = "remnant" // no init, but control groups that are not removed
)

// List returns every guest of this user, and of no other, of which the kernel still shows something, whichever service
// made it and without asking any: the proof of a destruction is that a name is not in it. A guest's mounts and network are in namespaces that
// end with its last process, so processes and control groups are all there can be.
func List(ctx context.Context) ([]driver.Listed, error) {
	inits, err := findInits()
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, g := range findGroups() {
		states[g.name] = listedRemnant
	}
	for _, f := range inits {
		states[f.name] = listedRunning
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	list := []driver.Listed{}
	for name, state := range states {
		list = append(list, driver.Listed{Name: name, State: state})
	}
	slices.SortFunc(list, func(a, b driver.Listed) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
