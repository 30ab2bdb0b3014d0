package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/evidence/image"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// FinishResult is what relay_finish and relay_release answer. The delivery is absent when a release had nothing to package.
type FinishResult struct {
	Guest    string `json:"guest"`
	Released bool   `json:"released"`
	*Delivered
	DeliveryError string   `json:"deliveryError,omitempty"` // of a release whose packaging failed
	Output        string   `json:"output"`                  // the evidence folder
	Held          []string `json:"held"`                    // the guests that the session still holds; filled by who holds them
}

// Finish extracts the declared outputs, seals and verifies the evidence, and destroys the machine with proof. Until the package is
// sealed every failure keeps the machine and what the host has, and may be repeated. Once it is, only the destruction remains: a
// later Finish neither pulls nor rebuilds anything. A run that is still in progress in the guest is waited for, and after a while the
// finish refused. Cancelling ctx ends the work before the seal, not after it.
func (g *Guest) Finish(ctx context.Context) (Result, error) {
	if g.Gone() {
		return Result{}, Refuse("guest %q is gone", g.name)
	}
	if g.rec().Delivered == nil {
		err := g.deliver(ctx)
		if dead(err) {
			err = Refuse("the machine of guest %q is dead, so nothing more can be brought over from it and it can never be finished: %v; call relay_release, which gives it up and keeps what the host has", g.name, err)
		}
		if err != nil {
			return Result{}, g.fail("finish", unlessRefused(err, "cannot deliver the evidence; the machine is kept, and finish may be called again"))
		}
	}
	if err := g.destroy(ctx, "finished"); err != nil {
		return Result{}, g.fail("finish", fmt.Errorf("the evidence is delivered and verified, but the machine is not proved to be destroyed; call relay_finish again: %w", err))
	}
	r := g.rec()
	return Result{Value: &FinishResult{Guest: g.name, Released: true, Delivered: r.Delivered, Output: r.HostRoot, Held: []string{}}}, nil
}

// deliver brings everything over and seals it.
func (g *Guest) deliver(ctx context.Context) error {
	if !g.rec().Staged {
		return Refuse("guest %q was never staged, so there is nothing to package; call relay_release instead", g.name)
	}
	if err := g.quiet(ctx); err != nil {
		return err
	}
	if err := g.log(eventFinish, "", nil); err != nil {
		return err
	}
	incomplete, err := g.extractAll(ctx)
	if err != nil {
		return err
	}
	if g.rec().FullWorkspace {
		if _, err := g.extractOne(ctx, Declaration{Name: fullWorkspace}); err != nil {
			return fmt.Errorf("cannot export the workspace: %w", err)
		}
	}
	return g.pack(ctx, incomplete)
}

// extractAll extracts every declared output. One that the guest never produced is listed; any other failure is final.
func (g *Guest) extractAll(ctx context.Context) ([]IncompleteExtraction, error) {
	var done []Extraction
	var incomplete []IncompleteExtraction
	for _, d := range g.rec().Extractions {
		one, err := g.extractOne(ctx, d)
		if err == nil {
			done = append(done, one)
			continue
		}
		if !missing(err) {
			return nil, fmt.Errorf("cannot extract %q: %w", d.Name, err)
		}
		if err := g.log(eventExtractionIncomplete, "", map[string]any{"name": d.Name, "path": d.Path, "error": err.Error(), "missing": true}); err != nil {
			return nil, err
		}
		incomplete = append(incomplete, IncompleteExtraction{Name: d.Name, Path: d.Path, Error: err.Error()})
	}
	if len(done) == 0 {
		return incomplete, nil
	}
	return incomplete, g.recordExtractions(done)
}

// pack pulls the recording, merges it with what the host has, seals the folder and records the delivery. An earlier pack that
// sealed and died before its record is found sealed: it is verified, not rebuilt.
func (g *Guest) pack(ctx context.Context, incomplete []IncompleteExtraction) error {
	if !exists(g.rec().host("manifest.json")) {
		if err := g.collectState(ctx); err != nil {
			return err
		}
	}
	g.setSealing(true) // a renewal's event may come beside this
	err := g.seal(ctx, incomplete)
	if err != nil {
		g.setSealing(false)
	}
	return err
}

// seal makes the evidence folder a package and records the delivery. Nothing else may write into the folder.
func (g *Guest) seal(ctx context.Context, incomplete []IncompleteExtraction) error {
	r := g.rec()
	if !exists(r.host("manifest.json")) {
		if err := g.closeRecording(); err != nil {
			return err
		}
		if err := syncTree(r.HostRoot); err != nil {
			return fmt.Errorf("cannot flush the evidence to disk: %w", err)
		}
	}
	id := evidence.Identity{PackageID: "pkg-" + r.Purpose, SessionID: r.SessionID, TaskID: r.Purpose}
	delivery, err := evidence.Seal(ctx, r.HostRoot, id, g.now())
	if err != nil {
		return fmt.Errorf("cannot seal the evidence: %w", err)
	}
	return g.update(func(r *Record) {
		r.Delivered = &Delivered{Delivery: delivery, IncompleteExtractions: incomplete}
		r.LastError = ""
	})
}

// collectState brings the guest's recording into the evidence folder.
func (g *Guest) collectState(ctx context.Context) error {
	r := g.rec()
	staged := filepath.Join(g.attemptDir(), "state")
	_, reused, err := g.pullTree(ctx, treePull{source: r.guest("state"), target: staged, candidates: g.stateCandidates})
	if err != nil {
		return fmt.Errorf("cannot bring the recording over: %w", err)
	}
	if reused > 0 {
		if err := g.log(eventStateReused, "", map[string]any{"files": reused}); err != nil {
			return err
		}
	}
	if err := g.materialize(); err != nil {
		return err
	}
	if err := evidence.Merge(staged, r.host("state"), r.HostRoot+".finalization-attempts/previous"); err != nil {
		return fmt.Errorf("cannot merge the recording: %w", err)
	}
	if err := os.RemoveAll(r.host("host", "steps")); err != nil { // taken up by the state now
		return fmt.Errorf("cannot remove the step folders: %w", err)
	}
	return nil
}

// stateCandidates are host files that may be the same as one of the guest's recording.
func (g *Guest) stateCandidates(fact protocol.Fact) []string {
	r, rel := g.rec(), filepath.FromSlash(fact.Path)
	candidates := []string{r.host("state", rel)}
	if dir, base := filepath.Split(rel); dir == filepath.FromSlash("receiver/receipts/") {
		candidates = append(candidates, r.host("host", "receiver-receipts", base))
	}
	return candidates
}

// materialize writes verified originals of captures to their places in the state that the host has already, so that one the guest
// has lost since is not lost here. All comparisons precede the first write.
func (g *Guest) materialize() error {
	r := g.rec()
	entries, err := g.catalogue().All()
	if err != nil {
		return fmt.Errorf("cannot trust the image catalogue: %w", err)
	}
	originals := make(map[string]image.Entry)
	for _, e := range entries {
		if e.Descriptor.Source != image.Display || e.Recording != r.HostRoot {
			continue
		}
		_, err := g.images().Find(e.ImageID, e.Descriptor)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot trust a saved image: %w", err)
		}
		place := r.host("state", "snapshots", e.Descriptor.SessionID, e.FileName)
		if err := image.CheckFile(place, e.Descriptor); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("a saved image contradicts the recording: %w", err)
		}
		originals[place] = e
	}
	for place, e := range originals {
		if err := makeDir(place); err != nil {
			return err
		}
		if err := image.PublishFile(g.images().Path(e.ImageID, e.Descriptor), place, e.Descriptor); err != nil {
			return fmt.Errorf("cannot keep a saved image: %w", err)
		}
	}
	return nil
}

// closeRecording notes that no run will follow, as the last record before the seal.
func (g *Guest) closeRecording() error {
	r := g.rec()
	record, err := loadRecording(r)
	if err != nil {
		return fmt.Errorf("cannot close the recording: %w", err)
	}
	record.State = "closed"
	return writeInto(r.recordingPath(r.SessionID), record)
}
