// Package downloadqueue decides when the evidence of past steps is brought over from one guest: one job at a time, in order, never
// in the way of a call. It is pure: the downloads actor tells it facts and carries out what it orders.
//
// A job ends exactly once, unless the queue closes: downloaded, failed, cancelled or coalesced (taken over by a drain). It counts as
// ended only when its record is written. A job that fails for a passing reason pauses the queue until an operation on the guest
// succeeds or a job is promoted and downloaded. Nothing here outlives the process, and losing it loses no evidence: what was not
// brought over is pulled when the guest is finished.
package downloadqueue
