package downloadqueue_test

import (
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/downloadqueue"
)

func Example() {
	queue := downloadqueue.New(downloadqueue.Limits{}, time.Time{})
	for _, event := range []downloadqueue.Event{
		downloadqueue.JobQueued{Key: "session/step-1"},
		downloadqueue.JobQueued{Key: "session/step-2"},
		downloadqueue.DrainAsked{},
		downloadqueue.Recorded{Key: "session/step-2"},
		downloadqueue.JobEnded{Key: "session/step-1", End: downloadqueue.Downloaded},
		downloadqueue.Recorded{Key: "session/step-1"},
	} {
		for _, effect := range queue.Step(time.Time{}, event) {
			fmt.Println(effect)
		}
	}
	// Output:
	// begin session/step-1
	// record session/step-2 coalesced
	// record session/step-1 downloaded
	// drained
}
