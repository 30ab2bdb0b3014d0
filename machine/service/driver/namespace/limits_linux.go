package namespace

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
)

// What a guest gets when its Spec does not say.
const (
	defaultMemoryMB = 2048
	defaultDiskMB   = 1024
	defaultCPUs     = 2
	mostPids        = 1024
)

// size is what a guest may use.
type size struct{ cpus, memoryMB, diskMB, pids int }

func sizeOf(spec driver.Spec) size {
	s := size{cpus: spec.CPU, memoryMB: spec.MemoryMB, diskMB: spec.DiskMB, pids: mostPids}
	if s.cpus <= 0 {
		s.cpus = min(defaultCPUs, runtime.NumCPU())
	}
	if s.memoryMB <= 0 {
		s.memoryMB = defaultMemoryMB
	}
	if s.diskMB <= 0 {
		s.diskMB = defaultDiskMB
	}
	return s
}

func (s size) limits() cgroup.Limits {
	return cgroup.Limits{Memory: int64(s.memoryMB) << 20, Pids: s.pids, CPUs: s.cpus}
}

// describe says in one line what limits the guest and what does not: "memory 2048 MiB, pids 1024, cpu 2, disk 1024 MiB",
// or "pids 1024 (rlimit), disk 1024 MiB; memory not limited: no delegated cgroup; ...".
func (s size) describe(out cgroup.Outcome) string {
	var limits, missing []string
	values := map[cgroup.Controller]string{
		cgroup.Memory: fmt.Sprintf("memory %d MiB", s.memoryMB),
		cgroup.Pids:   fmt.Sprintf("pids %d", s.pids),
		cgroup.CPU:    fmt.Sprintf("cpu %d", s.cpus),
	}
	for _, c := range cgroup.Controllers {
		why, failed := out[c]
		switch {
		case !failed:
			limits = append(limits, values[c])
		case c == cgroup.Pids:
			limits = append(limits, values[c]+" (rlimit)")
		default:
			missing = append(missing, fmt.Sprintf("; %s not limited: %s", c, why))
		}
	}
	limits = append(limits, fmt.Sprintf("disk %d MiB", s.diskMB))
	return strings.Join(limits, ", ") + strings.Join(missing, "")
}
