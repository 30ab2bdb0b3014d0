package guestinit

import (
	"crypto/subtle"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

const (
	// requestWait is how long a peer may take to send its request.
	requestWait = 10 * time.Second
	// writeWait is how long a peer may take to read an answer.
	writeWait = time.Minute
	// most bounds connections at a time; further ones wait.
	most = 64
	// mostTransfers bounds those that use a thread each, so that the threads made at the start are enough.
	mostTransfers = 8
)

type server struct {
	nonce     string
	display   string
	children  *children
	lease     *lease
	transfers chan struct{}
}

// serve answers connections until the process ends.
func (s *server) serve(listener net.Listener) error {
	slots := make(chan struct{}, most)
	for {
		slots <- struct{}{}
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { <-slots }()
			defer conn.Close()
			s.handle(conn)
		}()
	}
}

func (s *server) handle(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(requestWait))
	if !fromOutside(conn) {
		return
	}
	var request wire.Request
	if err := wire.Receive(conn, wire.KindRequest, &request); err != nil {
		return
	}
	if subtle.ConstantTimeCompare([]byte(request.Nonce), []byte(s.nonce)) != 1 {
		answer(conn, wire.Answer{Fault: wire.FaultDenied, Error: "this is another guest"})
		return
	}
	_ = conn.SetDeadline(time.Time{})
	switch request.Op {
	case wire.OpPing:
		answer(conn, wire.Answer{})
	case wire.OpRenew:
		s.lease.renew(time.UnixMilli(request.UntilUnixMS))
		answer(conn, wire.Answer{})
	case wire.OpExec:
		s.exec(conn, request)
	case wire.OpPush:
		s.transferring(func() { push(conn, request) })
	case wire.OpPull:
		s.transferring(func() { pull(conn, request) })
	default:
		answer(conn, wire.Answer{Fault: wire.FaultBad, Error: fmt.Sprintf("unknown request %q", request.Op)})
	}
}

func (s *server) transferring(f func()) {
	s.transfers <- struct{}{}
	defer func() { <-s.transfers }()
	f()
}

// fromOutside says whether the peer is a process outside this guest: seen from here it has no pid. The socket's file is
// out of a guest's reach; this is the second wall.
func fromOutside(conn net.Conn) bool {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	outside := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		outside = err == nil && peer.Pid == 0
	})
	return err == nil && outside
}

func answer(conn net.Conn, a wire.Answer) {
	_ = conn.SetWriteDeadline(time.Now().Add(writeWait))
	_ = wire.Send(conn, wire.KindAnswer, a)
}

// answerWith sends the answer and a stream behind it. A peer that went away does not get it; nobody else is told.
func answerWith(conn net.Conn, a wire.Answer, content []byte) {
	answer(conn, a)
	stream := wire.NewStreamWriter(conn)
	if _, err := stream.Write(content); err == nil {
		_ = stream.Close()
	}
}
