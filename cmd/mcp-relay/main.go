// Command mcp-relay gives AI agents fresh, disposable machines over MCP and delivers evidence that anybody can check.
// Without an argument it is the MCP server on stdin and stdout.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace"
)

// main is one binary under several names: the init of a namespace guest, the runtime in a guest, and the relay.
func main() {
	if namespace.IsStage(os.Args) {
		os.Exit(namespace.Main(os.Args))
	}
	if filepath.Base(os.Args[0]) == protocol.RuntimeName {
		os.Exit(receiver.Main(os.Args[1:], os.Stdout))
	}
	os.Exit(cli.Run(context.Background(), newRoot(cli.Process()), os.Args[1:], cli.Process()))
}
