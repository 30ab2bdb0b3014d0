package namespace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/guestinit"
)

// geometry of every guest's display.
const geometry = "1280x800"

// New returns the driver. It touches nothing until the first call.
func New(opt Options) driver.Driver {
	return &hostDriver{opt: opt, mark: markOf(opt.StateDir), making: map[string]bool{}}
}

// Main runs one stage of a guest's init and returns the process's exit status. It is called when IsStage says so, before
// anything else.
func Main(args []string) int {
	if !IsStage(args) {
		fmt.Fprintln(os.Stderr, "this is not the start of a guest")
		return 2
	}
	if args[1] == stageSetup {
		return guestinit.Setup(stageArgs(stageInit, args[2], args[3]))
	}
	return guestinit.Init()
}

func stageArgs(stage, mark, name string) []string { return []string{stageName, stage, mark, name} }

type hostDriver struct {
	opt    Options
	mark   string
	binary binary
	check  verdict

	checking sync.Mutex // held while Check has a guest, and by Sweep, which would take it for left behind

	mu     sync.Mutex
	making map[string]bool // names being created: not yet live for the service, not to be swept
}

// markLength is the length of a mark, in hex digits.
const markLength = 16

// markOf turns a state folder into the mark that its guests carry where anybody on the host can read it.
func markOf(stateDir string) string {
	of := rand.Text()
	if stateDir != "" {
		of = realPath(stateDir)
	}
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])[:markLength]
}

// realPath is the absolute path without symlinks, also of a folder that is not made yet.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

func (d *hostDriver) Name() string { return driverName }

// Images tells of the one image, host, and why it cannot be used when Check has failed.
func (d *hostDriver) Images(ctx context.Context) ([]driver.Image, error) {
	image := driver.Image{Name: imageHost}
	if guestinit.DisplayAvailable() {
		image.Display = geometry
	}
	if _, err := d.Check(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		image.Unavailable = err.Error()
	}
	return []driver.Image{image}, nil
}

// begin reserves a name until end.
func (d *hostDriver) begin(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.making[name] {
		return fmt.Errorf("cannot make machine %s: it is being made", name)
	}
	d.making[name] = true
	return nil
}

func (d *hostDriver) end(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.making, name)
}

func (d *hostDriver) isMaking(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.making[name]
}
