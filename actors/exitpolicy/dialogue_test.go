package exitpolicy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The dialogues in testdata show the policy at work: the commands are the events, and below them stands what it ordered.
func TestDialogues(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		policy, now := New(Limits{Grace: 2 * time.Minute}, Pause, start), start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.HasArg("at") {
				now = start.Add(durationArg(t, d, "at"))
			}
			if d.Cmd == "new" {
				policy = New(Limits{Grace: durationArg(t, d, "grace")}, Choice(d.CmdArgs[0].Key), start)
				return ""
			}
			var b strings.Builder
			for _, effect := range policy.Step(now, eventOf(t, d)) {
				fmt.Fprintln(&b, effect)
			}
			fmt.Fprintf(&b, "-- %s", policy.View().Phase)
			if next, ok := policy.Next(); ok {
				fmt.Fprintf(&b, " until %v", next.Sub(start))
			}
			return b.String() + "\n"
		})
	})
}

func eventOf(t *testing.T, d *datadriven.TestData) Event {
	name := func() string { return d.CmdArgs[0].Key }
	switch d.Cmd {
	case "end":
		end := EndSeen{Trigger: "the client is gone"}
		for _, arg := range d.CmdArgs {
			if arg.Key != "at" {
				end.Guests = append(end.Guests, arg.Key)
			}
		}
		return end
	case "settled":
		return GuestSettled{name()}
	case "failed":
		return GuestFailed{name(), "no answer"}
	case "tick":
		return Ticked{}
	}
	t.Fatalf("no such command: %s", d.Cmd)
	return nil
}

func durationArg(t *testing.T, d *datadriven.TestData, name string) time.Duration {
	var text string
	d.ScanArgs(t, name, &text)
	v, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
