package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	saved "github.com/seed-1e4c9d81/mcp-relay/evidence/image"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

func picture(t *testing.T) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 8, 4))
	img.Set(1, 1, color.RGBA{R: 200, A: 255})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// capturing makes the fake's image one that lists our capture software.
func (b *bench) capturing() {
	b.Helper()
	catalogue, err := b.api.Applications(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	catalogue.Images[0].Applications = []machine.Application{{ID: machine.CaptureX11, Name: "x11-capture", Aliases: []string{}}}
	b.api.SetCatalogue(catalogue)
}

// photographed plays a receiver that captures: the receipt names a before and an after picture, which lie in the guest.
func (b *bench) photographed(data []byte) {
	b.played(func(req protocol.Request) (any, protocol.Ack) {
		receipt := completed(req, 0)
		receipt.ImageEvidence.Status = protocol.ImageAvailable
		action := actionFact{
			ActionID: "action-1", SessionID: req.SessionID, AttemptID: req.AttemptID, ExecutionID: req.ExecutionID, StepID: req.Step.ID, Role: "single",
		}
		for _, phase := range []string{"before", "after"} {
			s := protocol.Snapshot{
				SessionID: req.SessionID, AttemptID: req.AttemptID, ExecutionID: req.ExecutionID, ActionID: "action-1", StepID: req.Step.ID, Phase: phase,
				CapturedAt: "2026-11-30T10:00:00.250Z", SHA256: hashBytes(data), Bytes: int64(len(data)), MimeType: "image/png", FileName: "a000001-" + phase + ".png",
			}
			if phase == "after" {
				s.DeclaredAfterIntervalMs = req.Snapshots.AfterIntervalMs
			}
			receipt.ImageEvidence.Snapshots = append(receipt.ImageEvidence.Snapshots, s)
			path := filepath.Join(filepath.Dir(req.Cwd), "state/snapshots", req.SessionID, s.FileName)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
				b.Error(err)
			}
			action.Snapshots = append(action.Snapshots, citedSnapshot{Role: phase, FileName: s.FileName, SHA256: s.SHA256, Bytes: s.Bytes})
		}
		if err := writeInto(filepath.Join(filepath.Dir(req.Cwd), "state/records/action/action-1.json"), action); err != nil {
			b.Error(err)
		}
		return receipt, protocol.Ack{Outcome: protocol.Completed}
	})
}

// imageID of the picture that an answer names.
func imageID(t *testing.T, d *ImageDelivery) string {
	t.Helper()
	var ref saved.Reference
	if err := json.Unmarshal(d.Image, &ref); err != nil {
		t.Fatal(err)
	}
	return ref.ImageID
}

// 7.2, T143: a run names its picture at once; the name stays the same; the bytes come once, and then need no service.
func TestPictureIsNamedAtOnceAndFetchedOnce(t *testing.T) {
	b := newBench(t)
	b.capturing()
	g := b.staged(b.input())
	data := picture(t)
	b.photographed(data)
	value, run := b.run(g, shell("true"))
	if run.Failed || run.Delivery.Status != saved.Pending || len(run.Image) != 0 || !value.Owned.Staged {
		t.Fatalf("delivery %+v, failed %v; want pending without bytes", run.Delivery, run.Failed)
	}
	id, asked := imageID(t, run.Delivery), b.api.Calls("get")
	target := ImageTarget{Source: "reference", ImageID: id}
	if !g.HasTarget(target) || g.HasTarget(ImageTarget{Source: "reference", ImageID: "image-" + strings.Repeat("0", 64)}) {
		t.Error("the guest does not know its own pictures")
	}
	got, err := g.Image(t.Context(), ImageInput{Target: target})
	if err != nil || got.Failed || got.Delivery.Status != saved.Attached || !bytes.Equal(got.Image, data) || got.MimeType != "image/png" {
		t.Fatalf("image %+v %s, %v", got.Delivery, got.Delivery.Diagnostic, err)
	}
	if imageID(t, got.Delivery) != id || b.api.Calls("get") != asked+2 {
		t.Errorf("id %s after %d questions, want %s after one for its record and one for its bytes", imageID(t, got.Delivery), b.api.Calls("get")-asked, id)
	}
	calls := b.api.Calls("exec") + b.api.Calls("pull") + b.api.Calls("get")
	for _, target := range []ImageTarget{target, {Source: "display", SessionID: value.SessionID, ExecutionID: value.ExecutionID, Phase: "after"}} {
		if again, err := g.Image(t.Context(), ImageInput{Target: target}); err != nil || again.Delivery.Status != saved.Attached {
			t.Errorf("again: %+v, %v", again.Delivery, err)
		}
	}
	if now := b.api.Calls("exec") + b.api.Calls("pull") + b.api.Calls("get"); now != calls {
		t.Errorf("%d more requests for a picture that the host has", now-calls)
	}
}

// 15.2, T144: each way that a picture cannot be had has its status.
func TestPictureStatuses(t *testing.T) {
	b := newBench(t)
	b.capturing()
	in := b.input()
	in.Extractions = []Declaration{{"shots", "shots"}, {"one.png", "one"}}
	g := b.staged(in)
	data := picture(t)
	b.photographed(data)
	value, _ := b.run(g, shell("true"))
	member := shell("true")
	member.Snapshots = &ScriptSnapshots{Group: &ScriptGroup{GroupID: "g", Phase: "first"}}
	b.played(func(req protocol.Request) (any, protocol.Ack) {
		return completed(req, 0), protocol.Ack{Outcome: protocol.Completed}
	})
	first, _ := b.run(g, member)
	b.produce(g, "shots/a.png", string(data))
	b.produce(g, "shots/not.png", "no picture at all, to be sure")
	if err := os.Symlink("a.png", filepath.Join(g.rec().workspace(), "shots/link.png")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		target ImageTarget
		want   string
	}{
		{"foreign recording", ImageTarget{Source: "display", SessionID: "session-other", ExecutionID: value.ExecutionID, Phase: "after"}, saved.UnauthorizedReference},
		{"foreign run", ImageTarget{Source: "display", SessionID: value.SessionID, ExecutionID: "execution-other", Phase: "after"}, saved.UnauthorizedReference},
		{"path as run", ImageTarget{Source: "display", SessionID: value.SessionID, ExecutionID: "../x", Phase: "after"}, saved.UnauthorizedReference},
		{"foreign reference", ImageTarget{Source: "reference", ImageID: "image-" + strings.Repeat("a", 64)}, saved.UnauthorizedReference},
		{"phase not planned", ImageTarget{Source: "display", SessionID: value.SessionID, ExecutionID: first.ExecutionID, Phase: "after"}, saved.NotRequested},
		{"before", ImageTarget{Source: "display", SessionID: value.SessionID, ExecutionID: value.ExecutionID, Phase: "before"}, saved.Attached},
		{"member of a folder", ImageTarget{Source: "application", Name: "shots", Path: "a.png"}, saved.Attached},
		{"undeclared", ImageTarget{Source: "application", Name: "other", Path: "a.png"}, saved.UnauthorizedReference},
		{"traversal", ImageTarget{Source: "application", Name: "shots", Path: "../../x.png"}, saved.UnsafePath},
		{"symlink", ImageTarget{Source: "application", Name: "shots", Path: "link.png"}, saved.UnsafePath},
		{"no picture", ImageTarget{Source: "application", Name: "shots", Path: "not.png"}, saved.UnsafePath},
		{"not there", ImageTarget{Source: "application", Name: "one"}, saved.Missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := g.Image(t.Context(), ImageInput{Target: test.target})
			if err != nil || got.Delivery.Status != test.want {
				t.Errorf("status %s (%s), %v; want %s", got.Delivery.Status, got.Delivery.Diagnostic, err, test.want)
			}
			if failed := test.want != saved.Attached && test.want != saved.NotRequested; got.Failed != failed {
				t.Errorf("failed %v, want %v", got.Failed, failed)
			}
		})
	}
}

// 15.4: a host file that contradicts a picture's name is an error and stays; other bytes in the guest are never shown.
func TestPictureWithOtherBytesIsNeverShown(t *testing.T) {
	b := newBench(t)
	b.capturing()
	g := b.staged(b.input())
	data := picture(t)
	b.photographed(data)
	value, run := b.run(g, shell("true"))
	guestFile := g.rec().guest("state/snapshots/" + value.SessionID + "/a000001-after.png")
	if err := os.WriteFile(guestFile, append(data, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	target := ImageInput{Target: ImageTarget{Source: "reference", ImageID: imageID(t, run.Delivery)}}
	if got, _ := g.Image(t.Context(), target); got.Delivery.Status != saved.IntegrityFailed {
		t.Errorf("status %s, want integrity-failed", got.Delivery.Status)
	}
	times := 0
	if err := os.WriteFile(guestFile, data, 0o600); err != nil {
		t.Fatal(err)
	}
	b.wire.onPull = func(remote, _ string, next func() error) error {
		if times++; times <= 2 {
			return errors.New("connection reset")
		}
		return next()
	}
	if got, _ := g.Image(t.Context(), target); got.Delivery.Status != saved.Attached || times != 3 {
		t.Errorf("status %s after %d copies, want attached after 3", got.Delivery.Status, times)
	}
	b.api.Vanish(g.rec().Lease.Name)
	if got, _ := g.Image(t.Context(), target); got.Delivery.Status != saved.Attached {
		t.Errorf("status %s, want the host's copy", got.Delivery.Status)
	}
	before := ImageInput{Target: ImageTarget{Source: "display", SessionID: value.SessionID, ExecutionID: value.ExecutionID, Phase: "before"}}
	if got, _ := g.Image(t.Context(), before); got.Delivery.Status != saved.StaleReference {
		t.Errorf("status %s, want stale-reference", got.Delivery.Status)
	}
}

// T168: a picture that the host has and the guest has lost since is part of the recording all the same; one that contradicts the
// recording stops the delivery before anything is written.
func TestSavedPictureOutlivesTheGuestsCopy(t *testing.T) {
	b := newBench(t)
	b.capturing()
	g := b.staged(b.input())
	data := picture(t)
	b.photographed(data)
	value, run := b.run(g, shell("true"))
	if got, err := g.Image(t.Context(), ImageInput{Target: ImageTarget{Source: "reference", ImageID: imageID(t, run.Delivery)}}); err != nil || got.Failed {
		t.Fatalf("image %+v, %v", got.Delivery, err)
	}
	if err := g.materialize(); err != nil {
		t.Fatal(err)
	}
	place := g.rec().host("state", "snapshots", value.SessionID, "a000001-after.png")
	if b.read(place) != string(data) {
		t.Error("other bytes were kept")
	}
	if err := os.WriteFile(place, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, g.materialize(), "contradicts the recording")
	if b.read(place) != "another" {
		t.Error("the conflict was resolved by overwriting")
	}
}

// 15.5: a receipt alone names no picture; the action's own record must cite it.
func TestPictureNeedsTheActionsRecord(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*actionFact)
	}{
		{"another run", func(a *actionFact) { a.ExecutionID = "execution-other" }},
		{"another role", func(a *actionFact) { a.Role = "last" }},
		{"not cited", func(a *actionFact) { a.Snapshots = nil }},
		{"other bytes", func(a *actionFact) { a.Snapshots[1].SHA256 = strings.Repeat("0", 64) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.capturing()
			g := b.staged(b.input())
			b.photographed(picture(t))
			_, run := b.run(g, shell("true"))
			var action actionFact
			path := g.rec().guest("state/records/action/action-1.json")
			b.decode(path, &action)
			test.change(&action)
			if err := writeInto(path, action); err != nil {
				t.Fatal(err)
			}
			got, err := g.Image(t.Context(), ImageInput{Target: ImageTarget{Source: "reference", ImageID: imageID(t, run.Delivery)}})
			if err != nil || got.Delivery.Status != saved.IntegrityFailed || got.Image != nil {
				t.Errorf("status %s, %v; want integrity-failed without bytes", got.Delivery.Status, err)
			}
		})
	}
}
