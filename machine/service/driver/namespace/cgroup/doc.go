// Package cgroup limits a guest's memory, processes and CPU with control groups, version 1, version 2 or both side by
// side, without systemd. Every guest gets a group of its own name below one parent, Parent, in each hierarchy that is
// needed and may be written to: at its top as root, in the delegated part as an ordinary user. What cannot be limited is
// said with the reason; it is for the caller to report it.
package cgroup
