package namespace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// Adopt finds the machine in spec.Folder. When its init is gone, or never became a guest, what is left of it is removed
// and the error is driver.ErrGone. So it is, and nothing is touched, when the folder holds a machine of another name or nonce. A folder whose record cannot be read is an error of its own: nothing is touched.
func (d *hostDriver) Adopt(ctx context.Context, spec driver.Spec) (driver.Guest, error) {
	r, err := readRecord(spec.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, driver.ErrGone
	}
	if err != nil {
		return nil, err
	}
	if r.NonceSHA256 != hashNonce(spec.Nonce) || r.Name != spec.Name {
		return nil, fmt.Errorf("%w: the one in %s is another", driver.ErrGone, spec.Folder)
	}
	handle, err := holdInit(r)
	if err != nil {
		return nil, err
	}
	if handle != nil && handle.Ended() {
		handle.Close()
		handle = nil
	}
	if handle == nil {
		return nil, d.bury(spec, r)
	}
	g := newGuest(spec, r, handle)
	switch err := g.ping(ctx); {
	case err == nil && r.State == stateReady:
		return g, nil
	case err == nil:
		r.State = stateReady
		return g, r.write(spec.Folder)
	case ctx.Err() != nil:
		handle.Close()
		return nil, err
	case r.State == stateReady && !errors.Is(err, driver.ErrGone):
		return g, nil // it exists, and that it does not answer now is for its user to find and for its lease to end
	}
	if err := g.Destroy(ctx); err != nil {
		return nil, fmt.Errorf("machine %s is gone, but not all of it: %w", spec.Name, err)
	}
	return nil, driver.ErrGone
}

// bury removes what a machine left that ended without us.
func (d *hostDriver) bury(spec driver.Spec, r *record) error {
	if err := erase(spec.Folder, r, nil); err != nil {
		return fmt.Errorf("machine %s is gone, but not all of it: %w", spec.Name, err)
	}
	return driver.ErrGone
}
