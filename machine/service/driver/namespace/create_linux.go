package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/guestinit"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// readyWait is how long a guest may take to be ready, its display included.
const readyWait = 45 * time.Second

// Networks, as a Spec names them.
const (
	networkNAT      = "nat"
	networkInternet = "internet"
)

// Create makes a guest. Until it has made its record with the init's identity durable, init waits and does nothing, and
// it ends when this process dies: no guest runs that no record names.
func (d *hostDriver) Create(ctx context.Context, spec driver.Spec) (driver.Guest, driver.Facts, error) {
	if err := accept(spec); err != nil {
		return nil, nil, err
	}
	if err := d.begin(spec.Name); err != nil {
		return nil, nil, err
	}
	defer d.end(spec.Name)
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	m := &making{driver: d, spec: spec, size: sizeOf(spec)}
	if err := m.run(ctx); err != nil {
		text := m.logTail()
		if undoErr := m.undo(); undoErr != nil {
			err = errors.Join(err, undoErr)
		}
		d.opt.Log.Warn().Str("machine", spec.Name).Err(err).Str("guestLog", text).Msg("cannot make guest")
		return nil, nil, explain(err)
	}
	return m.guest, m.record.Facts, nil
}

// accept refuses what can never be made.
func accept(spec driver.Spec) error {
	if spec.Image != imageHost {
		return driver.Refuse(machine.CodeUnknownImage, nil, "there is no image %q here; there is %q", spec.Image, imageHost)
	}
	switch spec.Network {
	case networkNAT, "":
	case networkInternet:
		return driver.Refuse(machine.CodeNetworkUnavailable, nil,
			"network %q is not available: guests here have loopback only, and a network that cannot keep a guest off this host and its private ranges is not given; ask for %q", networkInternet, networkNAT)
	default:
		return driver.Refuse(machine.CodeInvalidRequest, nil, "network %q is not known: %s or %s", spec.Network, networkNAT, networkInternet)
	}
	if !plainMachineName(spec.Name) {
		return driver.Refuse(machine.CodeInvalidRequest, nil, "machine name %q is not 1 to 63 of a-z, A-Z, 0-9, -, _ and dot, beginning with a letter or digit", spec.Name)
	}
	if spec.Nonce == "" || !filepath.IsAbs(spec.Folder) {
		return driver.Refuse(machine.CodeInvalidRequest, nil, "a machine needs a nonce and an absolute folder")
	}
	return nil
}

func plainMachineName(name string) bool {
	if len(name) < 1 || len(name) > 63 || strings.ContainsAny(name[:1], "-_.") {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// making is one Create under way.
type making struct {
	driver *hostDriver
	spec   driver.Spec
	size   size
	record *record
	handle *proc.Handle
	guest  *guest
}

func (m *making) run(ctx context.Context) error {
	id, err := chooseIdentity()
	if err != nil {
		return &stepError{"choose user ids", err}
	}
	defer id.close()
	me, err := self()
	if err != nil {
		return &stepError{"identify this process", err}
	}
	plan := cgroup.Host().Plan(cgroupName(m.driver.mark, me, m.spec.Name))
	m.record = &record{Version: recordVersion, Name: m.spec.Name, Mark: m.driver.mark, State: stateIntent,
		Isolation: id.isolation, Slot: id.slot, NonceSHA256: hashNonce(m.spec.Nonce), Cgroups: plan.Paths(),
		CreatedAt: time.Now().UTC()}
	if err := m.record.write(m.spec.Folder); err != nil {
		return err
	}
	init, err := m.driver.start(m.spec.Folder, m.spec.Name, id)
	if err != nil {
		return err
	}
	defer init.control.Close()
	m.handle = init.handle
	outcome, err := m.own(init.pid, plan)
	if err != nil {
		return err
	}
	report, err := init.configure(ctx, m.setupConfig(id), m.initConfig())
	if err != nil {
		return err
	}
	m.record.State = stateReady
	m.record.Facts = m.facts(id, outcome, report)
	if err := m.record.write(m.spec.Folder); err != nil {
		return err
	}
	m.guest = newGuest(m.spec, m.record, m.handle)
	return nil
}

// own puts the waiting init in its control groups, and records who it is.
func (m *making) own(pid int, plan cgroup.Plan) (cgroup.Outcome, error) {
	outcome := plan.Create(m.size.limits(), pid)
	identity, err := proc.Identify(pid)
	inode := pidNamespace(pid)
	if err == nil && m.handle.Ended() {
		err = proc.ErrOther
	}
	if err != nil {
		return nil, &stepError{"identify the guest", err}
	}
	m.record.Init = &identity
	m.record.PIDNamespace = inode
	m.record.State = stateStarted
	return outcome, m.record.write(m.spec.Folder)
}

func (m *making) setupConfig(id identity) guestinit.SetupConfig {
	return guestinit.SetupConfig{Name: m.spec.Name, DiskMB: m.size.diskMB, Pids: m.size.pids, ManyUIDs: id.ids.size > 1}
}

func (m *making) initConfig() guestinit.InitConfig {
	cfg := guestinit.InitConfig{Nonce: m.spec.Nonce, GraceMS: m.spec.Grace.Milliseconds(), Geometry: geometry}
	if !m.spec.Until.IsZero() {
		cfg.DeadlineUnixMS = m.spec.Until.Add(m.spec.Grace).UnixMilli()
	}
	return cfg
}

func (m *making) facts(id identity, outcome cgroup.Outcome, report guestinit.Report) driver.Facts {
	display := report.Display
	if display == "" {
		display = "none: the host has no " + guestinit.DisplayServer
	}
	return driver.Facts{
		"isolation": id.isolation,
		"kernel":    "shared with the host",
		"root":      fmt.Sprintf("uid %d of the host", id.ids.first),
		"limits":    m.size.describe(outcome),
		"network":   "loopback only",
		"display":   display,
	}
}

// undo leaves nothing of a Create that failed but, when something resists, the record of it.
func (m *making) undo() error {
	if m.record == nil {
		return nil
	}
	if m.handle != nil {
		defer m.handle.Close()
	}
	return erase(m.spec.Folder, m.record, m.handle)
}

const logTailBytes = 2000

// logTail is the end of what init said, for the log.
func (m *making) logTail() string {
	data, _ := os.ReadFile(filepath.Join(m.spec.Folder, logFile))
	return string(data[max(0, len(data)-logTailBytes):])
}

// pidNamespace returns the inode of the pid namespace that a process is in, 0 when it may not be seen.
func pidNamespace(pid int) uint64 {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", pid), &st); err != nil {
		return 0
	}
	return st.Ino
}
