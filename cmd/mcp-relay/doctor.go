package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rs/zerolog"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace"
	"github.com/spf13/cobra"
)

// doctorReport is what doctor --json prints.
type doctorReport struct {
	FormatVersion int           `json:"formatVersion"` // 1
	Ready         bool          `json:"ready"`
	StateDir      string        `json:"stateDirectory,omitempty"`
	Checks        []doctorCheck `json:"checks"`
	Facts         driver.Facts  `json:"facts,omitempty"` // what a guest made here gets
	Note          string        `json:"note"`
}

// doctorCheck is one fact. A check that is not OK but not Required is for information.
type doctorCheck struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Detail   string `json:"detail"`
}

func newDoctor(s cli.Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can give, and what to change where it cannot",
		Long: `doctor makes one guest, runs true in it, and destroys it; it looks at the configuration and at a service that may already run. It
changes nothing else and starts no service.

Exit codes: 0 ready, 1 not ready, 2 usage, 4 machines cannot be made here.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			report := examine(c.Context())
			var err error
			if asJSON {
				err = printJSON(s.Out, report)
			} else {
				err = printDoctor(s, report)
			}
			if err != nil || report.Ready {
				return err
			}
			for _, check := range report.Checks {
				if check.Name == "machines" && !check.OK {
					return cli.Exit(cli.Unavailable, nil)
				}
			}
			return cli.Exit(cli.Failed, nil)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func examine(ctx context.Context) doctorReport {
	r := doctorReport{FormatVersion: 1, Note: "made one guest at most; what an image offers inside is shown by relay_probe with scope guest"}
	r.add("program", true, false, fmt.Sprintf("mcp-relay %s, %s, %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
	cfg, err := loadConfig()
	if err == nil {
		err = cfg.Lazy
	}
	if err != nil {
		r.add("configuration", false, true, err.Error())
		return r
	}
	r.StateDir = cfg.StateDir
	r.add("configuration", true, true, fmt.Sprintf("project %s, exit policy %s, network %s, at most %d guests", cfg.Project, cfg.OnExit, cfg.Network, cfg.MaxGuests))
	r.stateDirectory(cfg)
	usesService := r.service(ctx, cfg)
	r.machines(ctx, !usesService)
	if cfg.PythonSet {
		r.add("MCP_RELAY_PYTHON", true, false, "is accepted and not used: this relay needs no python of its own")
	}
	r.Ready = true
	for _, c := range r.Checks {
		r.Ready = r.Ready && (c.OK || !c.Required)
	}
	return r
}

func (r *doctorReport) add(name string, ok, required bool, detail string) {
	r.Checks = append(r.Checks, doctorCheck{name, ok, required, detail})
}

// stateDirectory tries to write where records will be kept.
func (r *doctorReport) stateDirectory(cfg config.Config) {
	dir := cfg.StateDir
	for dir != "/" {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".mcp-relay-doctor-")
	if err != nil {
		r.add("state directory", false, true, fmt.Sprintf("cannot write in %s: %v; set MCP_RELAY_STATE_DIR to a folder of yours", dir, err))
		return
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		r.add("state directory", false, true, err.Error())
		return
	}
	r.add("state directory", true, true, cfg.StateDir)
}

// service looks whether one answers where it is expected; it says whether machines come only from there.
func (r *doctorReport) service(ctx context.Context, cfg config.Config) (only bool) {
	only = !ownMachines(cfg)
	url, err := serviceURL(ctx, cfg)
	switch {
	case err == nil:
		r.add("machine service", true, only, "answers at "+url)
	case only:
		r.add("machine service", false, true, err.Error())
	default:
		r.add("machine service", true, false, "none runs; one is started in the background when machines are needed")
	}
	return only
}

// machines proves by doing.
func (r *doctorReport) machines(ctx context.Context, required bool) {
	facts, err := namespace.New(namespace.Options{Log: zerolog.Nop()}).Check(ctx)
	var refusal *driver.Refusal
	switch {
	case errors.As(err, &refusal):
		r.add("machines", false, required, refusal.Message)
	case err != nil:
		r.add("machines", false, required, err.Error())
	default:
		r.Facts = facts
		r.add("machines", true, required, "a guest was made, ran a command and was destroyed")
		for _, name := range []string{"isolation", "limits", "network", "display"} {
			if v, ok := facts[name]; ok {
				r.add(name, true, false, fmt.Sprint(v))
			}
		}
	}
}

func printDoctor(s cli.Streams, r doctorReport) error {
	for _, c := range r.Checks {
		mark := "ok  "
		switch {
		case !c.OK && c.Required:
			mark = "FAIL"
		case !c.OK:
			mark = "note"
		}
		if _, err := fmt.Fprintf(s.Out, "%s  %-16s %s\n", mark, c.Name, c.Detail); err != nil {
			return err
		}
	}
	verdict := "ready"
	if !r.Ready {
		verdict = "NOT ready"
	}
	_, err := fmt.Fprintln(s.Out, verdict)
	return err
}
