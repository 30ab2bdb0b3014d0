package admission

import "github.com/seed-1e4c9d81/mcp-relay/guest/protocol"

// Claim is the content of receiver/started/<executionId>.json. Whoever creates that file, exclusively, may answer for the
// id; nobody else ever may again.
type Claim struct {
	ExecutionID   string `json:"executionId"`
	RequestSHA256 string `json:"requestSha256"`
	Refused       string `json:"refused,omitempty"` // the reason, when the id was claimed only to refuse it
}

// Known is what the guest's state holds under a request's execution id.
type Known struct {
	Claim   *Claim
	Receipt *protocol.Receipt
	Locked  bool // asked under the receiver's lock: no other receiver is at work
}

// Verdict on a request by what is known of its id.
type Verdict string

// Verdicts.
const (
	Admit      Verdict = "admit"       // nothing is known: claim the id and go on
	Answer     Verdict = "answer"      // give the stored receipt back
	OtherBytes Verdict = "other-bytes" // refuse: the id belongs to another request; write nothing
	Refused    Verdict = "refused"     // the id was claimed to refuse it: refuse again, durably
	Running    Verdict = "running"     // uncertain: claimed, and its receiver may be at work; write nothing
	Lost       Verdict = "lost"        // uncertain, durably: claimed by a receiver that died before its receipt
)

// Judge decides about a request whose bytes hash to requestSHA256. A receipt or claim of older receivers may lack the hash;
// it is taken for the same request.
func Judge(requestSHA256 string, known Known) Verdict {
	other := func(sum string) bool { return sum != "" && sum != requestSHA256 }
	switch c, r := known.Claim, known.Receipt; {
	case c != nil && other(c.RequestSHA256), r != nil && other(r.RequestSHA256):
		return OtherBytes
	case r != nil:
		return Answer
	case c == nil:
		return Admit
	case c.Refused != "":
		return Refused
	case known.Locked:
		return Lost
	}
	return Running
}
