package guest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// How long a finish waits for a run that is still in progress in the guest.
const (
	quietWait  = 30 * time.Second
	quietSlack = 15 * time.Second // for the answer; a command sent before that has not ended takes longer
)

// quiet waits for a run that nobody here waits for any more: that of a relay or a machine-service that died. The service takes one
// command at a time, but forgets those it had when it dies; the receiver's lock tells in any case. An error means that one is in
// progress still, or that this cannot be told; nothing was changed.
func (g *Guest) quiet(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, quietWait+quietSlack)
	defer cancel()
	var idle protocol.Idle
	err := g.idle(bounded, &idle, 0)
	if err == nil && idle.Busy {
		err = g.idle(bounded, &idle, quietWait)
	}
	var failure *protocol.Failure
	switch {
	case errors.As(err, &failure) && failure.Code == protocol.CodeInvalid:
		return nil // a guest that was staged before its runtime knew the verb
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		return g.stillRuns(firstOf(g.unsettled(), "a command that was sent before"))
	case err != nil:
		return fmt.Errorf("cannot tell whether a run is in progress in the guest: %w", err)
	case idle.Busy:
		return g.stillRuns(firstOf(idle.ExecutionID, g.unsettled(), "a run that is not known here"))
	}
	return nil
}

// idle asks whether a run is in progress, and lets the guest wait for its end.
func (g *Guest) idle(ctx context.Context, answer *protocol.Idle, wait time.Duration) error {
	*answer = protocol.Idle{}
	return g.verbWithin(ctx, verbShort+wait, answer, protocol.VerbIdle, g.rec().GuestRoot, strconv.FormatInt(wait.Milliseconds(), 10))
}

func (g *Guest) stillRuns(what string) error {
	return Refuse("guest %q is still busy with %s, so nothing was changed; wait for its end and call relay_finish again, or call relay_release to give it up", g.name, what)
}

// unsettled is the latest execution whose outcome is not known here, or "".
func (g *Guest) unsettled() string {
	r := g.rec()
	record, err := loadRecording(r)
	if err != nil || len(record.Executions) == 0 {
		return ""
	}
	last := record.Executions[len(record.Executions)-1]
	var s submission
	if err := readJSON(r.submissionPath(r.SessionID, last), &s); err != nil {
		return ""
	}
	if s.State == stateCompleted || s.Outcome != nil && s.Outcome.Kind == protocol.Refused {
		return ""
	}
	return last
}

// dead says that the machine is known to the service and runs no more.
func dead(err error) bool {
	var answer *machine.Error
	return errors.As(err, &answer) && answer.Code == machine.CodeMachineGone
}
