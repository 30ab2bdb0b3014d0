package drivertest_test

import (
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine/machinetest"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

func TestDriverConforms(t *testing.T) {
	roots := map[string]string{} // a root for each test, so that two drivers of one test share their machines
	machinetest.Driver(t, func(t *testing.T) driver.Driver {
		if roots[t.Name()] == "" {
			roots[t.Name()] = t.TempDir()
		}
		return drivertest.New(roots[t.Name()])
	})
}
