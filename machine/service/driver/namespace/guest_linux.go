package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

// answerWait is how long init may take over what is done at once.
const answerWait = 30 * time.Second

// guest is a running machine.
type guest struct {
	name   string
	folder string
	nonce  string
	record *record

	destroying sync.Mutex // one Destroy at a time
	mu         sync.Mutex
	handle     *proc.Handle // nil once destroyed
}

func newGuest(spec driver.Spec, r *record, handle *proc.Handle) *guest {
	return &guest{name: spec.Name, folder: spec.Folder, nonce: spec.Nonce, record: r, handle: handle}
}

// Alive asks the kernel whether init still runs.
func (g *guest) Alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.handle != nil && !g.handle.Ended()
}

// Destroy ends the machine; see erase.
func (g *guest) Destroy(context.Context) error {
	g.destroying.Lock()
	defer g.destroying.Unlock()
	handle := g.held()
	if handle == nil {
		return nil
	}
	if err := erase(g.folder, g.record, handle); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handle = nil
	return handle.Close()
}

func (g *guest) held() *proc.Handle {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.handle
}

// Renew tells the guest its lease's new end.
func (g *guest) Renew(ctx context.Context, until time.Time) error {
	return g.ask(ctx, wire.Request{Op: wire.OpRenew, UntilUnixMS: until.UnixMilli()})
}

// ping asks whether this is the guest that knows our nonce, and whether it answers.
func (g *guest) ping(ctx context.Context) error { return g.ask(ctx, wire.Request{Op: wire.OpPing}) }

// ask sends a request that is answered at once.
func (g *guest) ask(ctx context.Context, request wire.Request) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	conn, err := g.send(ctx, request)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer interruptible(ctx, conn)()
	answer, err := g.receive(ctx, conn)
	if err != nil {
		return err
	}
	return faultError(answer.Fault, answer.Error)
}

// send connects and sends a request.
func (g *guest) send(ctx context.Context, request wire.Request) (net.Conn, error) {
	request.Nonce = g.nonce
	dir, err := os.Open(g.folder)
	if err != nil {
		return nil, g.lost(ctx, err)
	}
	defer dir.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", descriptorPath(dir)+"/"+socketFile)
	if err != nil {
		return nil, g.lost(ctx, err)
	}
	if err := wire.Send(conn, wire.KindRequest, request); err != nil {
		conn.Close()
		return nil, g.lost(ctx, err)
	}
	return conn, nil
}

func (g *guest) receive(ctx context.Context, conn net.Conn) (wire.Answer, error) {
	var answer wire.Answer
	if err := wire.Receive(conn, wire.KindAnswer, &answer); err != nil {
		return answer, g.lost(ctx, err)
	}
	return answer, nil
}

// settle is how long a guest whose connection broke gets to be seen as ended: its init's sockets close first, and the
// kernel reports its end only when every process of the guest is gone.
const settle = 2 * time.Second

// lost says what a broken connection means: the caller's own wish, a guest that is gone, or one that cannot be reached.
func (g *guest) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.mu.Lock()
	gone := g.handle == nil || g.handle.Wait(settle)
	g.mu.Unlock()
	if gone {
		return fmt.Errorf("%w: %s", driver.ErrGone, g.name)
	}
	return fmt.Errorf("%w: %s: %v", driver.ErrUnreachable, g.name, err)
}

// interruptible makes reads and writes on conn fail when ctx ends. The result undoes it.
func interruptible(ctx context.Context, conn net.Conn) func() bool {
	return context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}

func faultError(fault wire.Fault, text string) error {
	switch fault {
	case wire.FaultNone:
		return nil
	case wire.FaultMissing:
		return fmt.Errorf("%w: %s", driver.ErrMissing, text)
	case wire.FaultUnsafe:
		return fmt.Errorf("%w: %s", driver.ErrUnsafePath, text)
	case wire.FaultFull:
		return fmt.Errorf("%w: %s", driver.ErrFull, text)
	}
	return errors.New(text)
}

// killReserve is how long the answer to a kill may take: init's own limit for it and the way.
const killReserve = 20 * time.Second

// Exec runs argv in the guest. A command that does not exist ends with 127, one that cannot be executed with 126, as in
// a shell. When ctx ends the command's session is killed and its end awaited; the error is then the context's.
func (g *guest) Exec(ctx context.Context, argv []string, timeout time.Duration, limit int) (int, []byte, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	request := wire.Request{Op: wire.OpExec, Argv: argv, TimeoutMS: timeout.Milliseconds(), Limit: limit}
	if timeout > 0 && request.TimeoutMS == 0 {
		request.TimeoutMS = 1
	}
	conn, err := g.send(ctx, request)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	if timeout > 0 {
		_ = conn.SetReadDeadline(time.Now().Add(timeout + killReserve))
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Now().Add(killReserve))
		_ = wire.WriteFrame(conn, wire.KindKill, nil)
	})
	defer stop()
	uncancelled := context.WithoutCancel(ctx) // an answer that comes is read; the kill decides, not the context
	answer, err := g.receive(uncancelled, conn)
	if err != nil {
		return 0, nil, err
	}
	return g.result(ctx, conn, answer)
}

func (g *guest) result(ctx context.Context, conn net.Conn, answer wire.Answer) (int, []byte, error) {
	if answer.Fault == wire.FaultStart || answer.Fault == wire.FaultBad || answer.Fault == wire.FaultDenied {
		return 0, nil, fmt.Errorf("nothing ran: %s", answer.Error)
	}
	output, err := io.ReadAll(wire.NewStreamReader(conn))
	if err != nil {
		return answer.Code, output, g.lost(context.WithoutCancel(ctx), err)
	}
	switch {
	case answer.Fault != wire.FaultNone:
		return answer.Code, output, errors.New(answer.Error)
	case answer.TimedOut:
		return answer.Code, output, driver.ErrTimeout
	case answer.Killed:
		return answer.Code, output, context.Cause(ctx)
	}
	return answer.Code, output, nil
}

// remoteBase is the name under which a transfer lands in a directory that exists already.
func remoteBase(path string) string { return filepath.Base(filepath.Clean(path)) }
