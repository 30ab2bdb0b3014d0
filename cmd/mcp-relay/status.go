package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/background"
	"github.com/spf13/cobra"
)

// statusReport is what status --json prints.
type statusReport struct {
	StateDir string                   `json:"stateDirectory"`
	Service  statusService            `json:"service"`
	Machines map[string]machine.Lease `json:"machines"`
	Records  []string                 `json:"records"` // ownership records that are not yet released, of every session identity
}

type statusService struct {
	Running    bool   `json:"running"`
	URL        string `json:"url,omitempty"`
	Diagnostic string `json:"diagnostic,omitempty"`
}

func newStatus(s cli.Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the machine service, its machines, and the guests that are still owned",
		Long: `status reads only: it asks a running machine service for its leases and looks for ownership records in the state directory. It starts
nothing.

Exit codes: 0 shown, 1 it could not be read, 2 usage.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig()
			if err != nil {
				return err
			}
			if cfg.Lazy != nil {
				return cli.Exit(cli.Usage, cfg.Lazy)
			}
			report, err := gatherStatus(c.Context(), cfg)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(s.Out, report)
			}
			return printStatus(s.Out, report)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func gatherStatus(ctx context.Context, cfg config.Config) (statusReport, error) {
	r := statusReport{StateDir: cfg.StateDir, Machines: map[string]machine.Lease{}, Records: []string{}}
	url, err := serviceURL(ctx, cfg)
	if err != nil {
		r.Service.Diagnostic = err.Error()
	} else {
		r.Service = statusService{Running: true, URL: url}
		client, err := machine.New(machine.Options{URL: url})
		if err == nil {
			r.Machines, err = client.List(ctx)
		}
		if err != nil {
			r.Service.Diagnostic = err.Error()
			r.Machines = map[string]machine.Lease{}
		}
	}
	records, err := filepath.Glob(filepath.Join(cfg.StateDir, "*", "guests", "*", "lease.json"))
	if err != nil {
		return r, fmt.Errorf("cannot look for ownership records: %w", err)
	}
	for _, path := range records {
		b, err := os.ReadFile(path)
		if err != nil {
			return r, fmt.Errorf("cannot read an ownership record: %w", err)
		}
		if string(b) != "null\n" {
			r.Records = append(r.Records, path)
		}
	}
	return r, nil
}

// serviceURL finds a service that runs, and starts none.
func serviceURL(ctx context.Context, cfg config.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if ownMachines(cfg) {
		at, err := background.Find(ctx, backgroundOptions(cfg))
		return at.URL, err
	}
	client, err := machine.New(machine.Options{URL: cfg.URL})
	if err != nil {
		return "", err
	}
	if _, err := client.Health(ctx); err != nil {
		return "", err
	}
	return cfg.URL, nil
}

func printStatus(w io.Writer, r statusReport) error {
	if r.Service.Running {
		fmt.Fprintf(w, "machine service at %s\n", r.Service.URL)
	} else {
		fmt.Fprintln(w, "no machine service runs (one is started when machines are needed)")
	}
	if r.Service.Diagnostic != "" && r.Service.Running {
		fmt.Fprintf(w, "  it could not be asked: %s\n", r.Service.Diagnostic)
	}
	for name, lease := range r.Machines {
		left := time.Until(time.UnixMilli(int64(lease.TTLExpiresAt * 1000))).Round(time.Second)
		fmt.Fprintf(w, "  %s  %s, lease ends in %v", name, lease.State, left)
		if limits, ok := lease.Facts["limits"]; ok {
			fmt.Fprintf(w, "; limits: %v", limits)
		}
		fmt.Fprintln(w)
	}
	if len(r.Machines) == 0 {
		fmt.Fprintln(w, "no machines")
	}
	for _, path := range r.Records {
		fmt.Fprintf(w, "owned: %s\n", path)
	}
	return nil
}
