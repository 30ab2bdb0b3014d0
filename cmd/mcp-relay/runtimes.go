package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// runtimes finds the file that is pushed into a guest as its runtime.
type runtimes struct {
	self    string
	folders []string
}

func newRuntimes(cfg config.Config) (runtimes, error) {
	self, err := os.Executable()
	if err != nil {
		return runtimes{}, fmt.Errorf("cannot find this program's own file: %w", err)
	}
	return runtimes{self: self, folders: append([]string{filepath.Dir(self)}, cfg.Runtimes...)}, nil
}

// find answers this program itself for guests of its own system, else relay-guest-<os>-<arch> beside it or in the folders of
// MCP_RELAY_GUEST_RUNTIMES.
func (r runtimes) find(goos, goarch string) (string, error) {
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		return r.self, nil
	}
	name := fmt.Sprintf("%s-%s-%s", protocol.RuntimeName, goos, goarch)
	for _, dir := range r.folders {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("no guest runtime for %s/%s: build cmd/relay-guest for it and put it as %s beside mcp-relay or into a folder named by MCP_RELAY_GUEST_RUNTIMES", goos, goarch, name)
}
