package service

import (
	"context"
	"errors"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// maxOutput is how many code points of a command's output are answered, from its end.
const maxOutput = 64_000

// outputBytes is enough for them, with a character cut at the front.
const outputBytes = maxOutput*4 + 4

type execAnswer struct {
	Machine string `json:"machine"`
	VM      string `json:"vm"`
	RC      int    `json:"rc"`
	Output  string `json:"output"`
}

// exec runs one command in the machine, after those that came before it. Once sent it runs to its end, whatever becomes of
// the request.
func (s *Service) exec(name string, argv []string, timeout time.Duration) (execAnswer, error) {
	guest, l, err := s.running(name)
	if err != nil {
		return execAnswer{}, err
	}
	if err := l.commands.take(l.ctx); err != nil {
		return execAnswer{}, interrupted("command", err)
	}
	defer l.commands.give()
	code, output, err := guest.Exec(l.ctx, argv, timeout, outputBytes)
	if err != nil {
		return execAnswer{}, execFailure(l, name, timeout, lastRunes(output), err)
	}
	return execAnswer{Machine: name, VM: name, RC: code, Output: lastRunes(output)}, nil
}

// lastRunes is the end of the output as text; bytes that are no UTF-8 become U+FFFD.
func lastRunes(output []byte) string {
	runes := []rune(string(output))
	return string(runes[max(0, len(runes)-maxOutput):])
}

func execFailure(l *live, name string, timeout time.Duration, output string, err error) error {
	var drivers *driver.Refusal
	switch {
	case l.ctx.Err() != nil:
		return interrupted("command", context.Cause(l.ctx))
	case errors.Is(err, driver.ErrTimeout):
		r := refuse(machine.CodeExecTimeout, "ssh failed: the command in %s was still running after %s and was killed", name, timeout)
		r.Output = output
		return r
	case errors.Is(err, driver.ErrGone):
		return refuse(machine.CodeMachineGone, "ssh failed: %s ended before or while the command ran, which may have had an effect until then", name)
	case errors.As(err, &drivers):
		return asRefusal(err)
	}
	return uncertain(machine.CodeExecTransport, err, "ssh failed: %v", err)
}

// interrupted words the end of an operation that its lease's end, or the service's, cut short.
func interrupted(what string, cause error) error {
	if errors.Is(cause, errReleased) {
		return refuse(machine.CodePreempted, "%s cancelled by release", what)
	}
	return uncertain(machine.CodeInternal, cause, "%s cut short: machine-service is stopping", what)
}
