//go:build !linux

package namespace

import (
	"context"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// New returns a driver that refuses everything: namespaces are Linux's.
func New(Options) driver.Driver { return unsupported{} }

// Main is never reached: no guest is started here.
func Main([]string) int { return 2 }

// List returns nothing: there can be no guest here.
func List(context.Context) ([]driver.Listed, error) { return []driver.Listed{}, nil }

type unsupported struct{}

const unsupportedText = "the embedded backend needs Linux; on Apple silicon start machine-service"

func refuse() error { return driver.Refuse(machine.CodeIsolation, nil, unsupportedText) }

func (unsupported) Name() string { return driverName }

func (unsupported) Images(context.Context) ([]driver.Image, error) {
	return []driver.Image{{Name: imageHost, Unavailable: unsupportedText}}, nil
}

func (unsupported) Check(context.Context) (driver.Facts, error) { return nil, refuse() }

func (unsupported) Create(context.Context, driver.Spec) (driver.Guest, driver.Facts, error) {
	return nil, nil, refuse()
}

func (unsupported) Adopt(context.Context, driver.Spec) (driver.Guest, error) {
	return nil, driver.ErrGone
}

func (unsupported) Sweep(context.Context, map[string]bool) ([]string, error) { return nil, nil }
