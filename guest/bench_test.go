package guest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/fake"
)

// TestMain makes the test binary the guest runtime too: pushed under the runtime's name, it is the real receiver.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == protocol.RuntimeName {
		os.Exit(receiver.Main(os.Args[1:], os.Stdout))
	}
	// A program built with -race waits a second before it ends; the receivers that these tests start need not.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// bench is one session on a fake machine-service whose guests are folders of this host.
type bench struct {
	*testing.T
	api     *fake.Service
	wire    *wire
	opt     Options
	session *Session

	mu     sync.Mutex
	events []Event
}

// wire lets a test look at and replace what goes to the service.
type wire struct {
	machine.API
	mu     sync.Mutex
	execs  [][]string
	onExec func(argv []string, next func() (machine.ExecResult, error)) (machine.ExecResult, error)
	onPull func(remote, local string, next func() error) error
	onPush func(local, remote string, next func() error) error
}

func (w *wire) Exec(ctx context.Context, name string, req machine.ExecRequest) (machine.ExecResult, error) {
	w.mu.Lock()
	w.execs = append(w.execs, req.Argv)
	hook := w.onExec
	w.mu.Unlock()
	next := func() (machine.ExecResult, error) { return w.API.Exec(ctx, name, req) }
	if hook != nil {
		return hook(req.Argv, next)
	}
	return next()
}

func (w *wire) Pull(ctx context.Context, name, remote, local string) error {
	next := func() error { return w.API.Pull(ctx, name, remote, local) }
	if w.onPull != nil {
		return w.onPull(remote, local, next)
	}
	return next()
}

func (w *wire) Push(ctx context.Context, name, local, remote string) error {
	next := func() error { return w.API.Push(ctx, name, local, remote) }
	if w.onPush != nil {
		return w.onPush(local, remote, next)
	}
	return next()
}

// dispatches counts the commands that started a receiver.
func (w *wire) dispatches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, argv := range w.execs {
		if slices.Contains(argv, protocol.VerbInvoke) {
			n++
		}
	}
	return n
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"project", "guests"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{T: t, api: fake.New()}
	b.wire = &wire{API: b.api}
	b.opt = Options{
		StateDir: filepath.Join(dir, "state"), Session: "owner-demo", Project: filepath.Join(dir, "project"), GuestBase: filepath.Join(dir, "guests"),
		API: b.wire, Witness: b.api.Witness(),
		Runtime: func(string, string) (string, error) { return os.Executable() },
		Emit: func(e Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, e)
		},
	}
	b.session = b.newSession()
	return b
}

func (b *bench) newSession() *Session {
	b.Helper()
	s, err := NewSession(b.opt)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) input() AcquireInput { return AcquireInput{Task: "demo", Image: "host"} }

// create makes a guest that has asked for nothing yet.
func (b *bench) create(in AcquireInput) *Guest {
	b.Helper()
	name, err := b.session.NextName(in.Task)
	if err != nil {
		b.Fatal(err)
	}
	g, err := b.session.Create(b.Context(), name, in)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close() })
	return g
}

func (b *bench) acquire(in AcquireInput) *Guest {
	b.Helper()
	g := b.create(in)
	if _, err := g.Acquire(b.Context()); err != nil {
		b.Fatal(err)
	}
	return g
}

func (b *bench) staged(in AcquireInput) *Guest {
	b.Helper()
	g := b.acquire(in)
	b.stage(g, StageInput{})
	return g
}

func (b *bench) stage(g *Guest, in StageInput) StageResult {
	b.Helper()
	result, err := g.Stage(b.Context(), in)
	if err != nil {
		b.Fatal(err)
	}
	return result.Value.(StageResult)
}

func shell(code string) Script { return Script{Language: protocol.Shell, Inline: true, Code: &code} }

func (b *bench) run(g *Guest, in Script) (ScriptResult, Result) {
	b.Helper()
	result, err := g.Script(b.Context(), in)
	if err != nil {
		b.Fatal(err)
	}
	return result.Value.(ScriptResult), result
}

func (b *bench) finish(g *Guest) *FinishResult {
	b.Helper()
	result, err := g.Finish(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return result.Value.(*FinishResult)
}

// write makes a project file.
func (b *bench) write(rel, content string) string {
	b.Helper()
	path := filepath.Join(b.opt.Project, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// kinds of the events told so far.
func (b *bench) kinds() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var kinds []string
	for _, e := range b.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (b *bench) read(path string) string {
	b.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return string(data)
}

// decode reads a JSON file.
func (b *bench) decode(path string, v any) {
	b.Helper()
	if err := json.Unmarshal([]byte(b.read(path)), v); err != nil {
		b.Fatal(err)
	}
}

// empty requires a folder to hold nothing, or not to be there.
func (b *bench) empty(dir string) {
	b.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	if len(entries) > 0 {
		b.Errorf("%s holds %v, want nothing", dir, entries)
	}
}

func wantRefused(t *testing.T, err error, part string) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), part) {
		t.Errorf("error = %v, want a refusal with %q", err, part)
	}
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error = %v, want one with %q", err, part)
	}
}

// serviceError is an answer of the service.
func serviceError(status int, code, text string) error {
	return &machine.Error{Op: "scripted", Status: status, Code: code, Message: text}
}

// produce makes a file in the guest's workspace, as a script would.
func (b *bench) produce(g *Guest, rel, content string) {
	b.Helper()
	path := filepath.Join(g.rec().workspace(), rel)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		b.Fatal(err)
	}
}
