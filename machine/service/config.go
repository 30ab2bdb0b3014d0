package service

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// DefaultListen is where machine-service is looked for.
const DefaultListen = "localhost:6240"

// Config of a Service. Zero values mean the defaults given; StateDir and Driver are required.
type Config struct {
	StateDir string        // absolute; holds state.json, daemon.lock and machines/. One service at a time owns it
	Driver   driver.Driver // makes the machines

	Listen  string // host:port on loopback; DefaultListen. "localhost" binds both families, port 0 takes a free one
	AnyPort bool   // when Listen's port is taken, take a free one instead of failing

	MinTTL     time.Duration // shortest lease window; 6 min
	DefaultTTL time.Duration // window of an acquire that asks for none; 24 h
	Grace      time.Duration // from the first reaper pass past the TTL to the reclaim; 6 h
	ReapEvery  time.Duration // 60 s
	IdleExit   time.Duration // Serve ends after this long without lease and request; 0: never

	MaxMachines   int // leases at once; 0: no limit
	TotalMemoryMB int // memory promised to all machines together; 0: no limit. Counts only machines with a known size
	CPU           int // what a machine gets when its acquire asks for nothing; 0: the driver's default
	MemoryMB      int
	DiskMB        int

	DpkgStatus string // package list behind the catalogue of the image "host"; /var/lib/dpkg/status

	Log   zerolog.Logger
	Owner io.Reader // when it ends, every machine is released and Serve returns; nil: nobody owns it
}

func (c *Config) fill() error {
	if c.StateDir == "" || !filepath.IsAbs(c.StateDir) {
		return fmt.Errorf("cannot open machine-service: the state folder %q is not an absolute path", c.StateDir)
	}
	if c.Driver == nil {
		return errors.New("cannot open machine-service: no driver is given")
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&c.MinTTL, machine.MaxTTL/7200) // 0.1 h
	set(&c.DefaultTTL, 24*time.Hour)
	set(&c.Grace, 6*time.Hour)
	set(&c.ReapEvery, time.Minute)
	for name, d := range map[string]time.Duration{"minimum TTL": c.MinTTL, "default TTL": c.DefaultTTL, "grace": c.Grace,
		"reaper period": c.ReapEvery, "idle exit": c.IdleExit + 1} {
		if d <= 0 {
			return fmt.Errorf("cannot open machine-service: the %s is negative", name)
		}
	}
	if c.MinTTL > machine.MaxTTL || c.DefaultTTL < c.MinTTL || c.DefaultTTL > machine.MaxTTL {
		return fmt.Errorf("cannot open machine-service: the TTLs must be ordered: minimum %s, default %s, maximum %s", c.MinTTL, c.DefaultTTL, machine.MaxTTL)
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.DpkgStatus == "" {
		c.DpkgStatus = "/var/lib/dpkg/status"
	}
	return nil
}
