package namespace

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
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
// whose ctx ends learns nothing, and neither does the cache.
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
	folder, err := os.MkdirTemp("", "mcp-relay-check-")
	if err != nil {
		return nil, driver.Refuse(machine.CodeIsolation, err, "cannot try to make a guest: %v", err)
	}
	defer os.RemoveAll(folder)
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
