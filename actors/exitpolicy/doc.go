// Package exitpolicy decides what becomes of the held guests when a session ends, however it ends: they are paused (renewed once
// for the time that is left, and let go of) or released (destroyed with proof). It is pure: the session tells it facts and carries
// out what it orders.
//
// First everything is asked in order, behind the work in flight, and has the grace to settle. Then the work in flight is cancelled
// and what is left has the tail. What is not settled even then is settled beside the order of calls, within the last budget. Quit is
// ordered exactly once, at the latest when all three are over. A guest whose release failed is left alone: its lease ends
// within its last window.
package exitpolicy
