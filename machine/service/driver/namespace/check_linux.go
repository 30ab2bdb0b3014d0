package namespace

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// checkLife bounds the life of the guest that Check makes, should this process die.
const checkLife = 2 * time.Minute

// verdict is the cached answer of Check.
type verdict struct {
	mu    sync.Mutex
	known bool
	facts driver.Facts
	err   error
}

// Check makes one guest, runs true in it and destroys it, once; the verdict stands for the life of the driver. A caller
// whose ctx ends learns nothing, and neither does the cache. What an earlier check left that was killed is removed first.
func (d *hostDriver) Check(ctx context.Context) (driver.Facts, error) {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	if d.check.known {
		return d.check.facts, d.check.err
	}
	facts, err := d.tryGuest(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	d.check.known, d.check.facts, d.check.err = true, facts, err
	return facts, err
}

func (d *hostDriver) tryGuest(ctx context.Context) (driver.Facts, error) {
	d.checking.Lock()
	defer d.checking.Unlock()
	folder, err := d.checkFolder()
	if err != nil {
		return nil, driver.Refuse(machine.CodeIsolation, err, "cannot try to make a guest: %v", err)
	}
	facts, err := d.tryGuestIn(ctx, folder)
	if clearErr := clearCheck(folder); clearErr != nil && err == nil {
		err = explain(&stepError{"remove the folder of a guest", clearErr})
	}
	return facts, err
}

func (d *hostDriver) tryGuestIn(ctx context.Context, folder string) (driver.Facts, error) {
	spec := driver.Spec{Name: "check-" + strings.ToLower(rand.Text()[:8]), Image: imageHost, Folder: folder,
		Nonce: rand.Text(), Network: networkNAT, Until: time.Now().Add(checkLife)}
	guest, facts, err := d.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	code, output, err := guest.Exec(ctx, []string{"true"}, time.Minute, 1000)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d: %s", code, output)
	}
	if err != nil {
		err = &stepError{"run true in a guest", err}
	}
	if destroyErr := guest.Destroy(ctx); destroyErr != nil && err == nil {
		err = &stepError{"destroy a guest", destroyErr}
	}
	if err != nil {
		return nil, explain(err)
	}
	return facts, nil
}

// checkFolder makes the empty folder of the guest that Check makes, after it has cleared what earlier ones left.
//
// A service has one place for it in its state folder, which is its alone while it holds the folder's lock. Without a
// state folder any number of processes may check at once; each then makes a folder of its own that names it.
func (d *hostDriver) checkFolder() (string, error) {
	if _, err := sweepTempChecks(); err != nil {
		d.opt.Log.Warn().Err(err).Msg("cannot clear what the checks of dead processes left")
	}
	if d.opt.StateDir == "" {
		me, err := self()
		if err != nil {
			return "", err
		}
		return os.MkdirTemp("", tempCheckPrefix+me.String()+"-")
	}
	folder := d.ownCheckFolder()
	if err := clearCheck(folder); err != nil {
		return "", fmt.Errorf("an earlier try left a guest that resists: %w", err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	return folder, syncDir(filepath.Dir(folder))
}

// ownCheckFolder is where a service's check makes its guest.
func (d *hostDriver) ownCheckFolder() string { return filepath.Join(d.opt.StateDir, "check") }
