package receiver

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

func group(id, phase string) func(*protocol.Request) {
	return func(r *protocol.Request) {
		r.Snapshots.AfterIntervalMs = nil
		r.Snapshots.Group = &protocol.Group{GroupID: id, Phase: phase}
		if phase == "last" {
			zero := int64(0)
			r.Snapshots.Group.AfterIntervalMs = &zero
		}
	}
}

func TestGroupHasOnePairOfPictures(t *testing.T) {
	g := newGuest(t)
	want(t, g.shell("echo x >> ran", group("g", "member")), protocol.Refused, protocol.ReasonGroup)
	first := g.shell("true", group("g", "first"))
	wantExit(t, first, 0)
	want(t, g.shell("echo x >> ran"), protocol.Refused, protocol.ReasonGroup)
	want(t, g.shell("echo x >> ran", group("h", "first")), protocol.Refused, protocol.ReasonGroup)
	member := g.shell("true", group("g", "member"))
	wantExit(t, member, 0)
	noInterval := g.shell("echo x >> ran", group("g", "last"), func(r *protocol.Request) { r.Snapshots.Group.AfterIntervalMs = nil })
	want(t, noInterval, protocol.Refused, protocol.ReasonValidation)
	last := g.shell("true", group("g", "last"))
	wantExit(t, last, 0)
	want(t, g.shell("echo x >> ran", group("g", "first")), protocol.Refused, protocol.ReasonGroup)
	wantExit(t, g.shell("true"), 0)

	var statuses []string
	var pictures []int
	for _, r := range []protocol.Receipt{first, member, last} {
		statuses = append(statuses, r.ImageEvidence.Status)
		pictures = append(pictures, len(r.ImageEvidence.Snapshots))
	}
	if diff := cmp.Diff([]string{"not-requested", "not-requested", "available"}, statuses); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 0, 1}, pictures); diff != "" {
		t.Error(diff)
	}
	if files := g.files("state", "snapshots"); len(files) != 4 || g.count("ran") != 0 {
		t.Errorf("snapshots: %v", files)
	}
	if got := groupsFile(g); got != `{"used":["g"]}` {
		t.Errorf("groups.json is %s", got)
	}
}

func groupsFile(g *guestRoot) string {
	data, err := os.ReadFile(g.join("state", "receiver", "groups.json"))
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), "")
}

// A run that does not end well breaks its group: others may run, its id is used up, earlier records stay as they are.
func TestBrokenGroupIsAbandoned(t *testing.T) {
	for _, row := range []struct {
		name  string
		spoil func(g *guestRoot) protocol.Receipt
	}{
		{"nonzero exit", func(g *guestRoot) protocol.Receipt { return g.shell("exit 1", group("g", "member")) }},
		{"timeout of the last", func(g *guestRoot) protocol.Receipt {
			return g.shell("sleep 60", group("g", "last"), func(r *protocol.Request) { r.TimeoutMs = 100 })
		}},
		{"readiness capture fails", func(g *guestRoot) protocol.Receipt {
			return g.run(g.push(protocol.Shell, "true", group("g", "member")), Options{Capturer: &fakeCapturer{fail: map[int]error{1: errLens}}})
		}},
		{"script of a member changed", func(g *guestRoot) protocol.Receipt {
			return g.shell("true", group("g", "member"), func(r *protocol.Request) { r.Script.Bytes++ })
		}},
		{"receiver killed", func(g *guestRoot) protocol.Receipt {
			req := g.push(protocol.Shell, "true", group("g", "member"))
			if err := g.process(req, pointStarted).Run(); err == nil {
				g.t.Fatal("the receiver did not die")
			}
			g.shell("true")
			return g.run(req, Options{})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newGuest(t)
			first := g.shell("true", group("g", "first"))
			wantExit(t, first, 0)
			record := g.join("state", "records", "action", first.ActionID+".json")
			before, err := os.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			broken := row.spoil(g)
			if slices.Contains([]string{protocol.Completed}, broken.Outcome.Kind) && *broken.Outcome.ExitStatus.Code == 0 {
				t.Fatalf("it did not break: %s", asJSON(t, broken.Outcome))
			}
			wantExit(t, g.shell("true"), 0)
			want(t, g.shell("true", group("g", "first")), protocol.Refused, protocol.ReasonGroup)
			wantExit(t, g.shell("true", group("h", "first")), 0)
			var incomplete int
			for _, e := range g.journal() {
				if e.AnnotationType == "group-incomplete" && e.GroupID == "g" {
					incomplete++
				}
			}
			if after, _ := os.ReadFile(record); incomplete != 1 || string(after) != string(before) {
				t.Errorf("%d group-incomplete lines, or the first's record changed", incomplete)
			}
			var groups struct {
				Active *struct {
					GroupID string `json:"groupId"`
				} `json:"active"`
				Used []string `json:"used"`
			}
			if err := json.Unmarshal([]byte(groupsFile(g)), &groups); err != nil || groups.Active == nil || groups.Active.GroupID != "h" || !slices.Equal(groups.Used, []string{"g", "h"}) {
				t.Errorf("groups.json: %s %v", groupsFile(g), err)
			}
		})
	}
}

func TestGroupWithoutCaptureIsAGroup(t *testing.T) {
	g := newGuest(t)
	none := func(r *protocol.Request) {
		r.Snapshots.Capture, r.Snapshots.Reason = protocol.CaptureNone, "image lists no capture software"
	}
	for _, phase := range []string{"first", "member", "last"} {
		receipt := g.run(g.push(protocol.Shell, "true", group("g", phase), none), Options{Capturer: &fakeCapturer{fail: map[int]error{1: errLens}}})
		wantExit(t, receipt, 0)
		if receipt.ImageEvidence.Status != protocol.ImageNotRequested {
			t.Errorf("%s: %s", phase, receipt.ImageEvidence.Status)
		}
	}
	wantExit(t, g.shell("true"), 0)
}
