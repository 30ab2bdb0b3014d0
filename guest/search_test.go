package guest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

func app(id, name string, aliases ...string) machine.Application {
	if aliases == nil {
		aliases = []string{}
	}
	return machine.Application{ID: id, Name: name, Aliases: aliases}
}

func inventoryOf(image, os string, apps ...machine.Application) machine.ImageInventory {
	return machine.ImageInventory{Image: image, OS: os, Architecture: "arm64", Applications: apps}
}

func catalogueOf(images ...machine.ImageInventory) machine.Catalogue {
	return machine.Catalogue{SchemaVersion: 1, Images: images}
}

// found lists an answer as name@image.
func found(r SearchResult) string {
	var list []string
	for _, a := range r.Applications {
		for _, i := range a.Installations {
			list = append(list, a.Name+"@"+i.Image)
		}
	}
	return strings.Join(list, " ")
}

// 2.1: exact before prefix before substring, over names and aliases; the filter first.
func TestSearchRanksAndFilters(t *testing.T) {
	catalogue := catalogueOf(
		inventoryOf("a-linux", "linux", app("1", "Old Firefox"), app("2", "Firefox", "Browser"), app("3", "Firefox Nightly")),
		inventoryOf("b-mac", "macos", app("2", "Firefox", "Mozilla"), app("4", "Safari", "web browser")),
	)
	for _, test := range []struct {
		name string
		in   SearchInput
		want string
	}{
		{"ranks", SearchInput{Name: " FIREFOX\ufeff"}, "Firefox@a-linux Firefox@b-mac Firefox Nightly@a-linux Old Firefox@a-linux"},
		{"alias", SearchInput{Name: "browser"}, "Firefox@a-linux Firefox@b-mac Safari@b-mac"},
		{"filter", SearchInput{Name: "firefox", OS: "macos"}, "Firefox@b-mac"},
		{"alias of another system", SearchInput{Name: "mozilla", OS: "linux"}, ""},
		{"nothing", SearchInput{Name: "emacs"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.api.SetCatalogue(catalogue)
			result, err := b.session.Search(t.Context(), test.in)
			if err != nil || found(result.Value.(SearchResult)) != test.want {
				t.Errorf("found %v, %v; want %s", result.Value, err, test.want)
			}
			if _, err := os.Stat(b.opt.StateDir); !errors.Is(err, os.ErrNotExist) {
				t.Error("a search made state")
			}
		})
	}
}

// T190: a hundred records are whole, one more is truncated; contradictions are errors.
func TestSearchBoundsAndContradictions(t *testing.T) {
	many := func(n int) machine.Catalogue {
		var apps []machine.Application
		for i := range n {
			apps = append(apps, app(fmt.Sprintf("%03d", i), fmt.Sprintf("app %03d", i)))
		}
		return catalogueOf(inventoryOf("a", "linux", apps...))
	}
	long := many(100)
	for i := range long.Images[0].Applications {
		v := strings.Repeat("v", 256)
		long.Images[0].Applications[i].Version = &v
		long.Images[0].Applications[i].Name = fmt.Sprintf("app %03d %s", i, strings.Repeat("n", 240))
	}
	for _, test := range []struct {
		name      string
		catalogue machine.Catalogue
		truncated bool
		fails     bool
	}{
		{"hundred", many(100), false, false},
		{"one more", many(101), true, false},
		{"bytes", long, true, false},
		{"two names", catalogueOf(inventoryOf("a", "linux", app("1", "app x")), inventoryOf("b", "linux", app("1", "app y"))), false, true},
		{"duplicate", catalogueOf(inventoryOf("a", "linux", app("1", "app x")), inventoryOf("b", "linux", app("1", "app x"))), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.api.SetCatalogue(test.catalogue)
			result, err := b.session.Search(t.Context(), SearchInput{Name: "app"})
			if (err != nil) != test.fails {
				t.Fatalf("error %v, want one: %v", err, test.fails)
			}
			if err == nil && result.Value.(SearchResult).Truncated != test.truncated {
				t.Errorf("truncated %v, want %v", !test.truncated, test.truncated)
			}
		})
	}
}

// 2.2: an unreachable service is a fact of the host probe, not an error, and the facts are kept.
func TestHostProbeReportsFacts(t *testing.T) {
	b := newBench(t)
	result, err := b.session.ProbeHost(t.Context(), []any{"held"})
	if err != nil {
		t.Fatal(err)
	}
	probe := result.Value.(HostProbe)
	if !probe.Relay.Reachable || len(probe.Relay.Images) == 0 || len(probe.Guests) != 1 || probe.Capabilities.Image.DeadlineMs != 90_000 {
		t.Errorf("probe %+v", probe)
	}
	for name, fact := range probe.Local {
		if fact.Value == nil && fact.Diagnostic == "" {
			t.Errorf("%s is unknown without a reason", name)
		}
	}
	b.api.Fail("images", errors.New("connection refused"))
	result, err = b.session.ProbeHost(t.Context(), nil)
	if probe := result.Value.(HostProbe); err != nil || probe.Relay.Reachable || probe.Relay.Diagnostic == "" {
		t.Errorf("probe %+v, %v; want unreachable with its reason", probe.Relay, err)
	}
	if v, err := readHIDIdle(`"HIDIdleTime" = 2500000000`); err != nil || v != 2.5 {
		t.Errorf("idle %v, %v; want 2.5 s", v, err)
	}
}

// T127: the guest probe only looks, before staging and after it.
func TestGuestProbeOnlyLooks(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	for range 2 {
		execs := b.api.Calls("exec")
		result, err := g.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		probe := result.Value.(GuestProbe)
		if n := b.api.Calls("exec") - execs; n != 4 || len(probe.Checks) != 4 || !probe.Checks[0].Ready || probe.CaptureVerified {
			t.Errorf("%d commands, probe %+v", n, probe)
		}
		if !g.rec().Staged {
			b.stage(g, StageInput{})
		}
	}
	if b.api.Calls("push") != 1 { // the runtime's, by staging
		t.Errorf("%d pushes", b.api.Calls("push"))
	}
}
