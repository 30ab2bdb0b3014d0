package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// newWitness is who is asked whether a machine is gone: the kernel through our own lister on Linux, Tart elsewhere. Neither
// asks the service, so neither repeats its mistakes.
func newWitness(cfg config.Config) (machine.Witness, error) {
	if runtime.GOOS != "linux" {
		return machine.CommandWitness{Argv: []string{cfg.Tart, "list", "--format", "json"},
			Env: config.Environ(map[string]string{"TART_HOME": cfg.TartHome})}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program's own file: %w", err)
	}
	return machine.CommandWitness{Argv: []string{self, "machines", "list", "--proof", "--json"}}, nil
}
