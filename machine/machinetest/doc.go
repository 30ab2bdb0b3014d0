// Package machinetest holds the conformance suites of machine-service: API for whatever implements machine.API (the fake,
// and the client in front of the service), Driver for whatever makes machines. What passes may be put in another's place.
package machinetest
