package service

import (
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// The reaper's decisions by record and time alone: TTL, then grace, then the end; a heartbeat before that undoes it.
func TestFateOfALease(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	grace := at(100)
	cases := []struct {
		name  string
		state string
		grace *time.Time
		now   time.Time
		want  fate
	}{
		{"within its TTL", machine.StateRunning, nil, at(9), fateKeep},
		{"at the end of its TTL", machine.StateRunning, nil, at(10), fateWarn},
		{"in its grace", machine.StateRunning, &grace, at(99), fateKeep},
		{"at the end of its grace", machine.StateRunning, &grace, at(100), fateReclaim},
		{"still being made", machine.StateProvisioning, &grace, at(100), fateReclaim},
		{"releasing within its TTL", machine.StateReleasing, nil, at(0), fateTearDown},
		{"releasing long after", machine.StateReleasing, &grace, at(1000), fateTearDown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := record{State: c.state, Expires: at(10), Grace: c.grace}
			if got := r.judge(c.now); got != c.want {
				t.Errorf("judge = %d, want %d", got, c.want)
			}
		})
	}
	r := record{State: machine.StateRunning, Expires: at(10), Grace: &grace}
	r.renew(at(99), time.Hour)
	if got := r.judge(at(100)); got != fateKeep || r.Grace != nil {
		t.Errorf("after a renewal in its grace: %d, grace %v", got, r.Grace)
	}
}

func TestFirstReasonOfAReleaseStays(t *testing.T) {
	r := record{State: machine.StateRunning}
	r.release("ttl-expired")
	r.release("requested")
	if r.State != machine.StateReleasing || r.Reason != "ttl-expired" {
		t.Errorf("record = %+v", r)
	}
}
