package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

const (
	// drainLimit is how long output is still read after the script's own end, when something else holds the stream open.
	drainLimit = 500 * time.Millisecond
	// pipeMax bounds what may lie in a pipe when that time is over.
	pipeMax = 1 << 20
)

// command is a script ready to be started.
type command struct {
	argv    []string
	cwd     string
	timeout time.Duration
	stdout  *stream
	stderr  *stream
	started func(identity) error // records the script's identity, durably; an error ends the script
	drain   string               // program that goes on reading what leftovers print; "" for none
}

// result is what became of a started script.
type result struct {
	exit      protocol.ExitStatus
	timedOut  bool
	cancelled bool
	problem   error // the receiver lost control: the script was ended for it, or its end is not known
	gone      *bool // whether nothing of it is left; set when it was killed
	leftover  []protocol.Process
	leftTotal int
	unlisted  error // why what it left running is not known
	started   time.Time
	ended     time.Time
}

// spawnError means that the system did not start the script: nothing ran.
type spawnError struct{ cause error }

func (e *spawnError) Error() string { return "cannot start the script: " + e.cause.Error() }

// dispatch starts the script, once, and waits for its own end, its timeout or the end of ctx. What the script leaves running
// after its own end stays; on a timeout and on cancellation all that stems from it is killed. The error is a *spawnError.
func (c command) dispatch(ctx context.Context) (result, error) {
	// The kernel kills the script when the thread that started it ends: this one must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	family, err := c.family()
	if err != nil {
		return result{}, &spawnError{err}
	}
	out, outEnd, err := newTap(c.stdout)
	if err != nil {
		return result{}, &spawnError{err}
	}
	problems, problemsEnd, err := newTap(c.stderr)
	if err != nil {
		out.close()
		outEnd.Close()
		return result{}, &spawnError{err}
	}
	cmd := &exec.Cmd{Path: c.argv[0], Args: c.argv, Dir: c.cwd, Stdout: outEnd, Stderr: problemsEnd, SysProcAttr: scriptAttributes()}
	r := result{started: time.Now()}
	err = cmd.Start()
	outEnd.Close()
	problemsEnd.Close()
	if err != nil {
		out.close()
		problems.close()
		return result{}, &spawnError{err}
	}
	c.watch(ctx, cmd, family, &r)
	held := []*tap{}
	for _, t := range []*tap{out, problems} {
		if t.finish() {
			held = append(held, t)
		}
	}
	c.keepReading(held, r)
	return r, nil
}

func (c command) family() (*family, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	return newFamily(selfPID())
}

// watch follows the started script to its end and fills r.
func (c command) watch(ctx context.Context, cmd *exec.Cmd, family *family, r *result) {
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	family.script.PID = cmd.Process.Pid
	script, err := identityOf(cmd.Process.Pid)
	if err == nil {
		family.script = script
		err = c.started(script)
	}
	ended := make(chan error, 1)
	go func() { ended <- awaitEnd(cmd.Process.Pid) }()
	if err != nil {
		r.problem = err
		r.gone = family.end()
	} else {
		select {
		case r.problem = <-ended:
			ended <- nil
		case <-timer.C:
			r.timedOut, r.gone = true, family.end()
		case <-ctx.Done():
			r.cancelled, r.gone = true, family.end()
		}
	}
	r.reap(cmd, ended)
	r.ended = time.Now()
	if r.gone == nil && r.problem == nil && !r.timedOut && !r.cancelled {
		r.leftover, r.leftTotal, r.unlisted = family.leftovers()
	}
}

// reap takes the script's exit status, unless it cannot be brought to end.
func (r *result) reap(cmd *exec.Cmd, ended <-chan error) {
	select {
	case <-ended:
	case <-time.After(proofLimit):
		r.problem = errors.Join(r.problem, errors.New("the script does not end although it was killed"))
		return
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.problem = errors.Join(r.problem, err)
		return
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		name := unix.SignalName(status.Signal())
		r.exit.Signal = &name
		return
	}
	code := status.ExitStatus()
	r.exit.Code = &code
}

// keepReading hands streams that leftovers still hold to a process that reads and drops what comes, so that a browser the
// script started does not die of a closed pipe. It ends with the last holder.
func (c command) keepReading(held []*tap, r result) {
	for _, t := range held {
		if c.drain != "" && r.leftTotal > 0 {
			helper := &exec.Cmd{Path: c.drain, Args: []string{protocol.RuntimeName, verbDrain}, Stdin: t.from, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
			if err := helper.Start(); err == nil {
				_ = helper.Process.Release()
			}
		}
		t.close()
	}
}

// tap reads one stream of a script from its pipe.
type tap struct {
	from *os.File
	into *stream
	done chan error
}

// newTap starts reading and returns the end for the script.
func newTap(into *stream) (*tap, *os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	t := &tap{from: from, into: into, done: make(chan error, 1)}
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{into}, struct{ io.Reader }{from}, make([]byte, 64<<10))
		t.done <- err
	}()
	return t, to, nil
}

// finish ends the reading after the script's own end: at the end of the stream, or after drainLimit with what lies in the
// pipe by then. It reports whether somebody still holds the stream open; if not, the tap is closed.
func (t *tap) finish() (held bool) {
	_ = t.from.SetReadDeadline(time.Now().Add(drainLimit))
	if err := <-t.done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.close()
		return false
	}
	// Past its deadline a file gives nothing, even what is there.
	raw, err := t.from.SyscallConn()
	if err != nil {
		return true
	}
	_ = raw.Control(func(fd uintptr) {
		buffer := make([]byte, 64<<10)
		for left := pipeMax; left > 0; {
			n, err := unix.Read(int(fd), buffer)
			if n <= 0 || err != nil {
				return
			}
			_, _ = t.into.Write(buffer[:n])
			left -= n
		}
	})
	return true
}

func (t *tap) close() { t.from.Close() }
