package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// record is a runtime that writes down what it is told.
type record struct{ lines []string }

func (r *record) add(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *record) StartChild(id string, n uint64)         { r.add("start %s %d", id, n) }
func (r *record) StopChild(id string, n uint64, _ error) { r.add("stop %s %d", id, n) }
func (r *record) KillChild(id string, n uint64)          { r.add("kill %s %d", id, n) }
func (r *record) Wake(after time.Duration)               { r.add("wake in %v", after) }
func (r *record) Rest()                                  { r.add("rest") }
func (r *record) Ready()                                 { r.add("ready") }

func (r *record) take() []string {
	lines := r.lines
	r.lines = nil
	return lines
}

// The shell carries out the orders in their order, keeps one wake-up, and tells what happened.
func TestShellCarriesOutTheOrdersAndTellsEvents(t *testing.T) {
	crash := errors.New("crash")
	now := time.Unix(0, 0)
	done := &record{}
	var events []string
	shell, err := NewShell("root", Options{Intensity: Intensity{MaxRestarts: 1, Period: time.Minute}, Backoff: Exponential(time.Second, time.Second)},
		[]ChildSpec{{ID: "a", Start: 3 * time.Second, Shutdown: 2 * time.Second}}, done, func(e Event) {
			events = append(events, fmt.Sprintf("%s %v: %s", e.Level(), e.Name(), e.Message()))
		})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func() error
		want []string
		exit error
	}{
		{"begin", func() error { return shell.Begin(now) }, []string{"start a 1", "wake in 3s"}, nil},
		{"up", func() error { return shell.Up(now, "a", 1) }, []string{"ready", "rest"}, nil},
		{"crash", func() error { return shell.Down(now, "a", 1, crash) }, []string{"wake in 1s"}, nil},
		{"stale", func() error { return shell.Down(now, "a", 1, crash) }, []string{"wake in 1s"}, nil},
		{"waited", func() error { now = now.Add(time.Second); return shell.Tick(now) }, []string{"start a 2", "wake in 3s"}, nil},
		{"too slow", func() error { now = now.Add(3 * time.Second); return shell.Tick(now) }, []string{"kill a 2", "rest"}, ErrIntensity},
	} {
		if exit := step.do(); !errors.Is(exit, step.exit) || exit == nil != (step.exit == nil) {
			t.Errorf("%s: exit = %v, want %v", step.name, exit, step.exit)
		}
		if got := done.take(); !slices.Equal(got, step.want) {
			t.Errorf("%s: orders = %q, want %q", step.name, got, step.want)
		}
	}
	want := []string{
		"DEBUG child.started: a started",
		"WARN child.exited: a ended: crash",
		"WARN child.restarting: a is restarted in 1s after: crash",
		"ERROR child.abandoned: a was abandoned while starting",
		"ERROR supervisor.escalated: root gave up: more than 1 restarts within 1m0s, the last of a: start timeout",
	}
	if !slices.Equal(events, want) {
		t.Errorf("events\n got %q\nwant %q", events, want)
	}
}

func TestRefusalsAreAnswered(t *testing.T) {
	now := time.Unix(0, 0)
	shell, err := NewShell("root", Options{}, []ChildSpec{{ID: "a", Start: 1, Shutdown: 1}}, &record{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if exit := shell.Begin(now); exit != nil {
		t.Fatal(exit)
	}
	for _, tt := range []struct {
		name string
		ask  func() (refusal, exit error)
		want error
	}{
		{"add what exists", func() (error, error) { return shell.Add(now, ChildSpec{ID: "a", Start: 1, Shutdown: 1}) }, ErrExists},
		{"restart what runs", func() (error, error) { return shell.Restart(now, "a") }, ErrRunning},
		{"terminate nobody", func() (error, error) { return shell.Terminate(now, "b") }, ErrUnknown},
		{"terminate", func() (error, error) { return shell.Terminate(now, "a") }, nil},
		{"remove", func() (error, error) { return shell.Remove(now, "a") }, nil},
	} {
		if refusal, exit := tt.ask(); !errors.Is(refusal, tt.want) || exit != nil {
			t.Errorf("%s: refusal = %v, want %v; exit = %v", tt.name, refusal, tt.want, exit)
		}
	}
}

func TestExponentialDoublesUpToItsLimit(t *testing.T) {
	backoff := Exponential(100*time.Millisecond, time.Second)
	var got []time.Duration
	for n := range 7 {
		got = append(got, backoff(n).Round(time.Millisecond))
	}
	ms := time.Millisecond
	if want := []time.Duration{100 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms}; !slices.Equal(got, want) {
		t.Errorf("delays = %v, want %v", got, want)
	}
}

func TestBoundsAddUpWhereOneFollowsTheOther(t *testing.T) {
	specs := []ChildSpec{{ID: "a", Start: 1, Shutdown: 5}, {ID: "b", Start: 2, Shutdown: BrutalKill}, {ID: "c", Start: 3, Shutdown: 7}}
	endless := append(slices.Clone(specs), ChildSpec{ID: "d", Start: 1, Shutdown: Infinity})
	for _, tt := range []struct {
		name     string
		strategy Strategy
		specs    []ChildSpec
		stop     time.Duration
		start    time.Duration
	}{
		{"in turn", OneForOne, specs, 12, 6},
		{"together", SimpleOneForOne, specs, 7, 3},
		{"endless", RestForOne, endless, Infinity, 7},
	} {
		options := Options{Strategy: tt.strategy}
		if stop, start := StopBound(options, tt.specs), StartBound(options, tt.specs); stop != tt.stop || start != tt.start {
			t.Errorf("%s: stop %v, start %v, want %v, %v", tt.name, stop, start, tt.stop, tt.start)
		}
	}
}

// An orderly end is no news for an operator; anything else is.
func TestExitLevelFollowsTheReason(t *testing.T) {
	for _, tt := range []struct {
		reason error
		want   slog.Level
	}{
		{ErrNormal, slog.LevelDebug}, {fmt.Errorf("session over: %w", ErrShutdown), slog.LevelDebug}, {ErrKilled, slog.LevelWarn},
	} {
		e := Exited{Child{"root", "a", 1}, tt.reason}
		if e.Level() != tt.want || e.Fields()["reason"] != tt.reason.Error() || e.Fields()["child"] != "a" {
			t.Errorf("%v: level = %v, fields = %v", tt.reason, e.Level(), e.Fields())
		}
	}
}
