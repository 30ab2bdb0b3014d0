package guest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

const checkTimeout = 10 * time.Second // of one read-only check in the guest

// HostProbe is what relay_probe answers for the host.
type HostProbe struct {
	Scope        string             `json:"scope"`
	ObservedAt   string             `json:"observedAt"`
	Local        map[string]Fact    `json:"local"`
	Relay        ServiceFacts       `json:"relay"`
	Guests       []any              `json:"guests"`
	Capabilities ImageCapabilitySet `json:"capabilities"`
}

// ServiceFacts of machine-service. Not reachable is a fact, with its diagnostic, and no error.
type ServiceFacts struct {
	Reachable   bool                     `json:"reachable"`
	Origin      string                   `json:"origin"`
	Images      map[string]machine.Image `json:"images,omitempty"`
	Capacity    map[string]any           `json:"capacity,omitempty"`
	Machines    int                      `json:"machines"`
	Environment map[string]string        `json:"environment,omitempty"`
	Diagnostic  string                   `json:"diagnostic,omitempty"`
}

// ProbeHost observes the host and machine-service, read-only, and reports the guests held. The facts are also kept in the
// session's state folder.
func (s *Session) ProbeHost(ctx context.Context, held []any) (Result, error) {
	if held == nil {
		held = []any{}
	}
	at := s.opt.Now()
	probe := HostProbe{
		Scope: "host", ObservedAt: isoTime(at), Local: localFacts(ctx), Relay: s.serviceFacts(ctx), Guests: held, Capabilities: imageCapabilities(),
	}
	path := filepath.Join(s.dir, "probes", fmt.Sprintf("%d-%s.json", at.UnixMilli(), newUUID()))
	if err := writeInto(path, probe); err != nil {
		return Result{}, fmt.Errorf("cannot keep the probe's facts: %w", err)
	}
	return Result{Value: probe}, nil
}

func (s *Session) serviceFacts(ctx context.Context) ServiceFacts {
	facts := ServiceFacts{Origin: s.opt.API.Origin()}
	ctx, cancel := context.WithTimeout(ctx, factTimeout)
	defer cancel()
	type answer struct {
		set func()
		err error
	}
	answers := make(chan answer, 3)
	go func() {
		health, err := s.opt.API.Health(ctx)
		if err == nil && (!health.OK || health.Service != machine.ServiceName) {
			err = fmt.Errorf("it says it is %q, not a healthy %s", health.Service, machine.ServiceName)
		}
		answers <- answer{func() { facts.Environment = health.Environment }, err}
	}()
	go func() {
		images, err := s.opt.API.Images(ctx)
		answers <- answer{func() { facts.Images, facts.Capacity = images.Images, images.Capacity }, err}
	}()
	go func() {
		list, err := s.opt.API.List(ctx)
		answers <- answer{func() { facts.Machines = len(list) }, err}
	}()
	var faults []error
	for range 3 {
		if a := <-answers; a.err != nil {
			faults = append(faults, a.err)
		} else {
			a.set()
		}
	}
	if err := errors.Join(faults...); err != nil {
		return ServiceFacts{Origin: facts.Origin, Diagnostic: err.Error()}
	}
	facts.Reachable = true
	return facts
}

// GuestProbe is what relay_probe answers for one guest.
type GuestProbe struct {
	Scope           string          `json:"scope"`
	Guest           string          `json:"guest"`
	ObservedAt      string          `json:"observedAt"`
	Status          Status          `json:"status"`
	Checks          []GuestCheck    `json:"checks"`
	Software        []SoftwareFact  `json:"software"`      // at most maxSoftware of them, capture software first
	SoftwareTotal   int             `json:"softwareTotal"` // how many the image lists; relay_search finds the others
	SoftwareFault   string          `json:"softwareDiagnostic,omitempty"`
	Snapshots       SnapshotsReport `json:"snapshots"`
	CaptureVerified bool            `json:"captureVerified"` // always false: only a capture proves capture
}

// GuestCheck is one program that was asked for its version.
type GuestCheck struct {
	Name       string `json:"name"`
	Ready      bool   `json:"ready"`
	Code       *int   `json:"code,omitempty"`
	Output     string `json:"output,omitempty"`
	Diagnostic string `json:"diagnostic,omitempty"`
}

// SoftwareFact is an application that the image lists.
type SoftwareFact struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Version *string `json:"version"`
}

// maxSoftware keeps an image with a whole distribution from filling the answer.
const maxSoftware = 50

// someSoftware is the beginning of what an image lists, capture software first.
func someSoftware(all []machine.Application) []SoftwareFact {
	facts := []SoftwareFact{}
	add := func(capture bool) {
		for _, app := range all {
			if len(facts) < maxSoftware && isCapture(app.ID) == capture {
				facts = append(facts, SoftwareFact{ID: app.ID, Name: app.Name, Version: app.Version})
			}
		}
	}
	add(true)
	add(false)
	return facts
}

func isCapture(id string) bool {
	return id == machine.CaptureX11 || id == machine.CaptureCuaLinux || id == machine.CaptureCuaMac
}

// Probe observes the guest, read-only: which language runtimes run, what its image lists, whether runs take snapshots. It installs
// and starts nothing.
func (g *Guest) Probe(ctx context.Context) (Result, error) {
	if g.Gone() {
		return Result{}, Refuse("guest %q is gone", g.name)
	}
	name, err := g.machineName()
	if err != nil {
		return Result{}, g.fail("probe", err)
	}
	probe := GuestProbe{Scope: "guest", Guest: g.name, ObservedAt: isoTime(g.now()), Software: []SoftwareFact{}}
	for _, check := range []struct {
		name string
		argv []string
	}{
		{"shell", []string{"/bin/sh", "-c", "echo sh"}},
		{"node", []string{firstOf(g.rec().Node, "node"), "--version"}},
		{"tsx", []string{"tsx", "--version"}},
		{"python3", []string{"python3", "--version"}},
	} {
		probe.Checks = append(probe.Checks, g.check(ctx, name, check.name, check.argv))
	}
	inventory, err := g.imageInventory(ctx)
	if err != nil {
		probe.SoftwareFault = err.Error()
		probe.Snapshots = g.rec().captureReport()
	} else {
		plan := capturePlan(inventory, g.rec().CuaDriver)
		probe.Snapshots = (&Record{Capture: &plan}).captureReport()
		probe.Software, probe.SoftwareTotal = someSoftware(inventory.Applications), len(inventory.Applications)
	}
	probe.Status = g.Status()
	if err := g.log(eventGuestReadiness, "", map[string]any{"checks": probe.Checks, "snapshots": probe.Snapshots}); err != nil {
		return Result{}, g.fail("probe", err)
	}
	return Result{Value: probe}, nil
}

func (g *Guest) check(ctx context.Context, machineName, name string, argv []string) GuestCheck {
	result, err := g.s.opt.API.Exec(ctx, machineName, machine.ExecRequest{Argv: argv, Timeout: checkTimeout})
	if err != nil {
		return GuestCheck{Name: name, Diagnostic: err.Error()}
	}
	code := result.Code
	return GuestCheck{Name: name, Ready: code == 0, Code: &code, Output: clip(strings.TrimSpace(result.Output), 500)}
}
