package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// guest is one machine.
type guest struct {
	driver *Driver
	spec   driver.Spec
	pid    int
	start  string
}

// tailBuffer keeps the last limit bytes.
type tailBuffer struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, p...)
	b.kept = b.kept[max(0, len(b.kept)-b.limit):]
	return len(p), nil
}

func (b *tailBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]byte(nil), b.kept...)
}

// Exec runs argv on this host in a group of its own.
func (g *guest) Exec(ctx context.Context, argv []string, timeout time.Duration, limit int) (int, []byte, error) {
	if err := g.ask(OpExec); err != nil {
		return 0, nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, driver.ErrTimeout)
	defer cancel()
	output := &tailBuffer{limit: limit}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = home, g.driver.environment(g.spec), output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, output.bytes(), context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal()), output.bytes(), nil
	case errors.As(err, &exit):
		return exit.ExitCode(), output.bytes(), nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return 127, []byte(err.Error() + "\n"), nil
	}
	return 0, output.bytes(), nil
}

// ask takes the next scripted fault, and refuses when the machine is gone.
func (g *guest) ask(op string) error {
	if err := g.driver.fault(op); err != nil {
		return err
	}
	if !g.Alive() {
		return driver.ErrGone
	}
	return nil
}

// Push copies within this host.
func (g *guest) Push(_ context.Context, local, remote string) error {
	if err := g.ask(OpPush); err != nil {
		return err
	}
	return copyTree(local, remote)
}

// Pull copies within this host.
func (g *guest) Pull(_ context.Context, remote, local string) error {
	if err := g.ask(OpPull); err != nil {
		return err
	}
	return copyTree(remote, local)
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s", driver.ErrMissing, path)
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case info.IsDir():
			return os.MkdirAll(target, info.Mode().Perm())
		case !info.Mode().IsRegular():
			return fmt.Errorf("%w: %s", driver.ErrUnsafePath, path)
		}
		return copyFile(path, target, info.Mode().Perm())
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".copy-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // gone already when it was renamed
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// Renew notes the end.
func (g *guest) Renew(_ context.Context, until time.Time) error {
	g.driver.mu.Lock()
	defer g.driver.mu.Unlock()
	g.driver.renewed[g.spec.Name] = append(g.driver.renewed[g.spec.Name], until)
	return nil
}

// Alive says that the machine's process is the one that was started.
func (g *guest) Alive() bool {
	start, err := startTime(g.pid)
	return err == nil && start == g.start
}

// Destroy kills every process of the machine.
func (g *guest) Destroy(ctx context.Context) error {
	if err := g.driver.fault(OpDestroy); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return killAll(keyNonce + g.spec.Nonce)
}
