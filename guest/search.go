package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Bounds of a search answer.
const (
	maxInstallations = 100
	maxSearchBytes   = 50_000
	maxSearchLines   = 1_900
)

// ecmaSpace is what counts as blank in names, whatever Unicode's newest table says.
const ecmaSpace = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"

// SearchResult is what relay_search answers.
type SearchResult struct {
	Applications []FoundApplication `json:"applications"`
	Truncated    bool               `json:"truncated"` // some records were left out for the answer's bounds
}

// FoundApplication is one application with the images that have it.
type FoundApplication struct {
	Name          string         `json:"name"`
	Installations []Installation `json:"installations"`
}

// Installation of an application in one image.
type Installation struct {
	Image        string  `json:"image"`
	Version      *string `json:"version"`
	OS           string  `json:"os"`
	Architecture string  `json:"architecture"`
}

// Search asks the catalogue once and matches on this side. It touches no guest, no lock and no file. An unusable catalogue is an
// error, never an empty answer.
func (s *Session) Search(ctx context.Context, in SearchInput) (Result, error) {
	query := strings.ToLower(strings.Trim(in.Name, ecmaSpace))
	if query == "" || len([]rune(in.Name)) > 256 {
		return Result{}, Refuse("name must have 1 to 256 characters that are not all blank")
	}
	if in.OS != "" && in.OS != "linux" && in.OS != "macos" {
		return Result{}, Refuse("os must be linux or macos")
	}
	catalogue, err := s.opt.API.Applications(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("cannot read the application catalogue: %w", err)
	}
	if err := catalogue.Validate(); err != nil {
		return Result{}, fmt.Errorf("the application catalogue cannot be used: %w", err)
	}
	groups, err := groupApplications(catalogue, in.OS)
	if err != nil {
		return Result{}, fmt.Errorf("the application catalogue cannot be used: %w", err)
	}
	found := boundSearch(match(groups, query))
	return Result{Value: found}, nil
}

// applicationGroup is one application over all images that pass the filter.
type applicationGroup struct {
	id, name      string
	aliases       []string
	installations map[string]Installation
	rank          int
}

// groupApplications joins the inventories by application id. Contradictions are errors; exact duplicates collapse.
func groupApplications(c machine.Catalogue, os string) (map[string]*applicationGroup, error) {
	groups, names, images := make(map[string]*applicationGroup), make(map[string]string), make(map[string]machine.ImageInventory)
	for _, inventory := range c.Images {
		if earlier, seen := images[inventory.Image]; seen && (earlier.OS != inventory.OS || earlier.Architecture != inventory.Architecture) {
			return nil, fmt.Errorf("image %q has two systems", inventory.Image)
		}
		images[inventory.Image] = inventory
		for _, app := range inventory.Applications {
			if name, seen := names[app.ID]; seen && name != app.Name {
				return nil, fmt.Errorf("application %q has two names", app.ID)
			}
			names[app.ID] = app.Name
			if os != "" && inventory.OS != os {
				continue
			}
			if err := addInstallation(groups, inventory, app); err != nil {
				return nil, err
			}
		}
	}
	return groups, nil
}

func addInstallation(groups map[string]*applicationGroup, inventory machine.ImageInventory, app machine.Application) error {
	group := groups[app.ID]
	if group == nil {
		group = &applicationGroup{id: app.ID, name: app.Name, installations: make(map[string]Installation)}
		groups[app.ID] = group
	}
	group.aliases = append(group.aliases, app.Aliases...)
	if earlier, seen := group.installations[inventory.Image]; seen && !sameVersion(earlier.Version, app.Version) {
		return fmt.Errorf("application %q is in image %q twice, differently", app.ID, inventory.Image)
	}
	group.installations[inventory.Image] = Installation{Image: inventory.Image, Version: app.Version, OS: inventory.OS, Architecture: inventory.Architecture}
	return nil
}

func sameVersion(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// match keeps the groups that the query finds: exact before prefix before substring, then by name, in code-point order.
func match(groups map[string]*applicationGroup, query string) []*applicationGroup {
	var found []*applicationGroup
	for _, group := range groups {
		group.rank = 3
		for _, text := range append([]string{group.name}, group.aliases...) {
			group.rank = min(group.rank, rankOf(strings.ToLower(text), query))
		}
		if group.rank < 3 {
			found = append(found, group)
		}
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := found[i], found[j]
		if a.rank != b.rank {
			return a.rank < b.rank
		}
		if la, lb := strings.ToLower(a.name), strings.ToLower(b.name); la != lb {
			return la < lb
		}
		if a.name != b.name {
			return a.name < b.name
		}
		return a.id < b.id
	})
	return found
}

func rankOf(text, query string) int {
	switch {
	case text == query:
		return 0
	case strings.HasPrefix(text, query):
		return 1
	case strings.Contains(text, query):
		return 2
	}
	return 3
}

// boundSearch adds whole installations while they fit, and stops at the first that does not.
func boundSearch(groups []*applicationGroup) SearchResult {
	result, count := SearchResult{Applications: []FoundApplication{}}, 0
	for _, group := range groups {
		images := make([]string, 0, len(group.installations))
		for image := range group.installations {
			images = append(images, image)
		}
		sort.Strings(images)
		for i, image := range images {
			next := result.with(group.name, group.installations[image], i == 0)
			if count++; count > maxInstallations || !fits(next) {
				result.Truncated = true
				return result
			}
			result = next
		}
	}
	return result
}

// with is the result with one more installation, of a new application or of the last one; the receiver stays as it is.
func (r SearchResult) with(name string, one Installation, first bool) SearchResult {
	apps := append([]FoundApplication(nil), r.Applications...)
	if first {
		apps = append(apps, FoundApplication{Name: name})
	}
	last := &apps[len(apps)-1]
	last.Installations = append(append([]Installation(nil), last.Installations...), one)
	return SearchResult{Applications: apps}
}

func fits(r SearchResult) bool {
	data, err := json.MarshalIndent(r, "", "  ")
	return err == nil && len(data) <= maxSearchBytes && strings.Count(string(data), "\n")+1 <= maxSearchLines
}
