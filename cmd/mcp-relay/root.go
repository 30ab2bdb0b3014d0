package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/mcpgate"
	"github.com/spf13/cobra"
)

// newRoot is the command line: no argument serves MCP on stdio, except at a terminal, where nobody would speak it.
func newRoot(s cli.Streams) *cobra.Command {
	var instructions, schema bool
	root := &cobra.Command{
		Use:   "mcp-relay",
		Short: "Fresh, disposable machines for AI agents, over MCP, with evidence that can be checked",
		Long: `Without an argument mcp-relay is an MCP server on stdin and stdout: put it into your client's configuration.
Start with: mcp-relay try

` + cli.Codes,
		Version: version(),
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case instructions:
				_, err := fmt.Fprintln(s.Out, mcpgate.Instructions())
				return err
			case schema:
				return printJSON(s.Out, mcpgate.Tools())
			case cli.Terminal(s.In):
				return c.Help()
			}
			return serveStdio(c.Context(), s)
		},
	}
	root.Flags().BoolVar(&instructions, "instructions", false, "print what the server tells a client's model, and exit")
	root.Flags().BoolVar(&schema, "schema", false, "print the tools with their schemas as JSON, and exit")
	root.SetVersionTemplate("mcp-relay {{.Version}}\n")
	root.AddCommand(newStdio(s), newTry(s), newVerify(s), newDoctor(s), newStatus(s), newMachines(s), newGuestRuntime(s))
	return root
}

func newStdio(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "stdio",
		Short: "Serve MCP on stdin and stdout (the same as no argument)",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return serveStdio(c.Context(), s) },
	}
}

// version is the module's, or the commit the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			return "0.0.0-" + setting.Value[:12]
		}
	}
	return "0.0.0-dev"
}

// loadConfig reads the environment; a fault in it is a usage error.
func loadConfig() (config.Config, error) {
	src, err := config.FromProcess()
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(src)
	var faults config.Faults
	if errors.As(err, &faults) {
		return cfg, cli.Exit(cli.Usage, err)
	}
	return cfg, err
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
