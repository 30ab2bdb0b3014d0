package exitpolicy_test

import (
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/exitpolicy"
)

func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	policy := exitpolicy.New(exitpolicy.Limits{Grace: 2 * time.Minute}, exitpolicy.Pause, now)
	for _, event := range []exitpolicy.Event{
		exitpolicy.EndSeen{Trigger: "the client closed its side", Guests: []string{"login-test-1"}},
		exitpolicy.GuestSettled{Name: "login-test-1"},
	} {
		for _, effect := range policy.Step(now, event) {
			fmt.Println(effect)
		}
	}
	// Output:
	// stop admitting (the client closed its side)
	// pause login-test-1 in its turn
	// quit 0
}
