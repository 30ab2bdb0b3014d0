// Package drivertest is a driver for the tests of machine-service: its machines are a process each, in the machine's folder,
// and commands run on this host beside it. A machine survives the process that made it, as a real one does, and every
// process that belongs to it carries its nonce in the environment, so that Destroy and Sweep find them all.
package drivertest
