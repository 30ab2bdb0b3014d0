package callqueue_test

import (
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/callqueue"
)

func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	queue := callqueue.New(callqueue.Limits{}, now)
	for _, event := range []callqueue.Event{
		callqueue.CallArrived{ID: "stage"},
		callqueue.CallArrived{ID: "script"},
		callqueue.CallCancelled{ID: "script"},
		callqueue.CallDone{ID: "stage"},
	} {
		for _, effect := range queue.Step(now, event) {
			fmt.Println(effect)
		}
	}
	// Output:
	// start stage
	// refuse script (cancelled)
	// answer stage
}
