package guestinit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

// step is one named part of a start; its name is what the user reads when it fails.
type step struct {
	name string
	run  func() error
}

func runSteps(steps []step) *Report {
	for _, s := range steps {
		if err := s.run(); err != nil {
			return failed(s.name, err)
		}
	}
	return nil
}

func failed(name string, err error) *Report {
	r := &Report{Step: name, Error: err.Error()}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}

// fail tells the driver, if it is still there, and the log.
func fail(control *os.File, r *Report) int {
	fmt.Fprintf(os.Stderr, "guest: cannot %s: %s\n", r.Step, r.Error)
	_ = wire.Send(control, wire.KindAnswer, r)
	return 1
}
