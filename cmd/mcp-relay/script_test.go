package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts are what a person types; each has a home of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(binary(t))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("MCP_RELAY_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("MCP_RELAY_MACHINES_PORT", "0")
			return nil
		},
	})
}
