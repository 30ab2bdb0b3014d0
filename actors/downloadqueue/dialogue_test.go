package downloadqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The dialogues in testdata show the queue at work: the commands are the events, and below them stands what it ordered.
func TestDialogues(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		queue := New(Limits{Bound: 2}, time.Time{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for _, ev := range eventsOf(t, d) {
				for _, effect := range queue.Step(time.Time{}, ev) {
					fmt.Fprintln(&b, effect)
				}
			}
			v := queue.View()
			fmt.Fprintf(&b, "-- %s", v.State)
			for _, mark := range []struct {
				on   bool
				word string
			}{{v.Paused, "paused"}, {v.Full, "full"}} {
				if mark.on {
					b.WriteString(", " + mark.word)
				}
			}
			fmt.Fprintf(&b, ", in flight %q, queued %v, %v\n", v.InFlight, v.Queued, v.Counts)
			return b.String()
		})
	})
}

func eventsOf(t *testing.T, d *datadriven.TestData) []Event {
	var keys []Key
	for _, arg := range d.CmdArgs {
		keys = append(keys, Key(arg.Key))
	}
	switch d.Cmd {
	case "queue":
		var events []Event
		for _, key := range keys {
			events = append(events, JobQueued{key})
		}
		return events
	case "promote":
		return []Event{Promoted{keys[0]}}
	case "downloaded":
		return []Event{JobEnded{Key: keys[0], End: Downloaded}}
	case "failed":
		return []Event{JobEnded{Key: keys[0], End: Failed, Transient: d.HasArg("transient")}}
	case "recorded":
		return []Event{Recorded{keys[0]}}
	case "operation-ended":
		return []Event{OperationEnded{}}
	case "drain":
		return []Event{DrainAsked{}}
	case "reopen":
		return []Event{Reopened{}}
	case "close":
		return []Event{Closed{}}
	}
	t.Fatalf("no such command: %s", d.Cmd)
	return nil
}
