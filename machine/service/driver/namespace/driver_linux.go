package namespace

import (
	"context"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// New returns the driver. It touches nothing until the first call.
func New(opt Options) driver.Driver { return &hostDriver{opt: opt} }

// Main runs one stage of a guest's init and returns the process's exit status.
func Main(args []string) int { return 2 }

// List returns every guest of this user that the kernel still shows.
func List(ctx context.Context) ([]driver.Listed, error) { return []driver.Listed{}, nil }

type hostDriver struct{ opt Options }

func (d *hostDriver) Name() string { return driverName }

func (d *hostDriver) Images(context.Context) ([]driver.Image, error) {
	return []driver.Image{{Name: imageHost}}, nil
}

func (d *hostDriver) Check(context.Context) (driver.Facts, error) {
	return nil, driver.Refuse(machine.CodeIsolation, nil, "not ready")
}

func (d *hostDriver) Create(context.Context, driver.Spec) (driver.Guest, driver.Facts, error) {
	return nil, nil, driver.Refuse(machine.CodeIsolation, nil, "not ready")
}

func (d *hostDriver) Adopt(context.Context, driver.Spec) (driver.Guest, error) {
	return nil, driver.ErrGone
}

func (d *hostDriver) Sweep(context.Context, map[string]bool) ([]string, error) { return nil, nil }
