// Package wire is what the driver and the init of a guest say to each other over the guest's socket: frames of a kind,
// a length and a body. One connection carries one request, which names the guest's nonce; content travels as a stream
// whose end carries its length and SHA-256, so that a cut stream is never taken for a whole one.
package wire
