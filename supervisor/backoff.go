package supervisor

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Exponential makes a Backoff for Options: the first restart in a row waits initial, each further one twice as long as the one before,
// none longer than limit. Both must be positive.
func Exponential(initial, limit time.Duration) func(n int) time.Duration {
	delays := exponentialDelays(initial, limit)
	return func(n int) time.Duration {
		return delays[min(max(n, 1), len(delays))-1]
	}
}

// exponentialDelays lists the delays up to the first that has reached the limit.
func exponentialDelays(initial, limit time.Duration) []time.Duration {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(initial, limit)), backoff.WithMaxInterval(limit), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0))
	var delays []time.Duration
	for {
		delay := policy.NextBackOff()
		delays = append(delays, delay)
		if delay <= 0 || delay >= limit {
			return delays
		}
	}
}
