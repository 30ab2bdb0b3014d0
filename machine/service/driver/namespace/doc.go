// Package namespace makes guests out of Linux namespaces: container-grade machines that need neither KVM nor a container
// engine, and work as root and as an ordinary user.
package namespace
