package service

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// peer is the user at the other end of a connection, looked up once, when first asked for.
type peer struct {
	uid func() (int, error)
}

type peerKey struct{}

// withPeer lets the requests of a connection ask who its other end is.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{uid: sync.OnceValues(func() (int, error) {
		client, err := addrPort(c.RemoteAddr())
		if err != nil {
			return 0, err
		}
		server, err := addrPort(c.LocalAddr())
		if err != nil {
			return 0, err
		}
		return socketOwner(client, server)
	})})
}

func addrPort(a net.Addr) (netip.AddrPort, error) {
	return netip.ParseAddrPort(a.String())
}

// checkPeer serves the user the service runs as, and nobody else: its machines run under that user's rights.
func checkPeer(r *http.Request) error {
	p, ok := r.Context().Value(peerKey{}).(*peer)
	if !ok {
		return otherUser(nil)
	}
	uid, err := p.uid()
	if err != nil || uid != os.Getuid() {
		return otherUser(err)
	}
	return nil
}

func otherUser(cause error) error {
	return &refusal{Status: http.StatusForbidden, Code: machine.CodeOtherUser, cause: cause,
		Text: "this machine-service serves only the user it runs as; start one of your own"}
}
