//go:build !linux && !darwin

package evidence

func renameNoReplace(temp, path string) error { return linkAndRemove(temp, path) }
