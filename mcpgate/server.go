package mcpgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// serverName is the name announced at initialize.
const serverName = "relay"

// Causes of a cancelled call, as its error text tells them.
var (
	errClientCancelled = errors.New("the client cancelled the call")
	errSessionEnding   = errors.New("the session is ending")
)

// Options of a Server. The zero value serves without a log and keeps no whole results.
type Options struct {
	Version   string         // version of the program, announced at initialize
	Log       zerolog.Logger // events; never written to the client
	ResultDir string         // private directory for results too long to show; empty: they are cut and not kept
}

// Server is the MCP gateway. It is safe for use by several goroutines, and may serve several clients at once.
type Server struct {
	relay   Relay
	options Options
	sdk     *mcp.Server
	calls   *calls
	turns   *turns

	// The operations' own context: the end of a connection does not touch it.
	operations context.Context
	cancelAll  context.CancelCauseFunc
}

// New makes a Server that hands every valid call to relay.
func New(relay Relay, options Options) *Server {
	operations, cancelAll := context.WithCancelCause(context.Background())
	s := &Server{
		relay: relay, options: options, calls: newCalls(), turns: newTurns(),
		operations: operations, cancelAll: cancelAll,
		sdk: mcp.NewServer(&mcp.Implementation{Name: serverName, Version: options.Version}, &mcp.ServerOptions{
			Instructions: Instructions(),
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		}),
	}
	for _, t := range table {
		s.sdk.AddTool(sdkTool(t.definition()), func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.handle(ctx, t, request), nil
		})
	}
	s.sdk.AddReceivingMiddleware(answerUnknownTools, onlyTools)
	return s
}

func sdkTool(t Tool) *mcp.Tool {
	return &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint: t.Annotations.ReadOnlyHint, IdempotentHint: t.Annotations.IdempotentHint,
			DestructiveHint: &t.Annotations.DestructiveHint, OpenWorldHint: &t.Annotations.OpenWorldHint,
		},
	}
}

// answerUnknownTools makes a call of an unknown tool a result that a model can read, where the SDK has a protocol error.
func answerUnknownTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if call, ok := request.(*mcp.CallToolRequest); ok && call.Params != nil {
			if _, known := findTool(call.Params.Name); !known {
				return errorResult(fmt.Sprintf("There is no tool %q. Nothing was done. The tools are %s.", short(call.Params.Name), toolNames())), nil
			}
		}
		return next(ctx, method, request)
	}
}

// served are the requests that a server of tools answers. The SDK has an empty answer for prompts and resources, too, which
// would let a client believe in them.
var served = []string{methodInitialize, "ping", "server/discover", methodListen, "tools/list", methodCall}

// onlyTools refuses every other request by the protocol's own error.
func onlyTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if !slices.Contains(served, method) && !strings.HasPrefix(method, "notifications/") {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", method)}
		}
		return next(ctx, method, request)
	}
}

// Serve speaks newline-delimited JSON-RPC over in and out until the transport ends: in is at its end (nil), in or out failed
// (that error), or ctx is done (its cause). It does not cancel calls in flight: their answers are still written while that is
// possible; see Drain and CancelAll. A read of in that blocks stays behind when ctx ends first.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	c := newConn(s.calls, s.turns, s.options.Log, in, out)
	if _, err := s.sdk.Connect(context.WithoutCancel(ctx), c, nil); err != nil {
		return fmt.Errorf("cannot begin to serve: %w", err)
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		c.stop(context.Cause(ctx))
		<-c.ended
	}
	s.options.Log.Info().Str("event", "mcp.transport-ended").AnErr("reason", c.endErr).Send()
	return c.endErr
}

// Drain waits until every call in flight has its answer, or until ctx is done, whose error it then returns. New calls of a
// client that is still served are waited for too.
func (s *Server) Drain(ctx context.Context) error { return s.calls.wait(ctx) }

// CancelAll cancels the contexts of the calls in flight and of those to come. It does not wait for them.
func (s *Server) CancelAll() { s.cancelAll(errSessionEnding) }

// handle answers one call: it is checked, waits for its turn, and runs under a context that ends when the client cancels the
// call or the server cancels all.
func (s *Server) handle(request context.Context, t tool, params *mcp.CallToolRequest) *mcp.CallToolResult {
	began := time.Now()
	place := s.turnOf(params)
	defer place.leave()
	input, err := checkInput(t.input, t.rules, params.Params.Arguments)
	if err != nil {
		s.options.Log.Info().Str("event", "mcp.call-refused").Str("tool", t.name).Send()
		return errorResult(err.Error())
	}
	ctx, cancel := context.WithCancelCause(s.operations)
	defer cancel(nil)
	defer context.AfterFunc(request, func() { cancel(errClientCancelled) })()
	if place.wait(ctx) != nil {
		return errorResult(neverBegan(context.Cause(ctx)))
	}
	result, err := s.run(guest.WithAdmitted(ctx, place.leave), t, input)
	event := s.options.Log.Info().Str("event", "mcp.call-ended").Str("tool", t.name).Int64("durMs", time.Since(began).Milliseconds())
	if err != nil {
		event.Err(err).Send()
		return errorResult(s.cut(errorText(err, context.Cause(ctx), t)))
	}
	event.Bool("failed", result.Failed).Send()
	return s.render(result)
}

// turnOf finds the place that a call took when it was read.
func (s *Server) turnOf(request *mcp.CallToolRequest) *turn {
	if request.Extra == nil {
		return nil
	}
	number, err := strconv.ParseInt(request.Extra.Header.Get(callHeader), 10, 64)
	if err != nil {
		return nil
	}
	if open, ok := s.calls.get(number); ok {
		return open.turn
	}
	return nil
}

// run calls the relay, in a goroutine of its own so that whatever ends it there is an outcome. A panic becomes an error; its
// value and stack go to the log only.
func (s *Server) run(ctx context.Context, t tool, input []byte) (guest.Result, error) {
	type outcome struct {
		result guest.Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		ended := outcome{err: errBroken} // stands unless the call returns
		defer func() {
			if broken := recover(); broken != nil {
				s.options.Log.Error().Str("event", "mcp.call-panicked").Str("tool", t.name).
					Str("reason", fmt.Sprint(broken)).Bytes("stack", debug.Stack()).Send()
			}
			done <- ended
		}()
		result, err := t.call(ctx, s.relay, input)
		ended = outcome{result, err}
	}()
	ended := <-done
	return ended.result, ended.err
}
