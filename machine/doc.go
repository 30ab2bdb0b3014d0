// Package machine is the client of machine-service: wire types, typed errors, and the proof that a machine is destroyed.
//
// Use New for a client; it implements API, as does the in-process service of package fake. Sort errors with Refused,
// Indeterminate and Transient, and with errors.Is against the sentinels of this package. A machine counts as destroyed
// only when Release succeeded, or Get says ErrUnknownMachine, and a Witness no longer lists it.
package machine
