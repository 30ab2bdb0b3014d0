package restart

import (
	"math"
	"time"
)

// Strategy says who is restarted when a child fails.
type Strategy int

const (
	OneForOne       Strategy = iota // the failed child alone
	OneForAll                       // every child
	RestForOne                      // the failed child and those started after it
	SimpleOneForOne                 // the failed child alone; children are added at run time, and all stop at once
)

func (s Strategy) String() string {
	return [...]string{"one_for_one", "one_for_all", "rest_for_one", "simple_one_for_one"}[s]
}

// inGroups says whether the strategy restarts children together, so that the order of starting and stopping always matters.
func (s Strategy) inGroups() bool { return s == OneForAll || s == RestForOne }

// Restart says whether a child comes back after it ended by itself.
type Restart int

const (
	Permanent Restart = iota // always
	Transient                // unless it ended with ErrNormal or ErrShutdown
	Temporary                // never, not even when a sibling's failure stopped it
)

func (r Restart) String() string { return [...]string{"permanent", "transient", "temporary"}[r] }

// Type says what a child is.
type Type int

const (
	Worker Type = iota
	Supervisor
)

func (t Type) String() string { return [...]string{"worker", "supervisor"}[t] }

// AutoShutdown says whether the end of significant children ends their supervisor.
type AutoShutdown int

const (
	Never          AutoShutdown = iota
	AnySignificant              // when one significant child ended for good by itself
	AllSignificant              // when the last one did
)

func (a AutoShutdown) String() string {
	return [...]string{"never", "any_significant", "all_significant"}[a]
}

// Values of ChildSpec.Shutdown that are not a length of time.
const (
	BrutalKill time.Duration = -1            // the child is not asked to stop: it is killed and abandoned at once
	Infinity   time.Duration = math.MaxInt64 // the child may take as long as it likes
)

// ChildSpec describes a child. It is a value: a core keeps its own copy.
type ChildSpec struct {
	ID          string        // unique among the children of one supervisor; not empty
	Restart     Restart       // zero: Permanent
	Start       time.Duration // how long coming up may take; required, Infinity allowed
	Shutdown    time.Duration // how long a stop may take before the child is abandoned; required: BrutalKill, a time, or Infinity
	Type        Type          // zero: Worker
	Significant bool          // its end may end the supervisor, see AutoShutdown; not for permanent children
}

// Intensity bounds restarting: more than MaxRestarts within any Period end the supervisor itself.
type Intensity struct {
	MaxRestarts int           // zero: the first failure ends the supervisor
	Period      time.Duration // required unless MaxRestarts is zero
}

// Options describe a supervisor.
type Options struct {
	Strategy     Strategy
	Intensity    Intensity
	AutoShutdown AutoShutdown

	// Backoff tells how long the n-th restart in a row of a child waits, n from 1. A row ends when the child stayed up for a whole
	// Period. Nil: no waiting. It must be a pure function.
	Backoff func(n int) time.Duration
}
