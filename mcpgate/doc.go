// Package mcpgate is the gateway between an MCP client and the relay: the table of tools, the strict check of every call,
// the results and error texts that a model reads, and the server on a pair of streams. It does no work itself; whoever
// does satisfies Relay.
package mcpgate
