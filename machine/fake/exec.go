package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// maxOutput is how many code points of a command's output come back, from the end.
const maxOutput = 64_000

// Exec runs the command on this host, in a process group of its own. The caller's cancellation ends the wait and not the
// command; the command's timeout and the machine's release kill the group.
func (s *Service) Exec(ctx context.Context, name string, req machine.ExecRequest) (machine.ExecResult, error) {
	return call(ctx, s, machine.OpExec, func(ctx context.Context) (machine.ExecResult, error) {
		alive, err := s.running(machine.OpExec, name)
		if err != nil {
			return machine.ExecResult{}, err
		}
		if len(req.Argv) == 0 {
			return machine.ExecResult{}, refuse(machine.OpExec, machine.CodeInvalidRequest, "need 'argv' or 'script'")
		}
		return await(ctx, machine.OpExec, func() (machine.ExecResult, error) { return execute(alive, req) })
	})
}

// running returns the context that ends with the machine.
func (s *Service) running(op, name string) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease, ok := s.leases[name]
	if !ok {
		return nil, unknown(op, name)
	}
	if lease.State != machine.StateRunning {
		return nil, refuse(op, machine.CodeNotRunning, "%s is not running (state=%s)", name, lease.State)
	}
	return s.contexts[name], nil
}

// await lets go of work that goes on when the caller gives up.
func await[T any](ctx context.Context, op string, work func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := work()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("cannot tell what %s did: %w", op, ctx.Err())
	}
}

func execute(alive context.Context, req machine.ExecRequest) (machine.ExecResult, error) {
	timeout := max(req.Timeout, time.Second)
	ctx, cancel := context.WithTimeout(alive, timeout)
	defer cancel()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, req.Argv[0], req.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	text := tail(output.String())
	var exit *exec.ExitError
	switch {
	case alive.Err() != nil:
		return machine.ExecResult{}, refuse(machine.OpExec, machine.CodePreempted, "command cancelled by release")
	case ctx.Err() != nil:
		return machine.ExecResult{}, &machine.Error{Op: machine.OpExec, Status: 409, Code: machine.CodeExecTimeout,
			Message: fmt.Sprintf("ssh failed: the command was still running after %s", timeout), Output: text}
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return machine.ExecResult{Code: exit.ExitCode(), Output: text}, nil
	case errors.As(err, &exit):
		signal := exit.Sys().(syscall.WaitStatus).Signal()
		return machine.ExecResult{Code: 128 + int(signal), Output: text}, nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return machine.ExecResult{Code: 127, Output: text + err.Error() + "\n"}, nil
	}
	return machine.ExecResult{Output: text}, nil
}

func tail(output string) string {
	runes := []rune(output) // bytes that are no UTF-8 become U+FFFD
	return string(runes[max(0, len(runes)-maxOutput):])
}

// Push copies within this host.
func (s *Service) Push(ctx context.Context, name, local, remote string) error {
	return s.transfer(ctx, machine.OpPush, name, local, remote)
}

// Pull copies within this host; parents of local are made.
func (s *Service) Pull(ctx context.Context, name, remote, local string) error {
	return s.transfer(ctx, machine.OpPull, name, remote, local)
}

func (s *Service) transfer(ctx context.Context, op, name, from, to string) error {
	_, err := call(ctx, s, op, func(context.Context) (struct{}, error) {
		if _, err := s.running(op, name); err != nil {
			return struct{}{}, err
		}
		if op == machine.OpPull {
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return struct{}{}, refuse(op, machine.CodeTransferFailed, "scp failed: %v", err)
			}
		}
		return struct{}{}, copyRefusal(op, copyInto(from, to))
	})
	return err
}

func copyRefusal(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSpecial):
		return refuse(op, machine.CodePathRefused, "%v", err)
	case errors.Is(err, os.ErrNotExist) && op == machine.OpPush:
		return refuse(op, machine.CodeTransferFailed, "no such local path or remote folder: %v", err)
	}
	return refuse(op, machine.CodeTransferFailed, "scp failed: %v", err)
}
