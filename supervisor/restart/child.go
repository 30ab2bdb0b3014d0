package restart

import "time"

// Phase is where an incarnation of a child is.
type Phase int

const (
	Down     Phase = iota // no incarnation lives
	Waiting               // down, until a restart's backoff is over
	Starting              // made, and not up yet
	Up                    // it came up
	Stopping              // asked to end
)

func (p Phase) String() string {
	return [...]string{"down", "waiting", "starting", "up", "stopping"}[p]
}

// child is what the core knows about one child.
type child struct {
	spec        ChildSpec
	incarnation uint64 // the last one made; zero: none yet
	phase       Phase
	deadline    time.Time // of waiting, starting or stopping; zero: none
	upSince     time.Time

	want    bool // to be up
	recycle bool // to be stopped and started again, because a sibling failed
	asked   bool // its start was asked for at run time and has not succeeded yet: failing is an answer, not a failure
	added   bool // it was added at run time and has never been up
	forget  bool // to be dropped once it is down

	row      int // restarts in a row
	restarts int // all of them
	lastExit error
}

// ChildView is a copy of what the core knows about one child.
type ChildView struct {
	Spec        ChildSpec
	Incarnation uint64 // the last one made; zero: none yet
	Phase       Phase
	Wanted      bool
	Restarts    int
	LastExit    error // nil when none has ended
}

func (c *child) view() ChildView {
	return ChildView{Spec: c.spec, Incarnation: c.incarnation, Phase: c.phase, Wanted: c.want, Restarts: c.restarts, LastExit: c.lastExit}
}

func (c *child) alive() bool { return c.phase >= Starting }

// setDown ends the books of an incarnation.
func (c *child) setDown() {
	c.phase, c.deadline = Down, time.Time{}
}

// unwant keeps the child from coming back.
func (c *child) unwant() {
	c.want = false
	if c.phase == Waiting {
		c.setDown()
	}
}

// until is when d from now is over; the zero time, never, for Infinity.
func until(now time.Time, d time.Duration) time.Time {
	if d == Infinity {
		return time.Time{}
	}
	return now.Add(d)
}
