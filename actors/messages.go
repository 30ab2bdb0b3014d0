package actors

import (
	"github.com/seed-1e4c9d81/mcp-relay/actors/callqueue"
	"github.com/seed-1e4c9d81/mcp-relay/actors/exitpolicy"
	"github.com/seed-1e4c9d81/mcp-relay/actors/leaseclock"
	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// Messages to the lane of a guest.
type (
	// callSubmitted puts a call behind those that came before.
	callSubmitted struct{ call *call }
	// callCancelled says that the caller does not wait any more.
	callCancelled struct {
		id    callqueue.CallID
		cause error
	}
	// workEnded is the end of a call's work.
	workEnded struct {
		lane   *lane
		id     callqueue.CallID
		result outcome
	}
	// laneDue says that the time has come that the queue wants to be told of.
	laneDue struct{}
	// settleAsked ends the lane with one last call.
	settleAsked struct{ choice exitpolicy.Choice }
	// cutOff cancels what is in flight.
	cutOff struct{}
	// doubtRaised asks for a comparison with machine-service, in its turn.
	doubtRaised struct{ reason string }
)

// Fail answers a call whose lane had ended before it came.
func (m callSubmitted) Fail(error) { m.call.answer(m.call.lost(nil)) }

// Fail sees to what the end of the work means when the lane that began it is no more.
func (m workEnded) Fail(error) { m.lane.retire() }

// Messages to the lease actor of a guest.
type (
	// operationBegan keeps the lease alive from now on.
	operationBegan struct{ lease guest.LeaseView }
	// beatEnded is the answer to a beat.
	beatEnded struct{ event leaseclock.Event }
	// saved says that the record's word on the renewing is durable, or why not.
	saved struct{ err error }
	// leaseDue says that the time has come that the clock wants to be told of.
	leaseDue struct{}
	// pauseAsked asks for the last renewal; the answer is whether the record says so.
	pauseAsked struct {
		reason string
		reply  Reply[error]
	}
	// renewingStopped ends the renewing without a last renewal.
	renewingStopped struct{ reason string }
	// leaseGone says that there is nothing left to renew.
	leaseGone struct{}
)

// Messages to the session.
type (
	// acquireAsked takes a slot and makes a guest; the answer is its name.
	acquireAsked struct {
		call *pendingAcquire
	}
	// guestCreated is the end of making a guest.
	guestCreated struct {
		call *pendingAcquire
		name string
		err  error
	}
	// laneAsked makes sure that a guest is owned and has its actors.
	laneAsked struct {
		name  string
		reply Reply[error]
	}
	// guestOpened is the end of opening a guest that was found on disk.
	guestOpened struct {
		name string
		err  error
	}
	// guestGone says that a guest is no more.
	guestGone struct{ name string }
	// treeStarted says that the actors of a guest are up, or why not.
	treeStarted struct {
		name string
		tree Ref
		err  error
	}
	// endAsked ends the session; the answer is the exit code.
	endAsked struct {
		trigger string
		reply   Reply[int]
	}
	// guestSettled says how settling a guest at the session's end went.
	guestSettled struct {
		name string
		err  error
	}
	// nothing is the end of work that leaves nothing to say.
	nothing struct{}
	// policyDue says that the time has come that the exit policy wants to be told of.
	policyDue struct{}
)

// Messages to the board.
type (
	// statusAsked asks what relay_status shows.
	statusAsked struct{ reply Reply[guest.StatusResult] }
)
