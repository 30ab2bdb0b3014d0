// Package guest is what a guest is on the host: its ownership record and owner lock, the confinement of the paths it may
// read, and the work on it - stage, run, image, extract, finish, release, reconcile. It is a plain library: nothing here
// starts a goroutine that outlives a call. Callers (the lane of a guest) make one call at a time; Beat and Status may come beside it.
package guest
