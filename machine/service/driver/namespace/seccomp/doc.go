// Package seccomp holds the system call filter of a guest: a deny list of what has no place in one (mounts, namespaces,
// modules, keys, other doors into the kernel) and an allow list of socket families, because a network namespace does not
// cut off the others (a guest without network could still open a vsock to the hypervisor).
package seccomp
