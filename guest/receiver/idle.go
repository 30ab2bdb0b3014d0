package receiver

import (
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Of idle.
const (
	idleLongest = 10 * time.Minute
	idlePoll    = 50 * time.Millisecond
)

// idle waits for so many milliseconds until no run is in progress, and says whether one still is. It leaves no trace.
func idle(root, wait string) (protocol.Idle, error) {
	ms, err := strconv.ParseInt(wait, 10, 64)
	if err != nil || ms < 0 || ms > idleLongest.Milliseconds() {
		return protocol.Idle{}, failure(protocol.CodeInvalid, "", "a wait of %q milliseconds is not between 0 and %d", wait, idleLongest.Milliseconds())
	}
	path := filepath.Join(root, lockDir, lockName)
	file, err := openFile(root, path)
	if err != nil && failureOf(err).Code == protocol.CodeMissing {
		return protocol.Idle{}, nil // nothing ever ran
	}
	if err != nil {
		return protocol.Idle{}, err
	}
	defer file.Close() // and with it the lock, if we got it
	deadline := time.Now().Add(time.Duration(ms) * time.Millisecond)
	for {
		err := flock(file)
		if err == nil {
			return protocol.Idle{}, nil
		}
		if !errors.Is(err, errBusy) {
			return protocol.Idle{}, failure(protocol.CodeIO, path, "%v", err)
		}
		left := time.Until(deadline)
		if left <= 0 {
			return busy(root)
		}
		time.Sleep(min(left, idlePoll))
	}
}

// busy names the run in progress. One that has just begun, or is just ending, has no name here.
func busy(root string) (protocol.Idle, error) {
	o, err := (&lock{path: filepath.Join(root, lockDir, ownerName)}).read()
	if err != nil {
		return protocol.Idle{}, failure(protocol.CodeIO, "", "%v", err)
	}
	if o.Phase == phaseSettled {
		o.ExecutionID = ""
	}
	return protocol.Idle{Busy: true, ExecutionID: o.ExecutionID}, nil
}
