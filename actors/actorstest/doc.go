// Package actorstest tests actors on virtual time: an engine in a synctest bubble, and a probe that does what its test tells it to.
//
// In a bubble time stands still until every goroutine waits, so that timeouts of hours pass at once, and an answer that never comes is
// reported as a deadlock.
package actorstest
