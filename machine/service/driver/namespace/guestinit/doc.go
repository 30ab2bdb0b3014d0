// Package guestinit is what runs as pid 1 of a guest. It has two stages of one process:
//
// Setup runs on one thread with all capabilities of the guest's user namespace: it waits until the driver has put it in
// its control groups, builds the root file system, leaves the host's, brings up the loopback interface, gives up every
// capability a guest does not need, installs the system call filter, and executes itself again as the second stage.
//
// Init reaps, starts the display, and serves the driver's requests on a socket that the driver made in the guest's folder
// on the host before it started us. It outlives the service that made it, answers to the next one, and ends by itself
// when the lease's end and the grace have passed without a renewal: with it every process of the guest ends.
package guestinit
