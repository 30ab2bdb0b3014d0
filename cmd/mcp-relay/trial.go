package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/evidence"
)

// tryReport is what try --json prints.
type tryReport struct {
	OK       bool      `json:"ok"`
	Error    string    `json:"error,omitempty"`
	Project  string    `json:"project,omitempty"`
	Package  string    `json:"package,omitempty"`   // the verified folder
	Verified bool      `json:"verified"`            //
	Verdict  string    `json:"execution,omitempty"` // passed, failed, uncertain
	Shots    string    `json:"snapshots,omitempty"` // complete, incomplete
	Steps    []tryStep `json:"steps"`
	Ms       int64     `json:"ms"`
}

// tryStep is one line of progress.
type tryStep struct {
	Name   string `json:"name"`
	Status string `json:"status"` // done, left-out, failed
	Detail string `json:"detail,omitempty"`
	Ms     int64  `json:"ms"`
}

// trial is one run of try.
type trial struct {
	out     io.Writer
	began   time.Time
	report  tryReport
	agent   *agent
	guest   string
	display bool
	has     map[string]bool // runtimes that the guest has
	imageID string
}

func newTrial(out io.Writer, project string) *trial {
	return &trial{out: out, began: time.Now(), report: tryReport{Project: project, Steps: []tryStep{}}}
}

// run does the main job. Whatever it started has ended when it returns.
func (t *trial) run(ctx context.Context, cfg config.Config) error {
	own, err := startOwnProcesses(ctx, t, cfg)
	if err != nil {
		return err
	}
	failure := t.job(ctx)
	if err := own.stop(); err != nil && failure == nil {
		failure = err
	}
	if failure != nil {
		return failure
	}
	return t.verify(ctx)
}

// job is what an agent does with the tools, in its order.
func (t *trial) job(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"ask what the host has", t.probeHost},
		{"acquire a guest", t.acquire},
		{"look at the guest", t.probeGuest},
		{"stage the guest runtime", t.stage},
		{"run a shell step", t.shell},
		{"run a python step", t.python},
		{"run a javascript step", t.javascript},
		{"open a window and photograph it", t.window},
		{"fetch the photograph", t.image},
		{"extract the declared output", t.extract},
		{"finish: seal, destroy, deliver", t.finish},
	} {
		if err := t.step(ctx, step.name, step.do); err != nil {
			return err
		}
	}
	return nil
}

// leftOut is a step that this guest cannot do; it says why and is no failure.
type leftOut struct{ why string }

func (l leftOut) Error() string { return l.why }

func (t *trial) step(ctx context.Context, name string, do func(context.Context) (string, error)) error {
	fmt.Fprintf(t.out, "%-34s ", name)
	at := time.Now()
	detail, err := do(ctx)
	s := tryStep{Name: name, Status: "done", Detail: detail, Ms: time.Since(at).Milliseconds()}
	var left leftOut
	switch {
	case errors.As(err, &left):
		s.Status, s.Detail, err = "left-out", left.why, nil
		fmt.Fprintf(t.out, "left out: %s\n", left.why)
	case err != nil:
		s.Status, s.Detail = "failed", err.Error()
		fmt.Fprintf(t.out, "FAILED after %.2f s\n", float64(s.Ms)/1000)
	default:
		fmt.Fprintf(t.out, "%6.2f s  %s\n", float64(s.Ms)/1000, detail)
	}
	t.report.Steps = append(t.report.Steps, s)
	if err != nil {
		return fmt.Errorf("cannot %s: %w", name, err)
	}
	return nil
}

func (t *trial) verify(ctx context.Context) error {
	return t.step(ctx, "verify every byte of the package", func(ctx context.Context) (string, error) {
		r, err := evidence.Verify(ctx, t.report.Package)
		if err != nil {
			return "", err
		}
		t.report.Verified, t.report.Verdict, t.report.Shots = r.OK, r.Execution, r.Snapshots
		if !r.OK {
			return "", cli.Exit(cli.Invalid, fmt.Errorf("the package does not verify: %s: %s", r.Problems[0].Path, r.Problems[0].Message))
		}
		return fmt.Sprintf("%d files, %d bytes; execution %s, snapshots %s", r.Files, r.Bytes, r.Execution, r.Snapshots), nil
	})
}

// conclude tells a person where the evidence is and how to look at it.
func (t *trial) conclude(failure error) {
	t.report.Ms = time.Since(t.began).Milliseconds()
	t.report.OK = failure == nil
	if failure != nil {
		t.report.Error = failure.Error()
		return
	}
	fmt.Fprintf(t.out, `
All done in %.1f s. The evidence is in
  %s
Look at it:
  %s verify %s
  steps and outputs  host/receiver-receipts/*.json, state/journal/events.jsonl
  screenshots        state/snapshots/*/*.png
  extracted output   extractions/report/
`, float64(t.report.Ms)/1000, t.report.Package, programName(), t.report.Package)
}

// programName is how whoever started this program can start it again.
func programName() string {
	self, err := os.Executable()
	if err == nil && strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/mcp-relay"
	}
	return "mcp-relay"
}

// call calls a tool and decodes the JSON of its answer into v.
func (t *trial) call(ctx context.Context, tool string, args, v any) error {
	text, err := t.agent.call(ctx, tool, args)
	if err != nil {
		return err
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", tool, err)
	}
	return nil
}

func (t *trial) packagePath(manifest string) string { return filepath.Dir(manifest) }
