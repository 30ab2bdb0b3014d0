package mcpgate

import (
	"context"
	"io"

	"github.com/rs/zerolog"
)

// Options of a Server. The zero value serves without a log and keeps no whole results.
type Options struct {
	Version   string         // version of the program, announced at initialize
	Log       zerolog.Logger // events; never written to the client
	ResultDir string         // private directory for results too long to show; empty: they are cut and not kept
}

// Server is the MCP gateway. It is safe for use by several goroutines.
type Server struct {
	relay   Relay
	options Options
}

// New makes a Server that hands every valid call to relay.
func New(relay Relay, options Options) *Server {
	return &Server{relay: relay, options: options}
}

// Serve speaks newline-delimited JSON-RPC over in and out until the transport ends: in is at its end, out cannot be
// written (that error is returned), or ctx is done. It does not cancel calls in flight: their answers are still written
// while that is possible; see Drain and CancelAll.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error { return nil }

// Drain waits until every call in flight has its answer, or until ctx is done, whose error it then returns.
func (s *Server) Drain(ctx context.Context) error { return nil }

// CancelAll cancels the contexts of the calls in flight and of those to come.
func (s *Server) CancelAll() {}
