package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// restage is a staging of a guest that is staged already: what the guest was given is looked at, a runtime that is gone or altered is
// pushed again, and what is lost for good is said.
func (g *Guest) restage(ctx context.Context, in StageInput) (StageResult, error) {
	if err := g.correct(in); err != nil {
		return StageResult{}, err
	}
	target, err := g.target(ctx, in.CuaDriver)
	if err != nil {
		return StageResult{}, err
	}
	hello, err := g.repairRuntime(ctx, target)
	if err != nil {
		return StageResult{}, err
	}
	lost, err := g.lostInGuest(ctx)
	if err == nil {
		err = g.makeGuestDirs(ctx)
	}
	if err != nil {
		return StageResult{}, err
	}
	result := g.stageResult(nil, hello)
	if lost == "" {
		return result, nil
	}
	result.Staged, result.Lost = false, lost
	if err := g.log(eventStageLost, "", map[string]any{"lost": lost}); err != nil {
		return StageResult{}, err
	}
	return result, g.update(func(r *Record) { r.LastError = lost })
}

// repairRuntime makes sure that the guest has the runtime it is to have. Only a service that does not answer is an error.
func (g *Guest) repairRuntime(ctx context.Context, target guestTarget) (*protocol.Hello, error) {
	_, fact, err := g.localRuntime(target)
	if err != nil {
		return nil, err
	}
	var hello protocol.Hello
	err = g.verb(ctx, fact.Bytes, &hello, protocol.VerbHello)
	if err == nil && hello.SHA256 == fact.SHA256 {
		return &hello, nil
	}
	var silent *runtimeError
	var failure *protocol.Failure
	if err != nil && !errors.As(err, &silent) && !errors.As(err, &failure) {
		return nil, err
	}
	// A replaced runtime may be a folder or a link, which a push would follow.
	if err := g.plain(ctx, "/bin/rm", "-rf", g.rec().guest(protocol.RuntimeName)); err != nil {
		return nil, err
	}
	if err := g.plain(ctx, "/bin/mkdir", "-p", "-m", "700", g.rec().GuestRoot); err != nil {
		return nil, err
	}
	pushed, err := g.pushRuntime(ctx, target)
	if err != nil {
		return nil, fmt.Errorf("the guest's runtime was gone or altered, and it cannot be pushed again: %w", err)
	}
	return pushed, g.log(eventRuntimeRepaired, "", map[string]any{"runtime": pushed})
}

// lostInGuest says in words what the guest was given or recorded and has no more, or "".
func (g *Guest) lostInGuest(ctx context.Context) (string, error) {
	r := g.rec()
	var lost []string
	noWorkspace, err := g.absent(ctx, r.workspace())
	if err != nil {
		return "", err
	}
	if noWorkspace {
		lost = append(lost, "the workspace and the support files with all that was in them; write again what is needed with a script")
	}
	recorded, err := g.recorded()
	if err != nil {
		return "", err
	}
	noJournal := false
	if recorded {
		noJournal, err = g.absent(ctx, r.guest("state/journal/events.jsonl"))
	}
	if err != nil {
		return "", err
	}
	if noJournal {
		lost = append(lost, "the recording with its journal, so relay_finish cannot bring the guest's journal of the runs before; the host's copies of "+
			"requests, receipts and saved pictures remain in "+r.HostRoot+" and stay there after relay_release")
	}
	if len(lost) == 0 {
		return "", nil
	}
	return "the guest's files were deleted; its runtime is in place again and scripts run, but these are lost: " + strings.Join(lost, "; and "), nil
}

// recorded says that a receiver in the guest has answered a run, so that there must be a journal.
func (g *Guest) recorded() (bool, error) {
	receipts, err := os.ReadDir(g.rec().host("host", "receiver-receipts"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	for _, receipt := range receipts {
		if filepath.Ext(receipt.Name()) == ".json" {
			return true, nil
		}
	}
	return false, err
}

// absent says that a guest file or folder is not there.
func (g *Guest) absent(ctx context.Context, path string) (bool, error) {
	_, err := g.measure(ctx, path)
	switch {
	case missing(err):
		return true, nil
	case err != nil:
		var failure *protocol.Failure
		if errors.As(err, &failure) {
			return false, nil // it is there, whatever is wrong inside
		}
		return false, err
	}
	return false, nil
}
