// Package fake is machine-service in this process, with scripted faults, for the tests of everything above it.
//
// Its machines are names only: Exec runs the command on this host, and Push and Pull copy between paths of this host.
// Tests give temporary folders as guest paths. It passes machinetest.API, so that it cannot promise what the service does not.
package fake
