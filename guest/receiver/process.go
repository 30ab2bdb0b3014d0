package receiver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

const (
	proofLimit = 3 * time.Second // how long killed processes may take to be gone
	proofStep  = 25 * time.Millisecond
)

// identity tells one process from a later one with the same number.
type identity struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // as the kernel counts it, since boot
}

// process is one row of the process table.
type process struct {
	identity
	parent  int
	group   int
	session int
	name    string
	zombie  bool
}

// family is what stems from one script: its own process, which is ours and not reaped before the end, everything below it,
// and everything that lost its parent and was given to us since (we are the subreaper). Others of our children are not.
type family struct {
	self   int
	script identity   // zero: none, only orphans count
	others []identity // our children before the script
}

// identityOf is the identity of a process that is there.
func identityOf(pid int) (identity, error) {
	p, err := readProcess(pid)
	if err != nil {
		return identity{}, fmt.Errorf("cannot identify process %d: %w", pid, err)
	}
	return p.identity, nil
}

func selfPID() int { return os.Getpid() }

// newFamily notes who is there before a script starts.
func newFamily(self int) (*family, error) {
	table, err := processTable()
	if err != nil {
		return nil, err
	}
	f := &family{self: self}
	for _, p := range table {
		if p.parent == self {
			f.others = append(f.others, p.identity)
		}
	}
	return f, nil
}

// living are the members of the family in table that are not zombies; the orphans among the zombies are reaped.
func (f *family) living(table []process) []process {
	member, leader := map[int]bool{}, f.script.PID
	if leader != 0 {
		member[leader] = true
	}
	for _, p := range table {
		if p.parent == f.self && p.PID != leader && !slices.Contains(f.others, p.identity) {
			member[p.PID] = true
			if p.zombie {
				_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			ours := member[p.parent] || (leader != 0 && (p.group == leader || p.session == leader))
			if ours && !member[p.PID] {
				member[p.PID], grown = true, true
			}
		}
	}
	var alive []process
	for _, p := range table {
		if member[p.PID] && !p.zombie {
			alive = append(alive, p)
		}
	}
	return alive
}

// end kills the whole family and proves that nothing of it is left. nil means that the proof could not be had.
func (f *family) end() *bool {
	return endAll(func() ([]process, error) {
		table, err := processTable()
		if err != nil {
			return nil, err
		}
		return f.living(table), nil
	})
}

// endAll kills what living returns until it returns nothing: true; or until time is up: false. nil when it cannot tell.
func endAll(living func() ([]process, error)) *bool {
	deadline := time.Now().Add(proofLimit)
	for {
		alive, err := living()
		if err != nil {
			return nil
		}
		gone := len(alive) == 0
		if gone || time.Now().After(deadline) {
			return &gone
		}
		for _, p := range alive {
			if err := signalExactly(p.identity, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return nil
			}
		}
		time.Sleep(proofStep)
	}
}

// leftovers lists the family's living members for the receipt, and counts them.
func (f *family) leftovers() ([]protocol.Process, int, error) {
	table, err := processTable()
	if err != nil {
		return nil, 0, err
	}
	alive := f.living(table)
	var list []protocol.Process
	for _, p := range alive[:min(len(alive), protocol.MaxLeftover)] {
		list = append(list, protocol.Process{PID: p.PID, Name: p.name})
	}
	return list, len(alive), nil
}

// survivors are the living processes of the session that script led, when that session is provably still the script's: its
// number is in no other process's hands, and nothing in it is older than the script.
func survivors(script identity, table []process) []process {
	var alive []process
	for _, p := range table {
		if p.PID == script.PID && p.Start != script.Start {
			return nil
		}
		if !p.zombie && (p.session == script.PID || p.group == script.PID) && !olderThan(p.Start, script.Start) {
			alive = append(alive, p)
		}
	}
	return alive
}

// olderThan compares two start counts, which are decimal numbers.
func olderThan(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }
