// Package leaseclock decides when the lease of one guest is renewed, for how long, and when no longer. It is pure: it has no
// clock of its own and sends nothing; the lease actor tells it facts and carries out what it orders.
//
// The rules: a beat asks for at most one window, never reaches past the lease's deadline, and is never shorter than what
// machine-service grants. One beat is in flight at a time. Less than the shortest renewal before the deadline the renewing
// stops, and the lease is left to run out; nothing here ever releases a machine. A pause waits for a beat in flight, so that its
// answer cannot shorten the last one, and then asks once for all the time that is left.
package leaseclock
