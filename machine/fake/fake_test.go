package fake_test

import (
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/fake"
	"github.com/seed-1e4c9d81/mcp-relay/machine/machinetest"
)

func TestFakeConforms(t *testing.T) {
	machinetest.API(t, func(*testing.T) machine.API { return fake.New() })
}
