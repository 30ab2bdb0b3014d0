package receiver

// The durable points of a run, in order, as Options.Hook sees them. A receiver that dies at any of them leaves a recording
// that the next one can go on with, and a script that ran at most once.
const (
	pointOwned      = "owned"      // owner record: admission
	pointClaimed    = "claimed"    // the id is burnt
	pointRouted     = "routed"     // the reason is in the journal
	pointVerified   = "verified"   // execution-start is in the journal
	pointBegun      = "begun"      // action-start and the action record
	pointIntended   = "intended"   // capture-intent (each capture)
	pointPhotograph = "photograph" // the picture is stored, not yet journaled (each capture)
	pointCaptured   = "captured"   // snapshot-captured (each capture)
	pointDispatch   = "dispatch"   // owner record: dispatch; the script starts next
	pointStarted    = "started"    // the script runs and its identity is on record
	pointEnded      = "ended"      // the script ended; nothing of it is recorded yet
	pointCompleted  = "completed"  // action-completion and the action record
	pointRetained   = "retained"   // execution-completion
	pointAnswered   = "answered"   // receipt
	pointSettled    = "settled"    // owner record: settled
)
