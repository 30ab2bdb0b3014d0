package callqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The dialogues in testdata show the queue at work: the commands are the events, and below them stands what it ordered.
func TestDialogues(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		queue, now := New(Limits{Waiting: 5}, start), start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.HasArg("at") {
				var at string
				d.ScanArgs(t, "at", &at)
				now = start.Add(duration(t, at))
			}
			var b strings.Builder
			for _, ev := range eventsOf(t, d, now) {
				for _, effect := range queue.Step(now, ev) {
					fmt.Fprintln(&b, effect)
				}
			}
			v := queue.View()
			fmt.Fprintf(&b, "-- running %q", v.Running)
			if v.Detached {
				b.WriteString(" detached")
			}
			fmt.Fprintf(&b, ", waiting %v\n", v.Waiting)
			return b.String()
		})
	})
}

func eventsOf(t *testing.T, d *datadriven.TestData, now time.Time) []Event {
	ids := d.CmdArgs
	id := func() CallID { return CallID(ids[0].Key) }
	switch d.Cmd {
	case "call":
		call := CallArrived{ID: id(), Concluding: d.HasArg("concluding")}
		if d.HasArg("within") {
			var within string
			d.ScanArgs(t, "within", &within)
			call.Expires = now.Add(duration(t, within))
		}
		return []Event{call}
	case "calls":
		var events []Event
		for _, arg := range ids {
			events = append(events, CallArrived{ID: CallID(arg.Key)})
		}
		return events
	case "done":
		return []Event{CallDone{id()}}
	case "cancel":
		return []Event{CallCancelled{id()}}
	case "tick":
		return []Event{Ticked{}}
	case "close":
		return []Event{Closing{Last: id()}}
	case "cut-off":
		return []Event{CuttingOff{}}
	}
	t.Fatalf("no such command: %s", d.Cmd)
	return nil
}

func duration(t *testing.T, text string) time.Duration {
	v, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
