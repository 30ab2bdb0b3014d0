package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/spf13/cobra"
)

func newTry(s cli.Streams) *cobra.Command {
	var asJSON bool
	var project string
	c := &cobra.Command{
		Use:   "try",
		Short: "Do the main job once: a guest, a few recorded steps, a verified package",
		Long: `try starts a machine service of its own (unless MCP_RELAY_URL names one), starts this program as an MCP server, and speaks MCP to it
as an agent would: it acquires a guest, stages it, runs a shell, a python and a javascript step where the guest has the runtimes, opens a
window and photographs it where the guest has a display, extracts the declared output, finishes, and verifies the package.

The evidence stays; everything else is gone when it ends. Two of them may run at once.

Exit codes: 0 all went well, 1 a step failed, 2 usage, 3 the package does not verify, 4 machines cannot be made here.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return runTry(ctx, s, project, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object at the end; progress goes to stderr")
	c.Flags().StringVar(&project, "project", "", "folder that gets relay-evidence/ (default: a new one under the state directory)")
	return c
}

func runTry(ctx context.Context, s cli.Streams, project string, asJSON bool) error {
	cfg, err := loadConfig()
	if err != nil {
		return err
	}
	if cfg.Lazy != nil {
		return cli.Exit(cli.Usage, cfg.Lazy)
	}
	words := s.Out
	if asJSON {
		words = s.Err
	}
	project, err = tryProject(cfg, project)
	if err != nil {
		return err
	}
	t := newTrial(words, project)
	failure := t.run(ctx, cfg)
	// A folder that never held evidence is not worth keeping.
	if t.report.Package == "" {
		_ = os.Remove(project)
		t.report.Project = ""
	}
	t.conclude(failure)
	if asJSON {
		if err := printJSON(s.Out, t.report); err != nil {
			return err
		}
	}
	if failure != nil && ctx.Err() != nil {
		return errors.New("stopped; what was started has been released")
	}
	return failure
}

// tryProject makes the folder that the evidence goes into.
func tryProject(cfg config.Config, given string) (string, error) {
	if given != "" {
		abs, err := filepath.Abs(given)
		if err != nil {
			return "", err
		}
		if st, err := os.Stat(abs); err != nil || !st.IsDir() {
			return "", cli.Exit(cli.Usage, fmt.Errorf("--project %s is not a folder", given))
		}
		return abs, nil
	}
	parent := filepath.Join(cfg.StateDir, "try")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("cannot make a folder for the evidence: %w; name one with --project", err)
	}
	dir, err := os.MkdirTemp(parent, time.Now().UTC().Format("2006-01-02-15-04-05-")+"*")
	if err != nil {
		return "", fmt.Errorf("cannot make a folder for the evidence: %w; name one with --project", err)
	}
	return dir, nil
}
