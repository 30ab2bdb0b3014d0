package guestinit

import (
	"sync/atomic"
	"time"
)

// lookEvery is how long a sleep of the lease may be. Sleeps do not count while the machine is suspended and the lease
// ends by the wall clock, so none is long.
const lookEvery = 5 * time.Second

// lease ends the guest when nobody renews it.
type lease struct {
	grace    time.Duration
	deadline atomic.Int64 // unix milliseconds; 0 for none
	renewed  chan struct{}
}

func newLease(cfg InitConfig) *lease {
	l := &lease{grace: time.Duration(cfg.GraceMS) * time.Millisecond, renewed: make(chan struct{}, 1)}
	l.deadline.Store(cfg.DeadlineUnixMS)
	return l
}

func (l *lease) renew(until time.Time) {
	l.deadline.Store(until.Add(l.grace).UnixMilli())
	select {
	case l.renewed <- struct{}{}:
	default: // wait will look anyway
	}
}

// wait returns when the deadline has passed.
func (l *lease) wait() {
	for {
		pause := lookEvery
		if at := l.deadline.Load(); at != 0 {
			left := time.Duration(at-time.Now().UnixMilli()) * time.Millisecond
			if left <= 0 {
				return
			}
			pause = min(pause, left)
		}
		select {
		case <-l.renewed:
		case <-time.After(pause):
		}
	}
}
