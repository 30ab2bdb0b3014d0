package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/tree"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

// pullBounds keep a guest from filling the host: a sparse file of any size costs it nothing.
var pullBounds = tree.Bounds{Bytes: machine.MaxTransfer, Entries: 1 << 20}

// Push copies local into the guest; into remote when that is a directory there, under local's own name.
func (g *guest) Push(ctx context.Context, local, remote string) error {
	source, err := tree.Open(local, tree.LinksOnWay)
	if err != nil {
		return hostError(err)
	}
	defer source.Close()
	conn, err := g.send(ctx, wire.Request{Op: wire.OpPush, Path: remote, Base: remoteBase(local)})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer interruptible(ctx, conn)()
	stream := wire.NewStreamWriter(conn)
	if err := source.Pack(stream); err != nil {
		_ = stream.Abort(wire.FaultFailed, err)
		return g.transferError(ctx, err)
	}
	if err := stream.Close(); err != nil {
		return g.lost(ctx, err)
	}
	answer, err := g.receive(ctx, conn)
	if err != nil {
		return err
	}
	if answer.Fault == wire.FaultMissing {
		return fmt.Errorf("cannot push to %s: its parent directory does not exist in the guest", remote)
	}
	return faultError(answer.Fault, answer.Error)
}

// Pull copies remote out of the guest; into local when that is a directory, under remote's own name.
func (g *guest) Pull(ctx context.Context, remote, local string) error {
	conn, err := g.send(ctx, wire.Request{Op: wire.OpPull, Path: remote})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer interruptible(ctx, conn)()
	answer, err := g.receive(ctx, conn)
	if err != nil {
		return err
	}
	if err := faultError(answer.Fault, answer.Error); err != nil {
		return err
	}
	err = tree.Unpack(wire.NewStreamReader(conn), local, remoteBase(remote), tree.LinksOnWay, pullBounds)
	if err == nil {
		return nil
	}
	var given *wire.StreamError
	if errors.As(err, &given) {
		return faultError(given.Fault, given.Message)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot pull to %s: %w", local, err)
	}
	return g.transferError(ctx, err)
}

// hostError gives an error of the host's side its kind.
func hostError(err error) error {
	switch {
	case errors.Is(err, tree.ErrUnsafe):
		return fmt.Errorf("%w: %v", driver.ErrUnsafePath, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %v", driver.ErrMissing, err)
	}
	return err
}

// transferError sorts an error from the middle of a transfer.
func (g *guest) transferError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if brokenOff(err) {
		return g.lost(ctx, err)
	}
	return hostError(err)
}

// brokenOff says that the connection failed and not the file: the guest ended, or does not answer.
func brokenOff(err error) bool {
	var connection *net.OpError
	return errors.As(err, &connection) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)
}
