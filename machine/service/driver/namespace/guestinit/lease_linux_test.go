package guestinit

import (
	"testing"
	"testing/synctest"
	"time"
)

// D41: the backstop needs nobody. The guest ends at the lease's end plus the grace, and a renewal moves that.
func TestLeaseEndsAtDeadlineAndFollowsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLease(InitConfig{DeadlineUnixMS: start.Add(time.Hour).UnixMilli(), GraceMS: time.Hour.Milliseconds()})
		ended := make(chan time.Duration)
		go func() { l.wait(); ended <- time.Since(start) }()
		time.Sleep(59 * time.Minute)
		l.renew(start.Add(5 * time.Hour))
		if got := <-ended; got != 6*time.Hour {
			t.Errorf("ended after %s, want 6h", got)
		}
	})
}

func TestLeaseThatIsCutShortEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := newLease(InitConfig{})
		ended := make(chan time.Duration)
		go func() { l.wait(); ended <- time.Since(start) }()
		time.Sleep(24 * time.Hour)
		l.renew(time.Now())
		if got := <-ended; got != 24*time.Hour {
			t.Errorf("ended after %s, want 24h: a lease without an end never ends, one renewed until now ends now", got)
		}
	})
}
