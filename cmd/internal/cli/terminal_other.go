//go:build !linux

package cli

import "os"

// A character device that is not the null device is near enough elsewhere.
func isTerminal(f *os.File) bool { return f.Name() != os.DevNull }
