// Package proc proves the identity of processes: a pid alone may be somebody else's by now; a pid with its start time and
// the boot's id is one process only, and a pidfd taken before that was checked cannot be turned to another.
package proc
