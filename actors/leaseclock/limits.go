package leaseclock

import "time"

// Limits of a clock. Zero values take the default.
type Limits struct {
	Window  time.Duration // the most that one beat asks for; default 15 min. Shorter finds a dead host sooner, and beats more often
	Minimum time.Duration // the least that machine-service grants; default 6 min, at most Window
	Cadence time.Duration // from one beat's sending to the next; default a third of Window, at most 60 s
	Retry   time.Duration // from a failed beat to the next, doubled with each further failure up to Cadence; default Cadence/12
}

const (
	defaultWindow  = 15 * time.Minute
	defaultMinimum = 6 * time.Minute
	longestCadence = time.Minute
)

// WithDefaults fills what has a default.
func (l Limits) WithDefaults() Limits {
	if l.Window <= 0 {
		l.Window = defaultWindow
	}
	if l.Minimum <= 0 {
		l.Minimum = defaultMinimum
	}
	l.Minimum = min(l.Minimum, l.Window)
	if l.Cadence <= 0 {
		l.Cadence = min(longestCadence, l.Window/3)
	}
	if l.Retry <= 0 {
		l.Retry = l.Cadence / 12
	}
	return l
}

// retryAfter is how long to wait after the nth failure in a row, n from 1.
func (l Limits) retryAfter(n int) time.Duration {
	wait := max(l.Retry, 1)
	for ; n > 1 && wait < l.Cadence; n-- {
		wait *= 2
	}
	return min(wait, l.Cadence)
}
