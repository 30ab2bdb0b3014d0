package main

import (
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver"
	"github.com/spf13/cobra"
)

// newGuestRuntime is the runtime under its long name, for those who want to look at what runs in a guest.
func newGuestRuntime(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:                "guest-runtime VERB [ARGUMENT...]",
		Short:              "What runs inside a guest; the relay pushes it there under the name relay-guest",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := receiver.Main(args, s.Out); code != 0 {
				return cli.Exit(code, nil)
			}
			return nil
		},
	}
}
