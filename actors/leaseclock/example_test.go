package leaseclock_test

import (
	"fmt"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors/leaseclock"
)

func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := leaseclock.New(leaseclock.Limits{Window: 15 * time.Minute, Minimum: 6 * time.Minute}, now)

	lease := leaseclock.Lease{ID: "login-test-1", Deadline: now.Add(4 * time.Hour), Expires: now.Add(15 * time.Minute)}
	for _, effect := range clock.Step(now, leaseclock.OperationBegan{Lease: lease}) {
		fmt.Println(effect)
	}
	now, _ = clock.Next()
	for _, effect := range clock.Step(now, leaseclock.Ticked{}) {
		fmt.Println(effect)
	}
	// Output:
	// save active=true
	// beat 1 for 15m0s
}
