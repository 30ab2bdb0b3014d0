package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// fullWorkspace is the reserved name of the opt-in export of the whole workspace.
const fullWorkspace = "full-workspace"

// Extraction is one declared output as it was brought over.
type Extraction struct {
	Path        string          `json:"path"`
	Name        string          `json:"name"`
	Destination string          `json:"destination"`
	Facts       []protocol.Fact `json:"facts"`
}

// Extract brings declared outputs over, each to a fresh place, so that earlier copies stay. It may be repeated.
func (g *Guest) Extract(ctx context.Context, in ExtractInput) (Result, error) {
	list, err := g.extract(ctx, in.Names)
	if err != nil {
		return Result{}, g.fail("extract", err)
	}
	return Result{Value: list}, nil
}

func (g *Guest) extract(ctx context.Context, names []string) ([]Extraction, error) {
	if err := g.sealed(); err != nil {
		return nil, err
	}
	wanted := make([]Declaration, 0, len(names))
	for _, name := range names {
		d, ok := g.declared(name)
		if !ok {
			return nil, Refuse("the output %q was not declared when guest %q was acquired; nothing was extracted", name, g.name)
		}
		wanted = append(wanted, d)
	}
	list := []Extraction{}
	if len(wanted) == 0 {
		return list, nil
	}
	if err := g.ready(); err != nil {
		return nil, err
	}
	for _, d := range wanted {
		one, err := g.extractOne(ctx, d)
		if err != nil {
			return nil, Repeatable(fmt.Errorf("cannot extract %q, the machine is kept: %w", d.Name, err)) // even a refusal: others may be out already
		}
		list = append(list, one)
	}
	return list, g.recordExtractions(list)
}

func (g *Guest) declared(name string) (Declaration, bool) {
	for _, d := range g.rec().Extractions {
		if d.Name == name {
			return d, true
		}
	}
	return Declaration{}, false
}

// recordExtractions keeps what one call extracted, as a record and an event.
func (g *Guest) recordExtractions(list []Extraction) error {
	id := newUUID()
	record := struct {
		Extractions []Extraction `json:"extractions"`
	}{list}
	if err := writeInto(g.rec().host("host", "extractions", id+".json"), record); err != nil {
		return fmt.Errorf("cannot record the extraction: %w", err)
	}
	return g.log(eventExtract, "", map[string]any{"record": id, "count": len(list)})
}

// extractOne pulls one output aside and then moves it into the evidence, whole.
func (g *Guest) extractOne(ctx context.Context, d Declaration) (Extraction, error) {
	source := g.rec().workspace()
	if d.Path != "" {
		source += "/" + d.Path
	}
	attempt := g.attemptDir()
	staged := filepath.Join(attempt, "extraction")
	to := g.rec().host("extractions", d.Name, newUUID())
	err := errors.Join(makeDir(staged), makeDir(to))
	var facts []protocol.Fact
	if err == nil {
		facts, _, err = g.pullTree(ctx, treePull{source: source, target: staged, names: true})
	}
	if err == nil {
		err = os.Rename(staged, to)
	}
	if err == nil {
		err = syncPath(filepath.Dir(to))
	}
	return Extraction{Path: d.Path, Name: d.Name, Destination: to, Facts: facts}, errors.Join(err, os.RemoveAll(attempt))
}

// attemptDir is a fresh folder beside the evidence, for what is not part of it yet.
func (g *Guest) attemptDir() string {
	return filepath.Join(g.rec().HostRoot+".finalization-attempts", newUUID())
}
