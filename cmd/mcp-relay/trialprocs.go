package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
)

// How long the parts of try may take to start and to end.
const (
	tryStart = 30 * time.Second
	tryEnd   = 60 * time.Second
)

// ownProcesses are what try started: maybe a machine service, and the MCP server. Both end with the pipe they read from, so
// they end when try does, however it does.
type ownProcesses struct {
	trial   *trial
	state   string // private state of this try, removed at its end
	service *exec.Cmd
	owner   io.WriteCloser // the service's stdin
	server  *exec.Cmd
}

func startOwnProcesses(ctx context.Context, t *trial, cfg config.Config) (*ownProcesses, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program's own file: %w", err)
	}
	state, err := os.MkdirTemp("", "mcp-relay-try-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a private folder: %w", err)
	}
	o := &ownProcesses{trial: t, state: state}
	url := cfg.URL
	if !cfg.URLSet {
		err = t.step(ctx, "start a machine service", func(ctx context.Context) (string, error) {
			url, err = o.startService(self)
			return url, err
		})
	}
	if err == nil {
		err = t.step(ctx, "start the MCP server", func(ctx context.Context) (string, error) { return "", o.startServer(ctx, self, url) })
	}
	if err != nil {
		return nil, errors.Join(err, o.stop())
	}
	return o, nil
}

func (o *ownProcesses) startService(self string) (string, error) {
	c := exec.Command(self, "machines", "--listen", "127.0.0.1:0", "--state", filepath.Join(o.state, "machines"), "--owner-stdin", "--grace", "1m")
	c.Env = config.Environ(map[string]string{"MCP_RELAY_STATE_DIR": o.state})
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for try, which ends the others in their order
	logFile, err := os.Create(filepath.Join(o.state, "machines.log"))
	if err != nil {
		return "", err
	}
	defer logFile.Close()
	c.Stderr = logFile
	if o.owner, err = c.StdinPipe(); err != nil {
		return "", err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", fmt.Errorf("cannot start it: %w", err)
	}
	o.service = c
	type answer struct {
		line string
		err  error
	}
	ready := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		ready <- answer{strings.TrimSpace(line), err}
	}()
	select {
	case a := <-ready:
		if a.err != nil {
			return "", fmt.Errorf("it ended before it was ready: %s", o.logTail())
		}
		return a.line, nil
	case <-time.After(tryStart):
		return "", fmt.Errorf("it was not ready within %v: %s", tryStart, o.logTail())
	}
}

// logTail is the last line the service wrote, which says why it ended.
func (o *ownProcesses) logTail() string {
	b, err := os.ReadFile(filepath.Join(o.state, "machines.log"))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if err != nil || lines[len(lines)-1] == "" {
		return "it left no word"
	}
	return lines[len(lines)-1]
}

func (o *ownProcesses) startServer(ctx context.Context, self, url string) error {
	c := exec.Command(self, "stdio")
	c.Env = config.Environ(map[string]string{"MCP_RELAY_STATE_DIR": o.state, "MCP_RELAY_URL": url, "MCP_RELAY_BACKEND": config.BackendService,
		"MCP_RELAY_PROJECT": o.trial.report.Project, "MCP_RELAY_ON_EXIT": config.OnExitRelease})
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	logFile, err := os.Create(filepath.Join(o.state, "server.log"))
	if err != nil {
		return err
	}
	defer logFile.Close()
	c.Stderr = logFile
	o.server = c
	ctx, cancel := context.WithTimeout(ctx, tryStart)
	defer cancel()
	o.trial.agent, err = connect(ctx, c)
	return err
}

// stop ends the server, which releases what is held, then the service, which releases what is left, and removes their state.
func (o *ownProcesses) stop() error {
	var errs []error
	if o.trial.agent != nil {
		// The client closes the server's stdin and waits; the server carries out its exit policy first.
		errs = append(errs, ignoreExit(o.trial.agent.session.Close()))
	}
	if o.service != nil {
		o.owner.Close()
		errs = append(errs, waitFor(o.service, tryEnd))
	}
	errs = append(errs, os.RemoveAll(o.state))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot clean up after the trial: %w", err)
	}
	return nil
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// waitFor waits until a child of ours has ended, and ends it by its handle when it does not.
func waitFor(c *exec.Cmd, limit time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		_ = c.Process.Kill()
		<-done
		return fmt.Errorf("%s did not end within %v and was killed", filepath.Base(c.Path), limit)
	}
}
