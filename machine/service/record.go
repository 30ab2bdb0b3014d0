package service

import (
	"fmt"
	"math"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// record is one lease as state.json keeps it.
type record struct {
	Purpose   string        `json:"purpose"`
	Image     string        `json:"image"`
	LeaseID   string        `json:"leaseId"`
	Nonce     string        `json:"nonce"` // between service and guest; never on the wire
	State     string        `json:"state"`
	Reason    string        `json:"reason,omitempty"` // why it is releasing
	Network   string        `json:"network"`
	Created   time.Time     `json:"created"`
	Expires   time.Time     `json:"expires"`         // end of the TTL
	Grace     *time.Time    `json:"grace,omitempty"` // end of the grace; set while the lease is past its TTL
	InitTTL   time.Duration `json:"initialTtlNs"`
	Wait      bool          `json:"wait"`
	Requested resources     `json:"requested"`
	Effective resources     `json:"effective"`
	Applied   *time.Time    `json:"applied,omitempty"` // when the driver had made it so
	Facts     driver.Facts  `json:"facts,omitempty"`
}

// resources are null where nothing was asked for.
type resources struct {
	CPU      *int `json:"cpu"`
	MemoryMB *int `json:"memory_mb"`
	DiskGB   *int `json:"disk_gb"`
}

// check refuses a record that the service could not have written.
func (r record) check(name string) error {
	if !leaseName.MatchString(name) {
		return fmt.Errorf("%q is not a machine name", name)
	}
	switch r.State {
	case machine.StatePending, machine.StateProvisioning, machine.StateRunning, machine.StateReleasing:
	default:
		return fmt.Errorf("machine %s has state %q", name, r.State)
	}
	if r.Purpose == "" || r.Image == "" || r.LeaseID == "" || r.Nonce == "" || r.Created.IsZero() || r.Expires.IsZero() {
		return fmt.Errorf("machine %s lacks part of its record", name)
	}
	return nil
}

// renew gives the lease a new end and ends its grace.
func (r *record) renew(now time.Time, ttl time.Duration) {
	r.Expires, r.Grace = now.Add(ttl), nil
}

// release makes the lease end. The first reason stays.
func (r *record) release(reason string) {
	if r.State != machine.StateReleasing {
		r.State, r.Reason = machine.StateReleasing, reason
	}
}

// fate is what the reaper does about a lease.
type fate int

const (
	fateKeep     fate = iota
	fateWarn          // past its TTL for the first time: its grace begins
	fateReclaim       // past its TTL and its grace
	fateTearDown      // its end was decided before and has not succeeded yet
)

// judge decides the fate of a lease by its record and the time alone.
func (r record) judge(now time.Time) fate {
	switch {
	case r.State == machine.StateReleasing:
		return fateTearDown
	case now.Before(r.Expires):
		return fateKeep
	case r.Grace == nil:
		return fateWarn
	case now.Before(*r.Grace):
		return fateKeep
	}
	return fateReclaim
}

// wallClock is the time without Go's monotonic reading: a lease goes on ending while the host sleeps.
func wallClock() time.Time { return time.Now().Round(0) }

// unixSeconds is a time as the wire has it.
func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()/1000) / 1e6 }

// hours is a duration as the wire has it, rounded to two places.
func hours(d time.Duration) float64 { return math.Round(d.Hours()*100) / 100 }
