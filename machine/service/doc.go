// Package service is machine-service: it leases disposable machines over loopback HTTP, and takes back what nobody renews.
//
// It is the backstop for the death of every other process, so its own death must not matter: each change of a lease is on
// disk before it is acted on, machines outlive the service, and the next one to start re-adopts or clears them.
//
// Locks. The store's commit lock covers one change of state.json; nothing else is done under it. Each machine has two
// queues, one for commands and one for transfers, and a teardown token; no lock is ever held while a driver works, except
// that token, which only other teardowns of the same machine wait for.
package service
