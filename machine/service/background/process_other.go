//go:build !linux

package background

func startTime() uint64 { return 0 }

func bootID() string { return "" }
