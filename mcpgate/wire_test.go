package mcpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

var update = flag.Bool("update", false, "rewrite golden files with what is seen")

// sink is a stdout that can be read at any time.
type sink struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *sink) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.buf.Reset()
	return s.buf.String()
}

// TestDialogues plays testdata/wire/*.txtar: what a client sends, line by line, and what the server says once nothing moves
// any more. A client section may hold {{long N}} for N letters, {{bytes HEX}}, and {{eof}} alone on a line for the end of its
// input. Server lines are sorted, since calls run side by side, and shortened where another test has the text.
func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no dialogues", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { play(t, file, archive) })
		})
	}
}

func play(t *testing.T, file string, archive *txtar.Archive) {
	in, typed := io.Pipe()
	out := &sink{}
	relay := &fakeRelay{do: wireRelay}
	server := New(relay, Options{Version: "test"})
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), in, out) }()
	changed := false
	for i, section := range archive.Files {
		if section.Name == "client" {
			send(t, typed, string(section.Data))
			synctest.Wait()
			continue
		}
		got := normalised(t, out.take())
		if *update {
			changed = changed || got != string(section.Data)
			archive.Files[i].Data = []byte(got)
		} else if got != string(section.Data) {
			t.Errorf("section %d: the server said\n%s\nwant\n%s", i, got, section.Data)
		}
	}
	typed.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	server.CancelAll()
	if err := server.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
	if changed {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// wireRelay hangs, panics, ends its goroutine or fails in a script that says so, and otherwise echoes.
func wireRelay(ctx context.Context, tool string, in any) (guest.Result, error) {
	if script, ok := in.(guest.Script); ok && script.Code != nil {
		switch *script.Code {
		case "hang":
			<-ctx.Done()
			return guest.Result{}, fmt.Errorf("cannot wait for the script: %w", ctx.Err())
		case "panic":
			panic("secret")
		case "exit":
			runtime.Goexit()
		case "fail":
			return guest.Result{}, errors.New("cannot do it")
		}
	}
	return guest.Result{Value: map[string]any{"tool": tool, "input": in}}, nil
}

func send(t *testing.T, typed *io.PipeWriter, lines string) {
	for line := range strings.Lines(lines) {
		if strings.TrimSpace(line) == "{{eof}}" {
			typed.Close()
			return
		}
		if _, err := io.WriteString(typed, expand(t, line)); err != nil {
			t.Fatal(err)
		}
	}
}

func expand(t *testing.T, line string) string {
	for {
		before, rest, found := strings.Cut(line, "{{")
		if !found {
			return line
		}
		order, after, _ := strings.Cut(rest, "}}")
		kind, argument, _ := strings.Cut(order, " ")
		made := ""
		switch kind {
		case "long":
			n, err := strconv.Atoi(argument)
			if err != nil {
				t.Fatal(err)
			}
			made = strings.Repeat("a", n)
		case "bytes":
			if _, err := fmt.Sscanf(argument, "%x", &made); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("no order %q", order)
		}
		line = before + made + after
	}
}

// normalised sorts the lines and replaces the long texts that other tests compare.
func normalised(t *testing.T, output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the server wrote a line that is not JSON: %q", line)
		}
		line = strings.ReplaceAll(line, strings.Trim(toJSON(t, Instructions()), `"`), "INSTRUCTIONS")
		if escaped, err := encodeJSON(Instructions()); err == nil {
			line = strings.ReplaceAll(line, strings.Trim(string(escaped), `"`), "INSTRUCTIONS")
		}
		if i := strings.Index(line, `"tools":[`); i >= 0 && strings.Contains(line, "inputSchema") {
			line = line[:i] + fmt.Sprintf(`"tools": %d of them`, strings.Count(line, `"inputSchema"`)) + "\n"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
