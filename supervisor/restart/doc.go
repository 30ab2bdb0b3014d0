// Package restart decides what a supervisor does: whom it starts and in which order, whom it stops, who comes back after an exit, and
// when restarting has become pointless. The rules are those of Erlang/OTP's supervisor.
//
// It is pure: no clock, no goroutine, no actor. Core.Step takes in one fact and answers with the orders that follow from it; Core.Next
// says when the core wants to be told that time has passed. Whoever carries the orders out (package supervisor) reports what became of
// them as further facts.
//
// Every child has a state that is wanted and a phase that it is in. A fact changes one or the other; then one reconciler, the same after
// every fact, orders the steps that bring the phases nearer to what is wanted:
//
//  1. stop what is unwanted or due for recycling, last first, one at a time where order matters;
//  2. start nothing while something is stopping, where order matters;
//  3. when ending and everybody is down: exit;
//  4. start what is wanted, first first, each after the one before is up, where order matters.
//
// The strategies differ in one place only: whom the failure of a child makes due for recycling.
package restart
