package background

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	logName  = "machine-service.log"
	maxLog   = 4 << 20 // a log larger than this is cut
	keptLog  = 1 << 20 // to its last part
	tailShow = 2 << 10 // how much of it an error shows
	trimTime = time.Minute
)

// openLog opens the log that the service's stdout and stderr go to, cut to its bound.
func openLog(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, logName), os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of machine-service: %w", err)
	}
	trim(f)
	return f, nil
}

// trimWhile keeps the log of this process within its bound until stop is called, if f is a log at all.
func trimWhile(ctx context.Context, f *os.File) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() {
		ticker := time.NewTicker(trimTime)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				trim(f)
			}
		}
	})
	return func() {
		cancel()
		loop.Wait()
	}
}

// trim cuts a log to its last part. Only a regular file opened for appending is one: what appends goes on at the new end.
func trim(f *os.File) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() <= maxLog {
		return
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_APPEND == 0 || flags&unix.O_ACCMODE != unix.O_RDWR {
		return
	}
	kept := make([]byte, keptLog)
	n, err := f.ReadAt(kept, info.Size()-keptLog)
	if err != nil && err != io.EOF {
		return
	}
	if f.Truncate(0) == nil {
		_, _ = f.Write(kept[:n]) // a full disk loses old log lines, nothing else
	}
}

// lastLines is the end of the log from the offset on, for an error message.
func lastLines(f *os.File, from int64) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	start := max(min(from, info.Size()), info.Size()-tailShow)
	text := make([]byte, info.Size()-start)
	n, err := f.ReadAt(text, start)
	if err != nil && err != io.EOF {
		return ""
	}
	return string(text[:n])
}
