package guest

import (
	"context"
	"errors"
	"fmt"
)

// Release abandons the guest: it keeps what evidence can be had, and destroys the machine with proof whatever becomes of the
// evidence. ctx bounds the work on the evidence only; with one that is over already the machine is destroyed at once. It may be
// repeated after a failure.
func (g *Guest) Release(ctx context.Context) (Result, error) {
	if g.Gone() {
		return Result{}, Refuse("guest %q is gone", g.name)
	}
	_ = g.log(eventRelease, "", nil) // an event log that fails never stops a destruction
	var lost error
	if r := g.rec(); r.Staged && r.Delivered == nil {
		lost = g.salvage(ctx)
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

// salvage packages what can be had: outputs and workspace each on its own, then the recording.
func (g *Guest) salvage(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("there was no time left to bring the evidence over: %w", err)
	}
	var done []Extraction
	var incomplete []IncompleteExtraction
	for _, d := range g.rec().Extractions {
		one, err := g.extractOne(ctx, d)
		if err == nil {
			done = append(done, one)
			continue
		}
		incomplete = append(incomplete, IncompleteExtraction{Name: d.Name, Path: d.Path, Error: err.Error()})
		_ = g.log(eventExtractionIncomplete, "", map[string]any{"name": d.Name, "path": d.Path, "error": err.Error(), "missing": missing(err)})
	}
	if len(done) > 0 {
		if err := g.recordExtractions(done); err != nil {
			return err
		}
	}
	if g.rec().FullWorkspace {
		if _, err := g.extractOne(ctx, Declaration{Name: fullWorkspace}); err != nil {
			_ = g.log(eventWorkspaceIncomplete, "", map[string]any{"error": err.Error()})
		}
	}
	return g.pack(ctx, incomplete)
}
