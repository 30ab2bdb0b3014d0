package mcpgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
)

const (
	methodInitialize = "initialize"
	methodCall       = "tools/call"
	methodListen     = "subscriptions/listen"
	methodCancelled  = "notifications/cancelled"

	// callHeader carries the number of a call from the connection to the handler.
	callHeader = "Relay-Call"
)

// conn is one client over a pair of streams, as a connection of the SDK. It takes from the SDK what would end a session for no
// good reason: a bad line is answered and skipped, the end of input is passed on only when every call has its answer, and an
// answer that cannot be written ends the transport, not the calls.
type conn struct {
	calls *calls
	turns *turns
	log   zerolog.Logger

	lines  chan readResult // from the goroutine that reads
	queue  []*jsonrpc.Request
	ended  chan struct{} // closed when no more is read; endErr says why
	endErr error
	end    sync.Once

	closed    chan struct{}
	closeOnce sync.Once
	answered  chan struct{} // holds one token after an answer

	writing sync.Mutex // guards out and broken
	out     io.Writer
	broken  bool

	mu          sync.Mutex // guards what follows
	initialized bool
	byID        map[string]*call // by the client's id
}

type readResult struct {
	line line
	err  error
}

func newConn(calls *calls, turns *turns, log zerolog.Logger, in io.Reader, out io.Writer) *conn {
	c := &conn{
		calls: calls, turns: turns, log: log, out: out,
		lines: make(chan readResult), ended: make(chan struct{}), closed: make(chan struct{}), answered: make(chan struct{}, 1),
		byID: map[string]*call{},
	}
	go c.readLines(newLineReader(in, maxLine))
	return c
}

// readLines runs on its own because a read of a pipe cannot be interrupted. It stops at the end of the stream, or after one
// more line once nobody listens.
func (c *conn) readLines(in *lineReader) {
	for {
		l, err := in.next()
		select {
		case c.lines <- readResult{l, err}:
		case <-c.ended:
			return
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Connect makes conn a transport of its own.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID is empty: there is one session per pair of streams.
func (c *conn) SessionID() string { return "" }

// Close ends the connection. Calls are not waited for.
func (c *conn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	c.stop(nil)
	return nil
}

// stop ends the reading side, once; the first reason stands.
func (c *conn) stop(why error) {
	c.end.Do(func() {
		c.endErr = why
		close(c.ended)
	})
}

// Read returns the next message for the SDK. After the end of input it returns io.EOF only when every call that came in has
// been answered, because the SDK cancels and drops what is in flight at that moment.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			return next, nil
		}
		select {
		case got := <-c.lines:
			c.take(got)
			continue
		case <-c.ended:
		case <-c.closed:
		case <-ctx.Done():
		}
		return nil, c.settle(ctx)
	}
}

// take turns one line into messages for the SDK and answers what is none.
func (c *conn) take(got readResult) {
	if got.err != nil {
		if errors.Is(got.err, io.EOF) {
			got.err = nil
		}
		c.stop(got.err)
		return
	}
	messages, refusals := readLine(got.line)
	for _, bad := range refusals {
		c.log.Warn().Str("event", "mcp.refused-message").Str("reason", bad.error.Message).Int("bytes", len(got.line.data)).Send()
		c.answer(bad.id, nil, bad.error)
	}
	for _, message := range messages {
		if request := c.accept(message); request != nil {
			c.queue = append(c.queue, request)
		}
	}
}

// settle waits for the answers of this connection's calls, then reports the end.
func (c *conn) settle(ctx context.Context) error {
	for c.waiting() {
		select {
		case <-c.answered:
		case <-c.closed:
			return io.EOF
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return io.EOF
}

func (c *conn) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range c.byID {
		if !open.parked {
			return true
		}
	}
	return false
}

// accept makes a request of the SDK out of a message, under an id of the server's own. It returns nil for what the SDK need
// not see.
func (c *conn) accept(message envelope) *jsonrpc.Request {
	if message.method == methodCancelled && message.id == nil {
		return c.acceptCancel(message)
	}
	if message.id == nil {
		return &jsonrpc.Request{Method: message.method, Params: message.params}
	}
	key := idKey(message.id)
	c.mu.Lock()
	_, taken := c.byID[key]
	early := !c.initialized
	c.initialized = c.initialized || message.method == methodInitialize
	c.mu.Unlock()
	if taken {
		c.answer(nil, nil, refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf(
			"the id %s belongs to a call that is still open; the second request with it was not read", short(string(message.id)))).error)
		return nil
	}
	if message.method == methodCall {
		if fault := callFault(message.params); fault != "" {
			c.answerTool(message.id, (&inputError{problems: []string{fault}}).Error())
			return nil
		}
	}
	opened := &call{id: message.id, early: early, tool: message.method == methodCall, parked: message.method == methodListen}
	if opened.tool {
		opened.turn = c.turns.take(guestOf(message.params))
	}
	c.calls.add(opened)
	c.mu.Lock()
	c.byID[key] = opened
	c.mu.Unlock()
	number := strconv.FormatInt(opened.number, 10)
	return &jsonrpc.Request{
		ID: sdkID(opened.number), Method: message.method, Params: message.params,
		Extra: &mcp.RequestExtra{Header: http.Header{callHeader: {number}}},
	}
}

// callFault says what keeps the params of a tool call from being read as such. The SDK has a protocol error for these, which
// a model does not get to see.
func callFault(params json.RawMessage) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil || members == nil {
		return "params: is not an object; send an object with name and arguments"
	}
	if name := members["name"]; len(name) == 0 || name[0] != '"' {
		return "name: is not a string; send the name of a tool"
	}
	return ""
}

// answerTool answers a tool call that the SDK never handled with an error result.
func (c *conn) answerTool(id json.RawMessage, message string) {
	raw, err := encodeJSON(errorResult(message))
	if err != nil {
		c.answer(id, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: message})
		return
	}
	c.answer(id, raw, nil)
}

// acceptCancel translates the id of the call to be cancelled; one that is not open needs no cancelling.
func (c *conn) acceptCancel(message envelope) *jsonrpc.Request {
	var params map[string]json.RawMessage
	if json.Unmarshal(message.params, &params) != nil || !usableID(params["requestId"]) {
		return nil
	}
	c.mu.Lock()
	open, ok := c.byID[idKey(params["requestId"])]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	params["requestId"] = json.RawMessage(strconv.FormatInt(open.number, 10))
	raw, err := json.Marshal(params)
	if err != nil {
		return nil
	}
	return &jsonrpc.Request{Method: methodCancelled, Params: raw}
}

// guestOf reads the guest that a call names, if any; its check comes later.
func guestOf(params json.RawMessage) string {
	var named struct {
		Arguments struct {
			Guest string `json:"guest"`
		} `json:"arguments"`
	}
	if json.Unmarshal(params, &named) != nil {
		return ""
	}
	return named.Arguments.Guest
}

// sdkID makes the SDK's form of a number; every integer below 2^53 has one.
func sdkID(number int64) jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(number))
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}

// Write sends one message of the SDK. It reports no failure to the SDK, which would cancel every call: the end of the
// transport is told by stop.
func (c *conn) Write(_ context.Context, message jsonrpc.Message) error {
	response, ok := message.(*jsonrpc.Response)
	if !ok {
		raw, err := jsonrpc.EncodeMessage(message)
		if err != nil {
			return err
		}
		c.writeLine(raw)
		return nil
	}
	number, _ := response.ID.Raw().(int64)
	open, ok := c.calls.get(number)
	if !ok {
		return nil
	}
	if open.tool && errors.Is(response.Error, context.Canceled) {
		c.answerTool(open.id, "the call was cancelled before it began\n"+nothingDone+" It may be sent again.")
	} else {
		c.answer(open.id, response.Result, wireError(response.Error, open.early))
	}
	c.mu.Lock()
	delete(c.byID, idKey(open.id))
	c.mu.Unlock()
	c.calls.remove(open)
	select {
	case c.answered <- struct{}{}:
	default:
	}
	return nil
}

// wireError gives every error a code of JSON-RPC; the SDK leaves some at 0.
func wireError(err error, early bool) *jsonrpc.Error {
	if err == nil {
		return nil
	}
	var coded *jsonrpc.Error
	switch {
	case errors.As(err, &coded) && coded.Code != 0:
		return &jsonrpc.Error{Code: coded.Code, Message: err.Error(), Data: coded.Data}
	case early:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	default:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
}

// answer writes a response under the client's own id.
func (c *conn) answer(id, result json.RawMessage, failure *jsonrpc.Error) {
	response := schema{{"jsonrpc", "2.0"}, {"id", id}}
	if failure != nil {
		response = append(response, schemaMember{"error", failure})
	} else {
		response = append(response, schemaMember{"result", result})
	}
	raw, err := encodeJSON(response)
	if err != nil {
		c.log.Error().Str("event", "mcp.unwritable-answer").Err(err).Send()
		return
	}
	c.writeLine(raw)
}

// writeLine writes one whole line. The first failure ends the transport; after it nothing is written.
func (c *conn) writeLine(raw []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.broken {
		return
	}
	if _, err := c.out.Write(append(bytes.TrimRight(raw, "\n"), '\n')); err != nil {
		c.broken = true
		c.stop(fmt.Errorf("cannot write to the client: %w", err))
	}
}
