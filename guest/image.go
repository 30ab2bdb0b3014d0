package guest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence/image"
	"github.com/seed-1e4c9d81/mcp-relay/guest/frame"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// imageDeadline bounds one relay_image, its wait for its turn included where the caller counts from there.
const imageDeadline = 90 * time.Second

// ImageResult is what follows the identity line of relay_image.
type ImageResult struct {
	Guest    string      `json:"guest"`
	Target   ImageTarget `json:"target"`
	Original string      `json:"original,omitempty"` // host path, once it is there
	Bytes    int64       `json:"bytes,omitempty"`
}

// HasTarget says, from the host's records alone, whether an image selector means this guest.
func (g *Guest) HasTarget(t ImageTarget) bool {
	switch t.Source {
	case "display":
		return g.recordingOf(t.SessionID)
	case "reference":
		if _, err := g.catalogue().Load(g.binding(), t.ImageID); err == nil {
			return true
		}
		_, found := g.namedByRun(t.ImageID)
		return found
	}
	return false
}

func (g *Guest) binding() string {
	r := g.rec()
	return image.Binding(g.s.opt.Session, r.Purpose, r.Backend)
}

func (g *Guest) recordingOf(session string) bool {
	return session != "" && session == g.rec().SessionID
}

// Image answers a saved picture. What the host has needs no machine-service; the rest comes from the guest in at most three
// transfers, after the lease is seen to be ours. What cannot be had is a result with its status, not an error.
func (g *Guest) Image(ctx context.Context, in ImageInput) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, imageDeadline)
	defer cancel()
	d := &ImageDelivery{}
	result := Result{Delivery: d, Value: ImageResult{Guest: g.name, Target: in.Target}}
	entry, err := g.resolveImage(ctx, in.Target)
	if err == nil {
		d.Image = rawJSON(g.reference(entry))
		err = g.attachImage(ctx, entry, in.Target, &result)
	}
	if err != nil {
		d.Status, d.Diagnostic = imageStatus(err)
	}
	result.Failed = d.Status != image.Attached && d.Status != image.NotRequested
	return result, nil
}

// attachImage finds the original, makes the picture to show and keeps the fact of the delivery.
func (g *Guest) attachImage(ctx context.Context, entry image.Entry, target ImageTarget, result *Result) error {
	original, err := g.original(ctx, entry)
	if err != nil {
		return err
	}
	result.Value = ImageResult{Guest: g.name, Target: target, Original: original, Bytes: entry.Descriptor.Bytes}
	data, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	if hashBytes(data) != entry.Descriptor.SHA256 {
		return &image.Error{Status: image.IntegrityFailed, Why: "the original on the host has other bytes than it was named by"}
	}
	shown, err := image.Preview(data)
	if err != nil {
		return err
	}
	reference, now := g.reference(entry), g.now()
	reference.RetrievedAt = isoTime(now)
	if err := g.images().RecordDelivery(entry.ImageID, image.Attached, reference, &shown, now); err != nil {
		return err
	}
	result.Delivery.Status = image.Attached
	result.Delivery.Image, result.Delivery.Presentation = rawJSON(reference), rawJSON(shown)
	result.Image, result.MimeType = shown.Data, shown.MimeType
	return nil
}

// imageStatus is the status that an error of a delivery stands for.
func imageStatus(err error) (status, diagnostic string) {
	var known *image.Error
	if errors.As(err, &known) {
		return known.Status, err.Error()
	}
	var failure *protocol.Failure
	if errors.As(err, &failure) {
		switch failure.Code {
		case protocol.CodeMissing:
			return image.Missing, "the guest has no such file: " + failure.Message
		case protocol.CodeUnsafe, protocol.CodeTooLarge, protocol.CodeNotImage:
			return image.UnsafePath, failure.Message
		case protocol.CodeChanged:
			return image.IntegrityFailed, failure.Message
		}
	}
	return image.TransferFailed, err.Error()
}

func imageError(status, why string) error { return &image.Error{Status: status, Why: why} }

// resolveImage finds out which picture a selector means and whether it may be had, and enters it into the catalogue.
func (g *Guest) resolveImage(ctx context.Context, t ImageTarget) (image.Entry, error) {
	if g.Gone() || g.rec().Delivered != nil {
		return image.Entry{}, imageError(image.StaleReference, "the guest's evidence is sealed; its pictures are files of the package now")
	}
	switch t.Source {
	case "display":
		return g.resolveDisplay(ctx, t)
	case "reference":
		return g.resolveReference(ctx, t.ImageID)
	case "application":
		return g.resolveApplication(ctx, t)
	}
	return image.Entry{}, imageError(image.UnauthorizedReference, "the selector is none of display, application, reference")
}

// resolveReference looks into the catalogue, and then among the pictures that runs have named.
func (g *Guest) resolveReference(ctx context.Context, id string) (image.Entry, error) {
	entry, err := g.catalogue().Load(g.binding(), id)
	if err == nil {
		return entry, nil
	}
	var known *image.Error
	if !errors.As(err, &known) || known.Status != image.UnauthorizedReference {
		return image.Entry{}, err
	}
	target, found := g.namedByRun(id)
	if !found {
		return image.Entry{}, err
	}
	entry, err = g.resolveDisplay(ctx, target)
	if err == nil && entry.ImageID != id {
		err = imageError(image.IntegrityFailed, "the run that named this picture names another one now")
	}
	return entry, err
}

// namedByRun finds the run whose receipt names a picture.
func (g *Guest) namedByRun(id string) (ImageTarget, bool) {
	dir := g.rec().host("host", "receiver-receipts")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ImageTarget{}, false
	}
	for _, file := range entries {
		var receipt protocol.Receipt
		if readJSON(filepath.Join(dir, file.Name()), &receipt) != nil {
			continue
		}
		for _, s := range receipt.ImageEvidence.Snapshots {
			if g.displayEntry(s).ImageID == id {
				return ImageTarget{Source: "display", SessionID: s.SessionID, ExecutionID: s.ExecutionID, Phase: s.Phase}, true
			}
		}
	}
	return ImageTarget{}, false
}

// resolveDisplay proves that a capture is of this guest's recording, that its plan asked for it, that its receipt names it and
// that the action's record agrees.
func (g *Guest) resolveDisplay(ctx context.Context, t ImageTarget) (image.Entry, error) {
	request, err := g.requestOf(t)
	if err != nil {
		return image.Entry{}, err
	}
	wanted := t.Phase == "before" && wantsBefore(request.Snapshots) || t.Phase == "after" && wantsAfter(request.Snapshots)
	if !wanted {
		return image.Entry{}, imageError(image.NotRequested, "the run's plan has no capture of this phase")
	}
	receipt, err := g.receiptOf(ctx, request)
	if err != nil {
		return image.Entry{}, err
	}
	if err := checkReceipt(receipt, request); err != nil {
		return image.Entry{}, imageError(image.IntegrityFailed, "the run's receipt cannot be trusted: "+err.Error())
	}
	for _, s := range receipt.ImageEvidence.Snapshots {
		if s.Phase == t.Phase {
			if err := g.corroborate(ctx, s, request.Snapshots); err != nil {
				return image.Entry{}, err
			}
			entry := g.displayEntry(s)
			_, err := g.catalogue().Register(entry)
			return entry, err
		}
	}
	if receipt.ImageEvidence.Status == protocol.ImageCaptureFailed {
		return image.Entry{}, imageError(image.CaptureFailed, firstOf(receipt.ImageEvidence.Diagnostic, "the capture failed"))
	}
	return image.Entry{}, imageError(image.CaptureUnknown, "whether the picture was taken cannot be established")
}

func (g *Guest) requestOf(t ImageTarget) (protocol.Request, error) {
	var request protocol.Request
	unauthorized := imageError(image.UnauthorizedReference, "no run of this guest is meant by these ids")
	if !g.recordingOf(t.SessionID) || !safeID.MatchString(t.ExecutionID) {
		return request, unauthorized
	}
	err := readJSON(g.rec().host("host", "requests", t.ExecutionID+".json"), &request)
	if errors.Is(err, fs.ErrNotExist) {
		return request, unauthorized
	}
	if err != nil || request.ExecutionID != t.ExecutionID || request.SessionID != t.SessionID {
		return request, imageError(image.IntegrityFailed, "the run's request cannot be trusted")
	}
	return request, nil
}

// receiptOf is the receipt as the host has it, or as the guest has it still; a copy of that is kept apart from the receipts that
// came with their runs.
func (g *Guest) receiptOf(ctx context.Context, request protocol.Request) (protocol.Receipt, error) {
	r, name := g.rec(), request.ExecutionID+".json"
	places := []string{r.host("host", "receiver-receipts", name), r.host("host", "image-evidence", "receiver", "receipts", name)}
	for _, place := range places {
		var receipt protocol.Receipt
		err := readJSON(place, &receipt)
		if err == nil {
			return receipt, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return receipt, imageError(image.IntegrityFailed, "the run's receipt cannot be trusted: "+err.Error())
		}
	}
	if err := g.stillOurs(ctx); err != nil {
		return protocol.Receipt{}, err
	}
	if _, err := g.pull(ctx, r.guest("state/receiver/receipts/"+name), places[1]); err != nil {
		if missing(err) {
			err = imageError(image.CaptureUnknown, "the run has no receipt, so whether the picture was taken cannot be established")
		}
		return protocol.Receipt{}, err
	}
	var receipt protocol.Receipt
	if err := readJSON(places[1], &receipt); err != nil {
		return receipt, imageError(image.IntegrityFailed, "the run's receipt cannot be trusted: "+err.Error())
	}
	return receipt, nil
}

// resolveApplication checks a picture that a declared output names; its bytes are described by the guest.
func (g *Guest) resolveApplication(ctx context.Context, t ImageTarget) (image.Entry, error) {
	declaration, ok := g.declared(t.Name)
	if !ok {
		return image.Entry{}, imageError(image.UnauthorizedReference, "no such output was declared when the guest was acquired")
	}
	rel := declaration.Path
	if t.Path != "" {
		if err := frame.CheckPath(t.Path); err != nil {
			return image.Entry{}, imageError(image.UnsafePath, err.Error())
		}
		rel += "/" + t.Path
	}
	if mimeByName(rel) == "" {
		return image.Entry{}, imageError(image.UnsafePath, "only .png, .jpg, .jpeg and .webp files are shown")
	}
	if err := g.ready(); err != nil {
		return image.Entry{}, imageError(image.StaleReference, err.Error())
	}
	if err := g.stillOurs(ctx); err != nil {
		return image.Entry{}, err
	}
	fact, err := g.imageFact(ctx, g.rec().workspace()+"/"+rel)
	if err != nil {
		return image.Entry{}, err
	}
	r := g.rec()
	entry := image.Entry{
		Owner: g.s.opt.Session, Enclosure: r.Purpose, Backend: r.Backend, Recording: r.HostRoot, Remote: "workspace/" + rel,
		Descriptor: image.Descriptor{
			Source: image.Application, Enclosure: r.Purpose, SHA256: fact.SHA256, Bytes: fact.Bytes, MimeType: mimeByName(rel), Name: t.Name, Path: t.Path,
		},
	}
	entry.ImageID = image.ID(entry.Binding(), entry.Descriptor, "")
	_, err = g.catalogue().Register(entry)
	return entry, err
}

func mimeByName(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".webp":
		return "image/webp"
	}
	return ""
}

// stillOurs asks whether the machine is ours before a picture is taken from it.
func (g *Guest) stillOurs(ctx context.Context) error {
	if err := g.checkBinding(); err != nil {
		return imageError(image.UnauthorizedReference, err.Error())
	}
	name, err := g.machineName()
	if err != nil {
		return imageError(image.StaleReference, err.Error())
	}
	lease, err := g.s.opt.API.Get(ctx, name)
	if errors.Is(err, machine.ErrUnknownMachine) {
		return imageError(image.StaleReference, "the guest's machine is gone, and the host has no copy")
	}
	if err != nil {
		return err
	}
	if err := g.checkLease(lease); err != nil {
		return imageError(image.UnauthorizedReference, err.Error())
	}
	return nil
}
