package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/seed-1e4c9d81/mcp-relay/evidence/image"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// original is the path of a picture's bytes on the host, checked. They are looked for on the host first; a host file that
// contradicts the picture's name is an error and stays as it is.
func (g *Guest) original(ctx context.Context, entry image.Entry) (string, error) {
	path, err := g.images().Find(entry.ImageID, entry.Descriptor)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	for _, place := range g.hostCopies(entry) {
		err := image.CheckFile(place, entry.Descriptor)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return g.images().Publish(entry.ImageID, entry.Descriptor, place)
	}
	return g.pullImage(ctx, entry)
}

// hostCopies are where else on the host a capture's original may be.
func (g *Guest) hostCopies(entry image.Entry) []string {
	if entry.Descriptor.Source != image.Display {
		return nil
	}
	r, d := g.rec(), entry.Descriptor
	return []string{
		r.host("state", "snapshots", d.SessionID, entry.FileName),
		r.host("host", "steps", d.ExecutionID, "state", "snapshots", d.SessionID, entry.FileName),
	}
}

// pullImage brings a picture from the guest. The guest's file must be the same one, by identity, before and after the copy.
func (g *Guest) pullImage(ctx context.Context, entry image.Entry) (string, error) {
	if err := g.stillOurs(ctx); err != nil {
		return "", err
	}
	remote := g.rec().guest(entry.Remote)
	before, err := g.imageFact(ctx, remote)
	if err != nil {
		return "", err
	}
	if before.SHA256 != entry.Descriptor.SHA256 || before.Bytes != entry.Descriptor.Bytes {
		return "", imageError(image.IntegrityFailed, "the guest's file has other bytes than the picture was named by")
	}
	var path string
	for attempt := 1; ; attempt++ {
		path, err = g.pullImageOnce(ctx, entry, remote, before)
		if err == nil || attempt == transferAttempts || ctx.Err() != nil || !transientImage(err) {
			return path, err
		}
	}
}

func (g *Guest) pullImageOnce(ctx context.Context, entry image.Entry, remote string, before protocol.ImageFact) (string, error) {
	name, err := g.machineName()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(g.temp(), 0o700); err != nil {
		return "", fmt.Errorf("cannot make the transfer folder: %w", err)
	}
	partial := g.temp() + "/" + newUUID()
	defer os.Remove(partial)
	if err := g.s.opt.API.Pull(ctx, name, remote, partial); err != nil {
		return "", fmt.Errorf("cannot pull the picture: %w", err)
	}
	if err := image.CheckFile(partial, entry.Descriptor); err != nil {
		return "", err
	}
	after, err := g.imageFact(ctx, remote)
	if err != nil {
		return "", err
	}
	if after != before {
		return "", imageError(image.IntegrityFailed, "the guest's file was replaced while it was copied")
	}
	return g.images().Publish(entry.ImageID, entry.Descriptor, partial)
}

func (g *Guest) imageFact(ctx context.Context, remote string) (protocol.ImageFact, error) {
	var fact protocol.ImageFact
	err := g.verb(ctx, image.MaxOriginal, &fact, protocol.VerbImageFact, g.rec().GuestRoot, remote, strconv.Itoa(image.MaxOriginal))
	return fact, err
}

// transientImage says that the same copy may work another time: the connection or the service failed, not the picture.
func transientImage(err error) bool {
	var known *image.Error
	var failure *protocol.Failure
	return !errors.As(err, &known) && !errors.As(err, &failure) && machine.Transient(err)
}
