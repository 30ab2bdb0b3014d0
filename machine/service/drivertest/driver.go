package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// Environment keys that mark the processes of machines.
const (
	keyRoot  = "DRIVERTEST_ROOT="
	keyName  = "DRIVERTEST_MACHINE="
	keyNonce = "DRIVERTEST_NONCE="
)

// Driver makes machines for one test. Drivers with the same root, in whatever process, see the same machines.
type Driver struct {
	root string

	mu      sync.Mutex
	faults  map[string][]error // by operation, first scripted first used
	display string
	renewed map[string][]time.Time
}

var _ driver.Driver = (*Driver)(nil)

// New makes a driver whose marks lie in root, a folder of the test's own.
func New(root string) *Driver {
	return &Driver{root: root, faults: map[string][]error{}, renewed: map[string][]time.Time{}}
}

// Operations that faults can be scripted for.
const (
	OpCreate  = "create"
	OpAdopt   = "adopt"
	OpDestroy = "destroy"
	OpExec    = "exec"
	OpPush    = "push"
	OpPull    = "pull"
	OpImages  = "images"
)

// Fail makes the next call of op end in err, with nothing done. Calls queue up.
func (d *Driver) Fail(op string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults[op] = append(d.faults[op], err)
}

// HoldCreate makes every Create of this root, in whatever process, wait until release is called. Create tells that it
// waits, with the machine's process running already, by making the file Held.
func (d *Driver) HoldCreate() (release func(), err error) {
	path := filepath.Join(d.root, "hold")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, nil // gone already when it was released before
}

// Held is the file that a held Create makes.
func (d *Driver) Held() string { return filepath.Join(d.root, "held") }

// SetDisplay gives the image a display.
func (d *Driver) SetDisplay(size string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.display = size
}

// Renewed lists the ends that a machine was told by this driver.
func (d *Driver) Renewed(name string) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]time.Time(nil), d.renewed[name]...)
}

// Processes lists the processes of all machines of this root.
func (d *Driver) Processes() ([]int, error) { return marked(keyRoot + d.root) }

func (d *Driver) fault(op string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.faults[op]) == 0 {
		return nil
	}
	err := d.faults[op][0]
	d.faults[op] = d.faults[op][1:]
	return err
}

// Name of the driver.
func (d *Driver) Name() string { return "drivertest" }

// Images is the image "host", and "broken", which cannot be used.
func (d *Driver) Images(context.Context) ([]driver.Image, error) {
	if err := d.fault(OpImages); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return []driver.Image{{Name: "host", Display: d.display}, {Name: "broken", Unavailable: "it is not built yet"}}, nil
}

// Check always succeeds.
func (d *Driver) Check(context.Context) (driver.Facts, error) {
	return driver.Facts{"isolation": "none"}, nil
}

// identity is what the machine's folder holds.
type identity struct {
	PID   int
	Start string
	Nonce string
}

func identityFile(folder string) string { return filepath.Join(folder, "machine.json") }

// Create starts the machine's process.
func (d *Driver) Create(ctx context.Context, spec driver.Spec) (driver.Guest, driver.Facts, error) {
	if err := d.fault(OpCreate); err != nil {
		return nil, nil, err
	}
	if spec.Network == "internet" {
		return nil, nil, driver.Refuse(machine.CodeNetworkUnavailable, nil, "this host cannot give the network internet; use nat")
	}
	cmd := exec.Command("sleep", "3600")
	cmd.Env = d.environment(spec)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("cannot start the machine: %w", err)
	}
	go func() { _ = cmd.Wait() }() // it is killed by Destroy
	g, err := d.finishCreate(ctx, spec, cmd.Process.Pid)
	if err != nil {
		return nil, nil, errors.Join(err, killAll(keyNonce+spec.Nonce))
	}
	return g, driver.Facts{"isolation": "none"}, nil
}

func (d *Driver) finishCreate(ctx context.Context, spec driver.Spec, pid int) (*guest, error) {
	start, err := startTime(pid)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(identity{PID: pid, Start: start, Nonce: spec.Nonce})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(identityFile(spec.Folder), data, 0o600); err != nil {
		return nil, err
	}
	if err := d.waitHeld(ctx); err != nil {
		return nil, errors.Join(err, os.Remove(identityFile(spec.Folder)))
	}
	return &guest{driver: d, spec: spec, pid: pid, start: start}, nil
}

// waitHeld waits as long as the hold file is there.
func (d *Driver) waitHeld(ctx context.Context) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Lstat(filepath.Join(d.root, "hold")); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err := os.WriteFile(d.Held(), nil, 0o600); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// Adopt finds the machine by its folder and proves that the process is still the same.
func (d *Driver) Adopt(_ context.Context, spec driver.Spec) (driver.Guest, error) {
	if err := d.fault(OpAdopt); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(identityFile(spec.Folder))
	if err != nil {
		// It may have died between its process and its file.
		return nil, errors.Join(driver.ErrGone, killAll(keyNonce+spec.Nonce))
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	g := &guest{driver: d, spec: spec, pid: id.PID, start: id.Start}
	if id.Nonce != spec.Nonce || !g.Alive() {
		return nil, driver.ErrGone
	}
	return g, nil
}

// Sweep kills the processes of machines of this root that are not live.
func (d *Driver) Sweep(_ context.Context, live map[string]bool) ([]string, error) {
	pids, err := marked(keyRoot + d.root)
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, pid := range pids {
		name := environmentOf(pid, keyName)
		if name == "" || live[name] {
			continue
		}
		if err := killAll(keyNonce + environmentOf(pid, keyNonce)); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

func (d *Driver) environment(spec driver.Spec) []string {
	return append(os.Environ(), keyRoot+d.root, keyName+spec.Name, keyNonce+spec.Nonce)
}
