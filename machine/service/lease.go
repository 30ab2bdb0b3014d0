package service

import (
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// wireLease is a lease as clients see it. Fields that may be null are always there.
type wireLease struct {
	Machine       string        `json:"machine"`
	VM            string        `json:"vm"` // the older name of the same key
	Purpose       string        `json:"purpose"`
	Image         string        `json:"image"`
	ImageKind     string        `json:"image_kind"`
	LeaseID       string        `json:"lease_id"`
	Configuration configuration `json:"configuration"`
	Env           *string       `json:"env"`
	State         string        `json:"state"`
	CreatedAt     float64       `json:"created_at"`
	TTLExpiresAt  float64       `json:"ttl_expires_at"`
	GraceUntil    *float64      `json:"grace_until"`
	Warned        bool          `json:"warned"`
	IP            *string       `json:"ip"`
	CPU           *int          `json:"cpu"`
	MemoryMB      *int          `json:"memory_mb"`
	DiskGB        *int          `json:"disk_gb"`
	SSHAuth       string        `json:"ssh_auth"`
	SSHUser       string        `json:"ssh_user"`
	SSHVerified   bool          `json:"ssh_verified"`
	SSHHostTrust  string        `json:"ssh_host_trust"`
	Network       string        `json:"network"`
	Facts         driver.Facts  `json:"facts,omitempty"`

	TTLHours   *float64 `json:"ttl_hours_remaining,omitempty"`
	GraceHours *float64 `json:"grace_hours_remaining,omitempty"`
	Running    *bool    `json:"actually_running,omitempty"`
}

// configuration says what was asked for, what it became, and why.
type configuration struct {
	SchemaVersion int `json:"schemaVersion"`
	Requested     struct {
		resources
		Wait     bool    `json:"wait"`
		TTLHours float64 `json:"ttl_hours"`
		VNC      bool    `json:"vnc"`
	} `json:"requested"`
	Effective struct {
		resources
		DiskMode   string    `json:"disk_mode"`
		Network    string    `json:"network"`
		Headless   bool      `json:"headless"`
		VNC        bool      `json:"vnc"`
		InitialTTL float64   `json:"initial_ttl_hours"`
		Readiness  readiness `json:"readiness"`
	} `json:"effective"`
	Sources struct {
		CPU      string `json:"cpu"`
		MemoryMB string `json:"memory_mb"`
		DiskGB   string `json:"disk_gb"`
	} `json:"sources"`
	Applied struct {
		Status     string   `json:"status"`
		ObservedAt *float64 `json:"observed_at"`
		Source     string   `json:"source"`
	} `json:"resources_applied"`
}

type readiness struct {
	Mode     string `json:"mode"`
	Transfer bool   `json:"transfer_verification"`
}

// wire is the lease as acquire answers it.
func (r record) wire(name string) wireLease {
	return wireLease{
		Machine: name, VM: name, Purpose: r.Purpose, Image: r.Image, ImageKind: imageKind, LeaseID: r.LeaseID,
		Configuration: r.configuration(), State: r.State, CreatedAt: unixSeconds(r.Created), TTLExpiresAt: unixSeconds(r.Expires),
		GraceUntil: optionalSeconds(r.Grace), Warned: r.Grace != nil,
		CPU: r.Requested.CPU, MemoryMB: r.Requested.MemoryMB, DiskGB: r.Requested.DiskGB,
		// There is no SSH: the driver has a channel of its own into the guest.
		SSHAuth: "guest-channel", SSHUser: "root", SSHVerified: r.Applied != nil, SSHHostTrust: "guest-channel",
		Network: r.Network, Facts: r.Facts,
	}
}

// snapshot adds what holds only now.
func (r record) snapshot(name string, now time.Time) wireLease {
	w := r.wire(name)
	left := hours(r.Expires.Sub(now))
	w.TTLHours = &left
	if r.Grace != nil {
		grace := hours(r.Grace.Sub(now))
		w.GraceHours = &grace
	}
	return w
}

func (r record) configuration() configuration {
	c := configuration{SchemaVersion: 1}
	c.Requested.resources, c.Requested.Wait, c.Requested.TTLHours = r.Requested, r.Wait, r.InitTTL.Hours()
	c.Effective.resources, c.Effective.Network, c.Effective.Headless = r.Effective, r.Network, true
	c.Effective.InitialTTL = r.InitTTL.Hours()
	c.Effective.DiskMode, c.Sources.DiskGB = "inherit", "source-image"
	if r.Requested.DiskGB != nil {
		c.Effective.DiskMode, c.Sources.DiskGB = "resize", "request"
	}
	c.Effective.Readiness = readiness{Mode: "normal", Transfer: true}
	if !r.Wait {
		c.Effective.Readiness.Mode = "bounded"
	}
	c.Sources.CPU, c.Sources.MemoryMB = source(r.Requested.CPU), source(r.Requested.MemoryMB)
	c.Applied.Status, c.Applied.Source = machine.StatePending, "driver"
	if r.Applied != nil {
		c.Applied.Status, c.Applied.ObservedAt = "applied", optionalSeconds(r.Applied)
	}
	return c
}

func source(requested *int) string {
	if requested != nil {
		return "request"
	}
	return "service-default"
}

func optionalSeconds(t *time.Time) *float64 {
	if t == nil {
		return nil
	}
	s := unixSeconds(*t)
	return &s
}
