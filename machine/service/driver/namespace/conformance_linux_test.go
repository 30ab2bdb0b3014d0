package namespace

import (
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine/machinetest"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

func TestDriverPassesTheConformanceSuite(t *testing.T) {
	dir := t.TempDir()
	machinetest.Driver(t, func(t *testing.T) driver.Driver { return newDriver(t, dir) })
}
