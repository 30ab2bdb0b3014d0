package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/seed-1e4c9d81/mcp-relay/guest/frame"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// pullArchive brings files of a guest folder in one archive. The whole archive is unpacked aside and checked against the known
// facts before the first file is put in its place.
func (g *Guest) pullArchive(ctx context.Context, source, target string, facts []protocol.Fact) error {
	root := g.rec().GuestRoot
	archive := root + "/.archive-" + newUUID()
	args := []string{protocol.VerbArchive, root, source, archive, string(frame.All)}
	want, size, bytes, err := archiveWant(facts)
	if err != nil {
		return err
	}
	for _, fact := range facts {
		args = append(args, fact.Path)
	}
	defer g.removeInGuest(ctx, archive)
	var made protocol.Fact
	if err := g.verb(ctx, 2*bytes, &made, args...); err != nil {
		return err
	}
	if made.Bytes != size {
		return fmt.Errorf("the guest's archive holds %d bytes where %d were expected", made.Bytes, size)
	}
	partial, err := g.pullTemp(ctx, archive)
	if err != nil {
		return err
	}
	defer os.Remove(partial)
	return unpackInto(partial, size, want, target, filepath.Join(g.temp(), newUUID()))
}

func archiveWant(facts []protocol.Fact) (want []frame.Want, size, bytes int64, err error) {
	for _, fact := range facts {
		n, err := frame.Size(frame.Header{Path: fact.Path, Bytes: fact.Bytes})
		if err != nil {
			return nil, 0, 0, err
		}
		size += n
		bytes += fact.Bytes
		want = append(want, frame.Want{Path: fact.Path, Bytes: fact.Bytes, SHA256: fact.SHA256, Known: true})
	}
	return want, size, bytes, nil
}

// unpackInto unpacks a pulled archive into the fresh folder staging, and then moves each file into target, where none may be.
func unpackInto(archive string, size int64, want []frame.Want, target, staging string) (err error) {
	file, err := os.OpenFile(archive, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("cannot open the pulled archive: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != size {
		return errors.Join(fmt.Errorf("the archive did not arrive with its %d bytes", size), err)
	}
	if err := os.Mkdir(staging, 0o700); err != nil {
		return fmt.Errorf("cannot unpack the archive: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	inside, err := os.OpenRoot(staging)
	if err != nil {
		return fmt.Errorf("cannot unpack the archive: %w", err)
	}
	defer inside.Close()
	got, err := frame.Unpack(file, want, frame.All, func(h frame.Header, content io.Reader) error { return store(inside, h.Path, content) })
	if err != nil {
		return err
	}
	for _, entry := range got {
		rel := filepath.FromSlash(entry.Path)
		if err := move(filepath.Join(staging, rel), filepath.Join(target, rel)); err != nil {
			return err
		}
	}
	return nil
}

func store(root *os.Root, path string, content io.Reader) error {
	rel := filepath.FromSlash(path)
	if err := root.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
