package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Bounds of a witness's run.
const (
	witnessTime   = 15 * time.Second
	witnessOutput = 4 << 20
)

// CommandWitness is a program that lists the machines this host has, without asking the service: on success it prints a
// JSON array of objects, each with a string Name.
type CommandWitness struct {
	Argv []string
	Env  []string // its whole environment; nil: this process's
}

var _ Witness = CommandWitness{}

// Machines runs the program. Any doubt about its answer is an error, never an empty list.
func (w CommandWitness) Machines(ctx context.Context) ([]string, error) {
	if len(w.Argv) == 0 {
		return nil, errors.New("cannot list machines: no lister is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.Argv[0], w.Argv[1:]...)
	cmd.Env = w.Env
	cmd.WaitDelay = time.Second
	stdout, stderr := boundedBuffer{max: witnessOutput}, boundedBuffer{max: maxErrorBody}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot list machines: %s: %w: %s", w.Argv[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	if stdout.cut {
		return nil, fmt.Errorf("cannot list machines: %s printed more than %d bytes", w.Argv[0], witnessOutput)
	}
	names, err := decodeListing(stdout.Bytes())
	if err != nil {
		return nil, fmt.Errorf("cannot list machines: %s printed no list of machines: %w", w.Argv[0], err)
	}
	return names, nil
}

func decodeListing(data []byte) ([]string, error) {
	var entries []map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, err
	}
	if entries == nil {
		return nil, errors.New("null")
	}
	names := make([]string, 0, len(entries))
	for i, entry := range entries {
		var name *string
		if err := json.Unmarshal(entry["Name"], &name); err != nil || name == nil {
			return nil, fmt.Errorf("entry %d has no Name", i+1)
		}
		names = append(names, *name)
	}
	return names, nil
}

// boundedBuffer keeps the first max bytes and takes the rest without keeping it, so that the writer never blocks.
type boundedBuffer struct {
	kept bytes.Buffer
	max  int
	cut  bool
}

func (b *boundedBuffer) Bytes() []byte { return b.kept.Bytes() }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	fits := min(len(p), b.max-b.kept.Len())
	b.cut = b.cut || fits < len(p)
	b.kept.Write(p[:fits])
	return len(p), nil
}
