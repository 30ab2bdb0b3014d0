package mcpgate

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRelay notes every call and answers with do, or with the input it got.
type fakeRelay struct {
	do func(ctx context.Context, tool string, in any) (guest.Result, error)

	mu    sync.Mutex
	tools []string
	ins   []any
}

func (f *fakeRelay) call(ctx context.Context, tool string, in any) (guest.Result, error) {
	f.mu.Lock()
	f.tools = append(f.tools, tool)
	f.ins = append(f.ins, in)
	f.mu.Unlock()
	if f.do != nil {
		return f.do(ctx, tool, in)
	}
	return guest.Result{Value: map[string]any{"tool": tool, "input": in}}, nil
}

func (f *fakeRelay) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tools)
}

func (f *fakeRelay) Search(ctx context.Context, in guest.SearchInput) (guest.Result, error) {
	return f.call(ctx, "relay_search", in)
}
func (f *fakeRelay) Probe(ctx context.Context, in guest.ProbeInput) (guest.Result, error) {
	return f.call(ctx, "relay_probe", in)
}
func (f *fakeRelay) Acquire(ctx context.Context, in guest.AcquireInput) (guest.Result, error) {
	return f.call(ctx, "relay_acquire", in)
}
func (f *fakeRelay) Stage(ctx context.Context, in guest.StageInput) (guest.Result, error) {
	return f.call(ctx, "relay_stage", in)
}
func (f *fakeRelay) Script(ctx context.Context, in guest.Script) (guest.Result, error) {
	return f.call(ctx, "relay_script", in)
}
func (f *fakeRelay) Image(ctx context.Context, in guest.ImageInput) (guest.Result, error) {
	return f.call(ctx, "relay_image", in)
}
func (f *fakeRelay) Extract(ctx context.Context, in guest.ExtractInput) (guest.Result, error) {
	return f.call(ctx, "relay_extract", in)
}
func (f *fakeRelay) Finish(ctx context.Context, in guest.NamedInput) (guest.Result, error) {
	return f.call(ctx, "relay_finish", in)
}
func (f *fakeRelay) Release(ctx context.Context, in guest.NamedInput) (guest.Result, error) {
	return f.call(ctx, "relay_release", in)
}
func (f *fakeRelay) Status(ctx context.Context) (guest.Result, error) {
	return f.call(ctx, "relay_status", nil)
}

// check runs the whole check of one tool.
func check(t *testing.T, name, raw string) ([]byte, error) {
	t.Helper()
	tool, ok := findTool(name)
	if !ok {
		t.Fatalf("no tool %q", name)
	}
	return checkInput(tool.input, tool.rules, []byte(raw))
}

// toJSON is json.Marshal for values that always marshal.
func toJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
