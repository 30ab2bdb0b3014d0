// Package proptest holds the property tests of the project, and the test of its layering. It has no code of its own.
//
// Layer A tells a pure core random facts and has an independent checker watch what it orders. Layer B drives the real engine in a
// synctest bubble and compares it with a model. Neither sleeps on the wall clock. A failure prints the seed that repeats it:
//
//	go test ./proptest -run 'TestRestartCore' -seed 42
//
// TestMutants proves that the tests can fail: it plants known faults into copies of the code, one at a time, and expects each to be
// caught. It runs when it is named:
//
//	go test ./proptest -run Mutants -v
package proptest
