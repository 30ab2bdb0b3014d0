package guestinit

import (
	"errors"
	"io/fs"
	"math"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/tree"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

// pushBounds leave it to the size of the guest's file system.
var pushBounds = tree.Bounds{Bytes: math.MaxInt64, Entries: math.MaxInt32}

// push takes a tree. The peer sends all of it before it reads the answer, so after a fault the rest is read off.
func push(conn net.Conn, request wire.Request) {
	stream := wire.NewStreamReader(idle{conn})
	err := tree.Unpack(stream, request.Path, request.Base, tree.NoLinks, pushBounds)
	if err != nil {
		if drainErr := stream.Drain(); drainErr != nil {
			return // the peer gave up or is gone
		}
	}
	answer(conn, fault(err))
}

// pull sends a tree.
func pull(conn net.Conn, request wire.Request) {
	source, err := tree.Open(request.Path, tree.NoLinks)
	if err != nil {
		answer(conn, fault(err))
		return
	}
	defer source.Close()
	answer(conn, wire.Answer{})
	stream := wire.NewStreamWriter(idle{conn})
	if err := source.Pack(stream); err != nil {
		a := fault(err)
		_ = stream.Abort(a.Fault, err)
		return
	}
	_ = stream.Close()
}

func fault(err error) wire.Answer {
	switch {
	case err == nil:
		return wire.Answer{}
	case errors.Is(err, tree.ErrUnsafe):
		return wire.Answer{Fault: wire.FaultUnsafe, Error: err.Error()}
	case errors.Is(err, fs.ErrNotExist):
		return wire.Answer{Fault: wire.FaultMissing, Error: err.Error()}
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return wire.Answer{Fault: wire.FaultFull, Error: err.Error()}
	}
	return wire.Answer{Fault: wire.FaultFailed, Error: err.Error()}
}

// idle is a connection that fails when nothing moves for writeWait.
type idle struct{ net.Conn }

func (c idle) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(writeWait))
	return c.Conn.Read(p)
}

func (c idle) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(writeWait))
	return c.Conn.Write(p)
}
