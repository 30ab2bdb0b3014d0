package actorstest

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
)

// Log is what probes write down, in order.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Add writes a line.
func (l *Log) Add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// Take gives the lines written since the last Take.
func (l *Log) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// Probe is a behaviour that does what its test tells it to and writes down what happens to it. The zero Probe comes up, answers nothing,
// and stops when it is asked to.
type Probe struct {
	Name      string
	Log       *Log          // nil: nothing is written
	InitError error         // of Init
	InitTime  time.Duration // that Init blocks
	StopTime  time.Duration // from Stop to the end, without blocking
	Ignore    bool          // Stop altogether
}

// Messages to a probe.
type (
	Panic  struct{ Value any }            // panics in Handle
	Goexit struct{}                       // ends the goroutine in Handle
	End    struct{ Reason error }         // returns the reason from Handle
	Block  struct{ For time.Duration }    // blocks in Handle, which no real behaviour may
	Do     struct{ F func(*actors.Ctx) }  // runs F in Handle
	Echo   struct{ actors.Reply[string] } // answers with the probe's name
)

type stopNow struct{ reason error }

// Init comes up as it is told to.
func (p *Probe) Init(*actors.Ctx) error {
	if p.InitTime > 0 {
		time.Sleep(p.InitTime)
	}
	p.note("init")
	return p.InitError
}

// Handle does what the message says.
func (p *Probe) Handle(c *actors.Ctx, msg any) error {
	switch m := msg.(type) {
	case Panic:
		panic(m.Value)
	case Goexit:
		runtime.Goexit()
	case End:
		return m.Reason
	case Block:
		time.Sleep(m.For)
	case Do:
		m.F(c)
	case Echo:
		m.Send(p.Name)
	case stopNow:
		return m.reason
	case actors.Stop:
		return p.stop(c, m)
	default:
		p.note("got %v", m)
	}
	return nil
}

func (p *Probe) stop(c *actors.Ctx, m actors.Stop) error {
	p.note("stop")
	if p.Ignore {
		return nil
	}
	if p.StopTime > 0 {
		c.After(stopNow{}, p.StopTime, stopNow{m.Err()})
		return nil
	}
	return m.Err()
}

// Terminate writes down the reason.
func (p *Probe) Terminate(_ *actors.Ctx, reason error) error {
	p.note("end: %v", reason)
	return nil
}

func (p *Probe) note(format string, args ...any) {
	if p.Log == nil {
		return
	}
	if p.Name != "" {
		format = p.Name + " " + format
	}
	p.Log.Add(format, args...)
}
