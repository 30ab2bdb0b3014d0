package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// salvageTime bounds all the work of a release on the evidence. A script that nobody waits for any more may have the guest for an hour.
const salvageTime = 30 * time.Second

var errSalvageTime = fmt.Errorf("a release takes %v for it", salvageTime)

// Release abandons the guest: it keeps what evidence can be had, and destroys the machine with proof whatever becomes of the
// evidence. ctx bounds the work on the evidence only, which takes half a minute at most; with one that is over already the machine is
// destroyed at once. It may be repeated after a failure.
func (g *Guest) Release(ctx context.Context) (Result, error) {
	if g.Gone() {
		return Result{}, Refuse("guest %q is gone", g.name)
	}
	unlogged := g.log(eventRelease, "", nil) // an event log that fails is reported and never stops a destruction
	var lost error
	if r := g.rec(); r.Staged && r.Delivered == nil {
		lost = errors.Join(unlogged, g.salvage(ctx))
	}
	if lost != nil {
		fact := struct {
			Guest string `json:"guest"`
			At    string `json:"at"`
			Error string `json:"error"`
		}{g.name, isoTime(g.now()), lost.Error()}
		if err := writeInto(g.rec().HostRoot+".delivery-error.json", fact); err != nil {
			lost = errors.Join(lost, err)
		}
	}
	if err := g.destroy(ctx, "released"); err != nil {
		return Result{}, g.fail("release", fmt.Errorf("the machine is not proved to be destroyed; call relay_release again: %w", err))
	}
	r := g.rec()
	result := &FinishResult{Guest: g.name, Released: true, Delivered: r.Delivered, Output: r.HostRoot, Held: []string{}}
	if lost != nil {
		result.DeliveryError = lost.Error()
	}
	return Result{Value: result}, nil
}

// salvage packages what can be had in time: outputs and workspace each on its own, then the recording. The error says what was left
// when the time was over.
func (g *Guest) salvage(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, salvageTime, errSalvageTime)
	defer cancel()
	incomplete, left, err := g.salvageOutputs(ctx)
	if err != nil {
		return err
	}
	if g.rec().FullWorkspace && !g.salvageWorkspace(ctx) {
		left = append(left, "the workspace")
	}
	err = ctx.Err()
	if err == nil {
		err = g.pack(ctx, incomplete)
	}
	if err == nil || ctx.Err() == nil {
		return err
	}
	left = append(left, "the sealed recording")
	return fmt.Errorf("there was no time left for all of the evidence (%w); not brought over: %s", context.Cause(ctx), strings.Join(left, ", "))
}

// salvageOutputs answers the outputs that were not brought over, for the package and in words.
func (g *Guest) salvageOutputs(ctx context.Context) (incomplete []IncompleteExtraction, left []string, err error) {
	var done []Extraction
	for _, d := range g.rec().Extractions {
		one, err := Extraction{}, context.Cause(ctx)
		if err == nil {
			one, err = g.extractOne(ctx, d)
		}
		if err == nil {
			done = append(done, one)
			continue
		}
		incomplete = append(incomplete, IncompleteExtraction{Name: d.Name, Path: d.Path, Error: err.Error()})
		left = append(left, fmt.Sprintf("the output %q", d.Name))
		_ = g.log(eventExtractionIncomplete, "", map[string]any{"name": d.Name, "path": d.Path, "error": err.Error(), "missing": missing(err)})
	}
	if len(done) > 0 {
		err = g.recordExtractions(done)
	}
	return incomplete, left, err
}

func (g *Guest) salvageWorkspace(ctx context.Context) bool {
	err := context.Cause(ctx)
	if err == nil {
		_, err = g.extractOne(ctx, Declaration{Name: fullWorkspace})
	}
	if err != nil {
		_ = g.log(eventWorkspaceIncomplete, "", map[string]any{"error": err.Error()})
	}
	return err == nil
}
