package restart

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesWhatIsWrong(t *testing.T) {
	ok := ChildSpec{ID: "a", Start: time.Second, Shutdown: time.Second}
	group := Options{Strategy: OneForAll, Intensity: Intensity{MaxRestarts: 3, Period: 6 * time.Second}}
	with := func(change func(*ChildSpec)) []ChildSpec {
		spec := ok
		change(&spec)
		return []ChildSpec{spec}
	}
	for _, tt := range []struct {
		name    string
		options Options
		specs   []ChildSpec
		want    string // empty: valid
	}{
		{"nobody", Options{}, nil, ""},
		{"one", Options{}, []ChildSpec{ok}, ""},
		{"the same id twice", Options{}, []ChildSpec{ok, ok}, "same id"},
		{"no id", Options{}, with(func(s *ChildSpec) { s.ID = "" }), "id is empty"},
		{"no start time", Options{}, with(func(s *ChildSpec) { s.Start = 0 }), "Start is not positive"},
		{"no shutdown", Options{}, with(func(s *ChildSpec) { s.Shutdown = 0 }), "Shutdown is neither"},
		{"brutal kill", Options{}, with(func(s *ChildSpec) { s.Shutdown = BrutalKill }), ""},
		{"infinity", group, with(func(s *ChildSpec) { s.Shutdown = Infinity }), ""},
		{"unknown restart", Options{}, with(func(s *ChildSpec) { s.Restart = 7 }), "restart type"},
		{"unknown type", Options{}, with(func(s *ChildSpec) { s.Type = 7 }), "type is unknown"},
		{"unknown strategy", Options{Strategy: 9}, nil, "strategy"},
		{"unknown auto-shutdown", Options{AutoShutdown: 9}, nil, "auto-shutdown"},
		{"negative restarts", Options{Intensity: Intensity{MaxRestarts: -1}}, nil, "negative"},
		{"no period", Options{Intensity: Intensity{MaxRestarts: 1}}, nil, "Period"},
		{"a stop as long as Period/MaxRestarts", group, with(func(s *ChildSpec) { s.Shutdown = 2 * time.Second }), "never be passed"},
		{"a stop just below", group, with(func(s *ChildSpec) { s.Shutdown = 2*time.Second - 1 }), ""},
		{"a long stop where nobody waits for it", Options{Intensity: group.Intensity}, with(func(s *ChildSpec) { s.Shutdown = time.Hour }), ""},
		{"a permanent child is significant", Options{AutoShutdown: AnySignificant}, with(func(s *ChildSpec) { s.Significant = true }), "permanent"},
		{"significant for nothing", Options{}, with(func(s *ChildSpec) { s.Significant, s.Restart = true, Transient }), "AutoShutdown"},
		{"significant", Options{AutoShutdown: AllSignificant}, with(func(s *ChildSpec) { s.Significant, s.Restart = true, Transient }), ""},
		{"a backoff that hides every failure", Options{Intensity: group.Intensity, Backoff: func(int) time.Duration { return 2 * time.Second }}, nil, "backoff"},
		{"a backoff that does not", Options{Intensity: group.Intensity, Backoff: func(int) time.Duration { return 2*time.Second - 1 }}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.options, tt.specs...)
			if tt.want == "" && err != nil {
				t.Fatalf("error = %v, want none", err)
			}
			if spec := (*SpecError)(nil); tt.want != "" && (!errors.As(err, &spec) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error = %v, want a SpecError with %q", err, tt.want)
			}
		})
	}
}

func TestValidateTellsEveryFault(t *testing.T) {
	err := Validate(Options{Strategy: 9}, []ChildSpec{{ID: "a"}, {ID: "a", Start: 1, Shutdown: 1}})
	for _, want := range []string{"strategy", "Start", "same id"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q in it", err, want)
		}
	}
}

// The table of OTP: who comes back after which end.
func TestRestartTypeAndReasonDecideWhoComesBack(t *testing.T) {
	crash := errors.New("crash")
	for _, tt := range []struct {
		name    string
		restart Restart
		reason  error
		want    bool
	}{
		{"permanent, normal", Permanent, ErrNormal, true},
		{"permanent, shutdown", Permanent, ErrShutdown, true},
		{"permanent, crash", Permanent, crash, true},
		{"transient, normal", Transient, ErrNormal, false},
		{"transient, shutdown", Transient, ErrShutdown, false},
		{"transient, crash", Transient, crash, true},
		{"transient, killed", Transient, ErrKilled, true},
		{"transient, intensity", Transient, &IntensityError{}, true},
		{"temporary, normal", Temporary, ErrNormal, false},
		{"temporary, crash", Temporary, crash, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(0, 0)
			core, err := New(Options{Intensity: Intensity{1, time.Minute}}, ChildSpec{ID: "a", Restart: tt.restart, Start: 1, Shutdown: 1})
			if err != nil {
				t.Fatal(err)
			}
			core.Step(now, Began{})
			core.Step(now, ChildStarted{"a", 1})
			core.Step(now, ChildExited{"a", 1, tt.reason})
			view, _ := core.Child("a")
			if got := view.Phase == Starting; got != tt.want {
				t.Errorf("started again = %t, want %t", got, tt.want)
			}
		})
	}
}

// An Infinity has no deadline, and the core no wish to be woken for it.
func TestNextIsTheEarliestDeadline(t *testing.T) {
	now := time.Unix(0, 0)
	core, err := New(Options{Strategy: SimpleOneForOne})
	if err != nil {
		t.Fatal(err)
	}
	core.Step(now, Began{})
	core.Step(now, AddAsked{ChildSpec{ID: "patient", Start: Infinity, Shutdown: 1}})
	if at, ok := core.Next(); ok {
		t.Errorf("next = %v, want none", at)
	}
	core.Step(now, AddAsked{ChildSpec{ID: "slow", Start: time.Minute, Shutdown: 1}})
	core.Step(now, AddAsked{ChildSpec{ID: "quick", Start: time.Second, Shutdown: 1}})
	if at, ok := core.Next(); !ok || !at.Equal(now.Add(time.Second)) {
		t.Errorf("next = %v, %t, want after 1s", at, ok)
	}
}
