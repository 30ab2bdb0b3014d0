package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
)

// The tests of this package run the real program: the binary is built once, as go run would build it, and started as its
// users start it.

var built struct {
	sync.Once
	dir, path string
	err       error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// binary is the path of the built program; every user may run it.
func binary(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "mcp-relay-bin-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "mcp-relay")
		out, err := exec.Command("go", "build", "-o", built.path, ".").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
		_ = os.Chmod(built.dir, 0o755)
	})
	if built.err != nil {
		t.Fatalf("cannot build the program: %v", built.err)
	}
	return built.path
}

// missing skips a test whose tool is not there, except in CI, where it fails.
func missing(t *testing.T, tool, install string) {
	t.Helper()
	message := fmt.Sprintf("needs %s; install it with: %s", tool, install)
	if os.Getenv("MCP_RELAY_TEST_NO_SKIP") == "1" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// needMachines skips where this host or user cannot have guests.
func needMachines(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux for machines of our own")
	}
	out, err := exec.Command(binary(t), "doctor").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 4 {
		missing(t, "a host that can make guests", strings.TrimSpace(string(out)))
	}
}

// world is one user's machine: a home of its own, and so a state directory, a project and a machine service of its own.
type world struct {
	t       *testing.T
	dir     string // unique, and part of every path and command line of whatever belongs to this world
	project string
	user    *syscall.Credential
	env     map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcp-relay-world-")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, project: filepath.Join(dir, "project"), env: map[string]string{
		"HOME": dir, "TMPDIR": filepath.Join(dir, "tmp"), "MCP_RELAY_STATE_DIR": filepath.Join(dir, "state"), "MCP_RELAY_PROJECT": filepath.Join(dir, "project"),
		"MCP_RELAY_MACHINES_PORT": "0"}}
	for _, d := range []string{w.project, filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		w.endService()
		if left := w.remains(); len(left) > 0 {
			t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
		}
		_ = os.RemoveAll(dir)
	})
	return w
}

// asUser makes an ordinary user the owner of this world. Only root can.
func (w *world) asUser(id uint32) *world {
	w.t.Helper()
	w.user = &syscall.Credential{Uid: id, Gid: id}
	err := filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(id), int(id))
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w
}

func (w *world) set(name, value string) *world { w.env[name] = value; return w }

func (w *world) command(args ...string) *exec.Cmd {
	c := exec.Command(binary(w.t), args...)
	c.Dir = w.project
	c.Env = config.Environ(w.env)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: w.user}
	return c
}

// run runs the program to its end.
func (w *world) run(args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	var out, errs bytes.Buffer
	c := w.command(args...)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// client is one MCP client with its server.
type client struct {
	t       *testing.T
	cmd     *exec.Cmd
	session *mcp.ClientSession
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// connect starts the server on stdio as a client's host does.
func (w *world) connect(args ...string) *client {
	w.t.Helper()
	c := &client{t: w.t, cmd: w.command(args...), log: &lockedBuffer{}}
	c.cmd.Stderr = c.log
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: c.cmd, TerminateDuration: 3 * time.Minute}, nil)
	if err != nil {
		w.t.Fatalf("cannot connect: %v\n%s", err, c.log)
	}
	c.session = session
	w.t.Cleanup(func() { _ = session.Close() })
	return c
}

// answer is one tool result.
type answer struct {
	identity map[string]any // of relay_script and relay_image
	value    any
	text     string
	failed   bool
	images   int
}

func (c *client) tool(name string, args map[string]any) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	res, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return answer{}, err
	}
	a := answer{failed: res.IsError}
	for _, content := range res.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			a.text += content.Text
		case *mcp.ImageContent:
			a.images++
		}
	}
	body := a.text
	if line, rest, ok := strings.Cut(a.text, "\n"); ok && strings.HasPrefix(line, `{"imageDelivery"`) {
		if err := json.Unmarshal([]byte(line), &a.identity); err != nil {
			return a, err
		}
		body = rest
	}
	_ = json.Unmarshal([]byte(body), &a.value) // an error result may be plain words
	return a, nil
}

// must calls a tool that has to succeed and answers its JSON object.
func (c *client) must(name string, args map[string]any) map[string]any {
	c.t.Helper()
	a, err := c.tool(name, args)
	if err != nil || a.failed {
		c.t.Fatalf("%s failed: %v\n%s\nserver log:\n%s", name, err, a.text, c.log)
	}
	m, _ := a.value.(map[string]any)
	return m
}

// acquire takes a staged guest.
func (c *client) acquire(task string, outputs ...string) string {
	c.t.Helper()
	declared := []any{}
	for _, o := range outputs {
		declared = append(declared, map[string]any{"path": o, "name": o})
	}
	name, _ := c.must("relay_acquire", map[string]any{"task": task, "image": "host", "extractions": declared, "ttlHours": 1})["guest"].(string)
	if name == "" {
		c.t.Fatal("relay_acquire named no guest")
	}
	c.must("relay_stage", map[string]any{"guest": name})
	return name
}

func shell(guest, code string) map[string]any {
	return map[string]any{"guest": guest, "language": "shell", "inline": true, "code": code,
		"snapshots": map[string]any{"afterIntervalMs": 0}}
}

// remains lists what this world left: processes, mounts in any mount namespace we may see, control groups.
func (w *world) remains() []string {
	var left []string
	own := os.Getpid()
	names := w.machineNames()
	listed, _, _ := w.run("machines", "list", "--json")
	for _, name := range names {
		if strings.Contains(listed, name) {
			left = append(left, "machine: "+name)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil || pid == own {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if bytes.Contains(line, []byte(w.dir)) || bytes.Contains(environ, []byte("="+w.dir)) {
			left = append(left, fmt.Sprintf("process %d: %s", pid, strings.ReplaceAll(string(line), "\x00", " ")))
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, w.dir) {
			left = append(left, "mount: "+line)
		}
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			for _, name := range names {
				if strings.Contains(path, name) {
					left = append(left, "control group: "+path)
				}
			}
		}
		return nil
	})
	return left
}

var machineNamePattern = regexp.MustCompile(`relay-[a-z0-9-]+-[0-9a-f]{8}-[0-9a-f]{6}`)

// machineNames are those of every machine that any record of this world names.
func (w *world) machineNames() []string {
	seen := map[string]bool{}
	_ = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return nil
		}
		b, _ := os.ReadFile(path)
		for _, name := range machineNamePattern.FindAllString(string(b), -1) {
			seen[name] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(seen))
}

// endService ends the background machine service of this world, by the identity its record proves.
func (w *world) endService() {
	pid := w.servicePID()
	if pid == 0 {
		return
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	_ = p.Signal(syscall.SIGTERM)
	waitUntil(w.t, 30*time.Second, "the machine service has ended", func() bool { return p.Signal(syscall.Signal(0)) != nil })
}

// servicePID is the pid of this world's background service, or 0.
func (w *world) servicePID() int {
	var found int
	_ = filepath.WalkDir(filepath.Join(w.dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) != "machine-service.json" {
			return nil
		}
		var record struct {
			PID int `json:"pid"`
		}
		b, _ := os.ReadFile(path)
		if json.Unmarshal(b, &record) == nil && record.PID > 0 {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", record.PID))
			if bytes.Contains(line, []byte("machines")) {
				found = record.PID
			}
		}
		return nil
	})
	return found
}

// waitUntil polls for something that has no event to wait for.
func waitUntil(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// files lists every file below the world, so that two listings can be compared.
func (w *world) files() []string {
	var list []string
	_ = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, strings.TrimPrefix(path, w.dir))
		}
		return nil
	})
	return list
}

// evidenceOf is the package folder of a guest.
func (w *world) evidenceOf(task string) string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.project, "relay-evidence", "relay-"+task+"-????????"))
	if err != nil || len(found) != 1 {
		w.t.Fatalf("expected one evidence folder of %s, got %v (%v)", task, found, err)
	}
	return found[0]
}
