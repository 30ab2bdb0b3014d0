// Package receiver is what runs inside a guest: the verbs that carry files for the host, and the receiver proper, which
// admits one request, dispatches its script at most once between two pictures of the screen, and writes down all of it.
//
// It is a program of its own (Main), started anew for every request, with nothing in memory that a later one needs. What
// must outlive a crash is on disk before the effect it allows:
//
//	claim (receiver/started)  before any answer for an execution id, created exclusively: it burns the id
//	owner record              before the dispatch, and again with the script's identity once that is known
//	journal                   the intent before the capture, the admission before the dispatch
//	receipt                   last; a later request with the same id and bytes gets it back, whatever happened since
//
// One run at a time holds the lock, an flock that dies with its process. The next holder reads the owner record of one that
// did not settle, ends what that left running and closes its books: refused when it cannot have dispatched, uncertain else.
//
// The package depends on the evidence formats and on nothing of the host's side: no HTTP, no actors, no MCP.
package receiver
