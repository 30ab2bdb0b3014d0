package guest

import (
	"context"
	"fmt"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

const cuaDriverMac = "/Applications/CuaDriver.app/Contents/MacOS/cua-driver"

// SnapshotsReport says whether runs take snapshots, and why not.
type SnapshotsReport struct {
	Taken   bool   `json:"taken"`
	Capture string `json:"capture"`
	Reason  string `json:"reason,omitempty"`
}

// ImageCapabilitySet tells a client how saved images behave.
type ImageCapabilitySet struct {
	Image ImageCapability `json:"image"`
}

// ImageCapability holds the bounds of relay_image.
type ImageCapability struct {
	Version                  int   `json:"version"`
	DeadlineMs               int64 `json:"deadlineMs"`
	TransferAttempts         int   `json:"transferAttempts"`
	RecommendedRecoveryCalls int   `json:"recommendedRecoveryCalls"`
}

func imageCapabilities() ImageCapabilitySet {
	return ImageCapabilitySet{Image: ImageCapability{
		Version: 1, DeadlineMs: imageDeadline.Milliseconds(), TransferAttempts: transferAttempts, RecommendedRecoveryCalls: 2,
	}}
}

// guestTarget is what the catalogue says about the guest's image.
type guestTarget struct {
	goos, goarch string
	capture      protocol.Snapshots
}

// target asks the catalogue what the guest is and whether its image lists capture software. Without an answer there is no
// staging: a recording without evidence is never begun silently.
func (g *Guest) target(ctx context.Context, cuaDriver string) (guestTarget, error) {
	inventory, err := g.imageInventory(ctx)
	if err != nil {
		return guestTarget{}, err
	}
	goos, knownOS := map[string]string{"linux": "linux", "macos": "darwin"}[inventory.OS]
	goarch, knownArch := map[string]string{"arm64": "arm64", "x86_64": "amd64"}[inventory.Architecture]
	if !knownOS || !knownArch {
		return guestTarget{}, fmt.Errorf("the catalogue gives image %q an unknown system %s/%s", g.rec().Image, inventory.OS, inventory.Architecture)
	}
	return guestTarget{goos: goos, goarch: goarch, capture: capturePlan(inventory, firstOf(cuaDriver, g.rec().CuaDriver))}, nil
}

func (g *Guest) imageInventory(ctx context.Context) (machine.ImageInventory, error) {
	catalogue, err := g.s.opt.API.Applications(ctx)
	if err != nil {
		return machine.ImageInventory{}, fmt.Errorf("cannot learn from the application catalogue whether runs of image %q are captured; try again: %w", g.rec().Image, err)
	}
	for _, inventory := range catalogue.Images {
		if inventory.Image == g.rec().Image {
			return inventory, nil
		}
	}
	return machine.ImageInventory{}, fmt.Errorf("the application catalogue does not list image %q, so whether its runs are captured is not known; try again when it does", g.rec().Image)
}

// capturePlan decides by the image's inventory. Our own capture is preferred where an image lists both.
func capturePlan(inventory machine.ImageInventory, driver string) protocol.Snapshots {
	ids := make(map[string]bool)
	for _, app := range inventory.Applications {
		ids[app.ID] = true
	}
	switch {
	case ids[machine.CaptureX11]:
		return protocol.Snapshots{Capture: protocol.CaptureX11}
	case ids[machine.CaptureCuaMac]:
		return protocol.Snapshots{Capture: protocol.CaptureCuaDriver, Driver: firstOf(driver, cuaDriverMac)}
	case ids[machine.CaptureCuaLinux]:
		return protocol.Snapshots{Capture: protocol.CaptureCuaDriver, Driver: firstOf(driver, "cua-driver")}
	}
	return protocol.Snapshots{Capture: protocol.CaptureNone, Reason: "the image lists no capture software"}
}

func (r *Record) captures() bool {
	return r.Capture != nil && r.Capture.Capture != protocol.CaptureNone
}

func (r *Record) captureReport() SnapshotsReport {
	if r.Capture == nil {
		return SnapshotsReport{Capture: protocol.CaptureNone, Reason: "not known before staging"}
	}
	return SnapshotsReport{Taken: r.captures(), Capture: r.Capture.Capture, Reason: r.Capture.Reason}
}
