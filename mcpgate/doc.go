// Package mcpgate is the gateway between an MCP client and the relay: the table of tools, the strict check of every call,
// the results and error texts that a model reads, and the server on a pair of streams. It does no work itself: whoever does
// satisfies Relay.
//
//	server := mcpgate.New(relay, mcpgate.Options{Version: version, Log: log, ResultDir: dir})
//	err := server.Serve(ctx, os.Stdin, os.Stdout) // returns when the transport has ended
//	server.Drain(grace)                           // calls in flight end by themselves
//	server.CancelAll()                            // or are told to
//
// What it guarantees:
//
//   - A call that its input alone makes wrong is answered with an error result before anything else happens: nothing of it
//     reaches the relay. The schema that a client sees and the check are made from one description (object.go, shape.go).
//   - Every call gets exactly one answer under the client's own id, as long as the client reads. A bad line is answered and
//     skipped; it ends nothing.
//   - Calls that name one guest reach the relay in the order in which they came; others do not wait for them. The relay says
//     with guest.Admitted when a call has its place, and the next follows then, or else at its end.
//   - The end of input and a client that no longer reads end the transport, not the calls: their contexts end only when the
//     client cancels the call or CancelAll is called.
//   - Only JSON-RPC is written to the client, one whole line at a time.
//   - What a model reads about an error is made in errors.go alone: what happened, whether it may have run, what to do next and
//     whether to try again.
//
// Lengths of human texts count code points; the size of code counts UTF-8 bytes.
package mcpgate
