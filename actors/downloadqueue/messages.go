package downloadqueue

import "fmt"

// Key names a job: <sessionId>/<executionId>.
type Key string

// End is how a job ended.
type End string

// The ends.
const (
	Downloaded End = "downloaded"
	Failed     End = "failed"
	Cancelled  End = "cancelled"
	Coalesced  End = "coalesced"
)

// Event is a fact that the queue is told.
type Event interface{ event() }

// JobQueued puts a job at the end. A key that is there already, or a queue that is not open, changes nothing.
type JobQueued struct{ Key Key }

// Promoted moves a waiting job to the head, where it runs even while the queue is paused.
type Promoted struct{ Key Key }

// JobEnded says how the transfer of the job in flight ended. Transient goes with Failed: another time it may succeed.
type JobEnded struct {
	Key       Key
	End       End
	Transient bool
}

// Recorded says that the end of a job is on disk, or could not be written, which counts the same.
type Recorded struct{ Key Key }

// OperationEnded says that a call on the guest has succeeded.
type OperationEnded struct{}

// DrainAsked says that finish, release or a reset takes over: what waits is ended at once, and only the one in flight is waited for.
type DrainAsked struct{}

// Reopened says that the operation that drained has ended.
type Reopened struct{}

// Closed says that the process ends: nothing starts and nothing is written any more.
type Closed struct{}

func (JobQueued) event()      {}
func (Promoted) event()       {}
func (JobEnded) event()       {}
func (Recorded) event()       {}
func (OperationEnded) event() {}
func (DrainAsked) event()     {}
func (Reopened) event()       {}
func (Closed) event()         {}

// Effect is an order of the queue. Effects are carried out in the order given.
type Effect interface {
	effect()
	String() string
}

// BeginJob orders the transfer of a job. Exactly one JobEnded must follow, unless the queue closes.
type BeginJob struct{ Key Key }

// RecordEnd orders the end of a job to be written. A Recorded must follow.
type RecordEnd struct {
	Key Key
	End End
}

// WakeWaiters orders calls that wait because the queue is over its bound to go on.
type WakeWaiters struct{}

// Drained orders the operation that drains to go on: nothing is in flight and every end is recorded.
type Drained struct{}

// AbortJob orders the transfer in flight to be given up; what it brought is not published.
type AbortJob struct{ Key Key }

func (BeginJob) effect()    {}
func (RecordEnd) effect()   {}
func (WakeWaiters) effect() {}
func (Drained) effect()     {}
func (AbortJob) effect()    {}

func (e BeginJob) String() string  { return fmt.Sprintf("begin %s", e.Key) }
func (e RecordEnd) String() string { return fmt.Sprintf("record %s %s", e.Key, e.End) }
func (WakeWaiters) String() string { return "wake waiters" }
func (Drained) String() string     { return "drained" }
func (e AbortJob) String() string  { return fmt.Sprintf("abort %s", e.Key) }
