package leaseclock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Times in the dialogues count from the lease's start.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The dialogues in testdata show the clock at work: the commands are the events, and below them stands what it ordered.
func TestDialogues(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		clock, now := New(Limits{}, start), start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.HasArg("at") {
				var at string
				d.ScanArgs(t, "at", &at)
				now = start.Add(duration(t, at))
			}
			switch d.Cmd {
			case "new":
				clock = New(Limits{Window: durationArg(t, d, "window"), Minimum: durationArg(t, d, "minimum")}, start)
				now = start
				return ""
			case "run":
				return runUntil(clock, &now, start.Add(durationArg(t, d, "until")))
			}
			return told(clock.Step(now, eventOf(t, d))) + wanted(clock, start)
		})
	})
}

func eventOf(t *testing.T, d *datadriven.TestData) Event {
	lease := LeaseID("a")
	if d.HasArg("lease") {
		d.ScanArgs(t, "lease", &lease)
	}
	var number int
	if d.HasArg("beat") {
		d.ScanArgs(t, "beat", &number)
	}
	switch d.Cmd {
	case "operation":
		l := Lease{ID: lease, Deadline: start.Add(durationArg(t, d, "deadline"))}
		if d.HasArg("expires") {
			l.Expires = start.Add(durationArg(t, d, "expires"))
		}
		return OperationBegan{l}
	case "answered":
		return BeatAnswered{Beat{lease, number}, start.Add(durationArg(t, d, "expires"))}
	case "failed":
		return BeatFailed{Beat{lease, number}, "no answer"}
	case "tick":
		return Ticked{}
	case "pause":
		return PauseAsked{"the session ends"}
	case "stop":
		return StopAsked{"the release failed"}
	case "gone":
		return LeaseGone{}
	}
	t.Fatalf("no such command: %s", d.Cmd)
	return nil
}

// runUntil answers every beat within 1 s and lets time pass from one wish of the clock to the next.
func runUntil(clock *Clock, now *time.Time, until time.Time) string {
	beats, last, out := 0, "", ""
	tell := func(effects []Effect) {
		for _, e := range effects {
			out += fmt.Sprintf("%v: %v\n", now.Sub(start), e)
		}
	}
	for {
		next, ok := clock.Next()
		if !ok || next.After(until) {
			break
		}
		*now = next
		for _, e := range clock.Step(*now, Ticked{}) {
			beat, sent := e.(SendBeat)
			if !sent {
				tell([]Effect{e})
				continue
			}
			beats++
			last = fmt.Sprintf("last beat at %v for %v", now.Sub(start), beat.Ask)
			confirmed := now.Add(beat.Ask)
			*now = now.Add(time.Second)
			tell(clock.Step(*now, BeatAnswered{beat.Beat, confirmed}))
		}
	}
	return fmt.Sprintf("%d beats, %s\n%s", beats, last, out) + wanted(clock, start)
}

func told(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func wanted(clock *Clock, start time.Time) string {
	v := clock.View()
	text := v.Phase
	if v.InFlight {
		text += ", one in flight"
	}
	if next, ok := clock.Next(); ok {
		text += fmt.Sprintf(", next at %v", next.Sub(start))
	}
	return "-- " + text + "\n"
}

func durationArg(t *testing.T, d *datadriven.TestData, name string) time.Duration {
	var text string
	d.ScanArgs(t, name, &text)
	return duration(t, text)
}

func duration(t *testing.T, text string) time.Duration {
	v, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
