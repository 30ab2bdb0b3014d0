package background

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// startTime is when this process started, in clock ticks since boot.
func startTime() uint64 {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	// The command's name, in parentheses, may hold anything; the fields after it are counted from the third.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const index = 22 - 3
	if len(fields) <= index {
		return 0
	}
	ticks, err := strconv.ParseUint(string(fields[index]), 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}

func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
