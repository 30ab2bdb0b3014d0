package main

import (
	"fmt"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/spf13/cobra"
)

func newVerify(s cli.Streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify PACKAGE",
		Short: "Check every byte of an evidence package",
		Long: `verify recomputes the hash of every file in PACKAGE (the folder that holds manifest.json), compares it with the manifest and with
what was journaled at the time of capture, and names every file that was changed, added, removed or renamed.
It reads only; it needs no network and no machine.

Exit codes: 0 it verifies, 3 it does not (every problem is named), 1 it cannot be read, 2 usage.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "" {
				args = nil
			}
			return cli.ExactArgs(1, "one package folder")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			report, err := evidence.Verify(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(s.Out, report)
			} else {
				err = printReport(s, args[0], report)
			}
			if err == nil && !report.OK {
				return cli.Exit(cli.Invalid, nil)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func printReport(s cli.Streams, dir string, r evidence.Report) error {
	if r.OK {
		_, err := fmt.Fprintf(s.Out, "ok: %s\n%d files, %d bytes; snapshots %s, execution %s\n", dir, r.Files, r.Bytes, r.Snapshots, r.Execution)
		for _, f := range r.Findings {
			fmt.Fprintf(s.Out, "  finding: %s\n", f)
		}
		return err
	}
	fmt.Fprintf(s.Out, "NOT VALID: %s\n", dir)
	for _, p := range r.Problems {
		where := p.Path
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", p.Path, p.Line)
		}
		if _, err := fmt.Fprintf(s.Out, "  %s: %s: %s\n", p.Kind, where, p.Message); err != nil {
			return err
		}
	}
	return nil
}
