package receiver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// The test binary is also the guest runtime, so that receivers can be started as processes and killed:
//
//	test-binary runtime VERB ARGS...             Main
//	test-binary receiver POINT CAPTURE ROOT ID   Run, which kills itself at POINT ("captured:2" the second time, "" never), with a fake capturer
//	                                             (CAPTURE "fake") or none
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "runtime":
		os.Exit(Main(os.Args[2:], os.Stdout))
	case filepath.Base(os.Args[0]) == protocol.RuntimeName:
		os.Exit(Main(os.Args[1:], os.Stdout))
	case len(os.Args) == 6 && os.Args[1] == "receiver":
		os.Exit(receiverProcess(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
	}
	os.Exit(m.Run())
}

func receiverProcess(point, capture, root, id string) int {
	seen := map[string]int{}
	opt := Options{Hook: func(at string) {
		seen[at]++
		if point == at || point == fmt.Sprintf("%s:%d", at, seen[at]) {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}}
	if capture == "fake" {
		opt.Capturer = &fakeCapturer{}
	}
	receipt, path, err := Run(context.Background(), root, filepath.Join(root, "requests", id+".json"), opt)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	line, _ := protocol.Answer(protocol.Ack{ExecutionID: receipt.ExecutionID, Outcome: receipt.Outcome.Kind, Receipt: path})
	fmt.Print(string(line))
	return 0
}

// fakeCapturer gives a tiny picture, or the error whose turn it is.
type fakeCapturer struct {
	calls int
	fail  map[int]error // by number of the call, from 1
}

func (f *fakeCapturer) Capture(context.Context) (Picture, error) {
	f.calls++
	if err := f.fail[f.calls]; err != nil {
		return Picture{}, err
	}
	return Picture{PNG: []byte(onePixel)}, nil
}

// onePixel is a whole PNG of one red pixel.
const onePixel = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde" +
	"\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82"

var errLens = errors.New("the lens is dirty")

// guestRoot is a guest as the host leaves it after staging.
type guestRoot struct {
	t    *testing.T
	path string
	next int
}

func newGuest(t *testing.T) *guestRoot {
	t.Helper()
	g := &guestRoot{t: t, path: t.TempDir()}
	for _, dir := range []string{"requests", "scripts", "workspace", "state"} {
		if err := os.Mkdir(filepath.Join(g.path, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *guestRoot) join(parts ...string) string {
	return filepath.Join(append([]string{g.path}, parts...)...)
}

// push writes a script and its request, which edits may change.
func (g *guestRoot) push(language, code string, edits ...func(*protocol.Request)) protocol.Request {
	g.t.Helper()
	g.next++
	id := fmt.Sprintf("execution-%04d", g.next)
	script := g.join("scripts", id+protocol.Extension(language))
	g.write(script, code)
	zero := int64(0)
	req := protocol.Request{
		Protocol: protocol.Version, ExecutionID: id, SessionID: "session-A", AttemptID: "attempt-1",
		Because: "to see it", Language: language,
		Script: protocol.Script{Path: script, SHA256: hexSum([]byte(code)), Bytes: int64(len(code)), Origin: "inline"},
		Cwd:    g.join("workspace"), TimeoutMs: 60_000,
		Step:      protocol.Step{ID: fmt.Sprintf("step-%d", g.next), Title: "a step", Expected: "Exits with status 0", InputMode: "ordinary"},
		Snapshots: protocol.Snapshots{Capture: protocol.CaptureX11, AfterIntervalMs: &zero},
	}
	for _, edit := range edits {
		edit(&req)
	}
	g.request(req)
	return req
}

// request writes the request file.
func (g *guestRoot) request(req protocol.Request) {
	g.t.Helper()
	data, err := json.Marshal(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.write(g.join("requests", req.ExecutionID+".json"), string(data))
}

func (g *guestRoot) write(path, content string) {
	g.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// run carries a pushed request out in this process.
func (g *guestRoot) run(req protocol.Request, opt Options) protocol.Receipt {
	g.t.Helper()
	return g.runContext(g.t.Context(), req, opt)
}

func (g *guestRoot) runContext(ctx context.Context, req protocol.Request, opt Options) protocol.Receipt {
	g.t.Helper()
	receipt, written, err := Run(ctx, g.path, g.join("requests", req.ExecutionID+".json"), opt)
	if err != nil {
		g.t.Fatal(err)
	}
	if written != "" {
		stored, err := load[protocol.Receipt](written)
		if err != nil || stored == nil {
			g.t.Fatalf("receipt at %s: %v", written, err)
		}
		if got, want := asJSON(g.t, receipt), asJSON(g.t, *stored); got != want {
			g.t.Fatalf("the receipt on disk is not the one answered:\n%s\n%s", want, got)
		}
	}
	return receipt
}

// shell pushes and runs a shell script with the fake capturer.
func (g *guestRoot) shell(code string, edits ...func(*protocol.Request)) protocol.Receipt {
	g.t.Helper()
	return g.run(g.push(protocol.Shell, code, edits...), Options{Capturer: &fakeCapturer{}})
}

// process starts a receiver as a process of its own that kills itself at point.
func (g *guestRoot) process(req protocol.Request, point string) *exec.Cmd {
	g.t.Helper()
	self, err := os.Executable()
	if err != nil {
		g.t.Fatal(err)
	}
	return exec.Command(self, "receiver", point, "fake", g.path, req.ExecutionID)
}

// journal is the recording's journal, each line decoded.
func (g *guestRoot) journal() []event {
	g.t.Helper()
	f, err := os.Open(g.join("state", "journal", "events.jsonl"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	var events []event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		// A plan is written only; what the tests ask of it they read as JSON.
		var e struct {
			event
			SnapshotPlan json.RawMessage `json:"snapshotPlan"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			g.t.Fatalf("line %q: %v", lines.Text(), err)
		}
		events = append(events, e.event)
	}
	return events
}

// kinds are the kinds of the journal's lines about an execution, in order; annotations by their type.
func (g *guestRoot) kinds(id string) []string {
	var kinds []string
	for _, e := range g.journal() {
		switch {
		case e.ExecutionID != id:
		case e.Kind == "annotation":
			kinds = append(kinds, e.AnnotationType)
		default:
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// count counts the lines of a file in the workspace: how often a script did something.
func (g *guestRoot) count(name string) int {
	data, err := os.ReadFile(g.join("workspace", name))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// files lists the files below a folder of the guest.
func (g *guestRoot) files(parts ...string) []string {
	g.t.Helper()
	var names []string
	root := g.join(parts...)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		g.t.Fatal(err)
	}
	return names
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// want checks the outcome of a receipt.
func want(t *testing.T, receipt protocol.Receipt, kind, reason string) {
	t.Helper()
	if receipt.Outcome.Kind != kind || receipt.Outcome.Reason != reason {
		t.Fatalf("outcome is %s, want %s %s", asJSON(t, receipt.Outcome), kind, reason)
	}
}

func wantExit(t *testing.T, receipt protocol.Receipt, code int) {
	t.Helper()
	want(t, receipt, protocol.Completed, "")
	if s := receipt.Outcome.ExitStatus; s == nil || s.Code == nil || *s.Code != code || s.Signal != nil {
		t.Fatalf("exit status is %s, want code %d", asJSON(t, s), code)
	}
}

// eventually waits for something another process does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// need skips a test whose tool is missing, unless skipping is forbidden.
func need(t *testing.T, tool, install string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err == nil {
		return path
	}
	if os.Getenv("MCP_RELAY_TEST_NO_SKIP") == "1" {
		t.Fatalf("%s is missing: %s", tool, install)
	}
	t.Skipf("%s is missing: %s", tool, install)
	return ""
}

func noSnapshots(req *protocol.Request) {
	req.Snapshots = protocol.Snapshots{Capture: protocol.CaptureNone, Reason: "image lists no capture software"}
}
