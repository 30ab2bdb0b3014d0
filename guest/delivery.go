package guest

import (
	"encoding/json"
	"path/filepath"

	"github.com/seed-1e4c9d81/mcp-relay/evidence/image"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

const statusNotRequested = image.NotRequested

// imageFailed says whether an image status makes a run an error result.
func imageFailed(status string) bool {
	return status != image.Attached && status != image.Pending && status != image.NotRequested
}

// pendingImage says what became of a run's after-image, from the receipt alone: no guest I/O. A picture that was taken is pending,
// under the identity it will have.
func (g *Guest) pendingImage(request protocol.Request, v verdict) *ImageDelivery {
	if v.receipt == nil {
		if !wantsAfter(request.Snapshots) || v.outcome.Kind == protocol.Refused {
			return &ImageDelivery{Status: image.NotRequested}
		}
		return &ImageDelivery{Status: image.Pending, Diagnostic: "no receipt names the image; ask for it by execution id and phase"}
	}
	evidence := v.receipt.ImageEvidence
	if evidence.Status != protocol.ImageAvailable {
		return &ImageDelivery{Status: evidence.Status, Diagnostic: evidence.Diagnostic}
	}
	for _, snapshot := range evidence.Snapshots {
		if snapshot.Phase == "after" {
			return &ImageDelivery{Status: image.Pending, Image: rawJSON(g.reference(g.displayEntry(snapshot)))}
		}
	}
	return &ImageDelivery{Status: image.CaptureUnknown} // unreachable for a checked receipt
}

// displayEntry is the identity of one capture, derived from its description.
func (g *Guest) displayEntry(s protocol.Snapshot) image.Entry {
	r := g.rec()
	e := image.Entry{
		Owner: g.s.opt.Session, Enclosure: r.Purpose, Backend: r.Backend, FileName: s.FileName, Recording: r.HostRoot,
		Remote: "state/snapshots/" + s.SessionID + "/" + s.FileName,
		Descriptor: image.Descriptor{
			Source: image.Display, Enclosure: r.Purpose, SHA256: s.SHA256, Bytes: s.Bytes, MimeType: s.MimeType,
			SessionID: s.SessionID, ExecutionID: s.ExecutionID, ActionID: s.ActionID, StepID: s.StepID, Phase: s.Phase,
			CapturedAt: s.CapturedAt, GroupID: s.GroupID,
		},
	}
	e.ImageID = image.ID(e.Binding(), e.Descriptor, e.FileName)
	return e
}

// reference is how answers name a picture; its path is where the original will be.
func (g *Guest) reference(e image.Entry) image.Reference {
	return image.Reference{ImageID: e.ImageID, Descriptor: e.Descriptor, OriginalPath: g.images().Path(e.ImageID, e.Descriptor)}
}

func (g *Guest) images() image.Store {
	return image.OpenStore(g.rec().host("host", "images"))
}

func (g *Guest) catalogue() image.Catalogue {
	return image.Open(filepath.Join(g.dir, "image-catalog"))
}

func rawJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil // only types that always marshal are passed
	}
	return data
}
