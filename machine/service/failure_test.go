package service_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

// A failure that another attempt may mend is a 503; one that stays is a 409 which says what failed, and where.
func TestFailuresInTheGuestSayWhatFailed(t *testing.T) {
	s := serve(t, nil)
	name, file := s.acquire("failures").Name, filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		drivertest.OpPush: func() error { return s.client().Push(t.Context(), name, file, file+"2") },
		drivertest.OpPull: func() error { return s.client().Pull(t.Context(), name, file, file+"3") },
		drivertest.OpExec: func() error {
			_, err := s.client().Exec(t.Context(), name, machine.ExecRequest{Argv: []string{"true"}, Timeout: time.Second})
			return err
		},
	}
	gone := fmt.Errorf("%w: m", driver.ErrGone)
	lost := fmt.Errorf("%w: m: broken pipe", driver.ErrUnreachable)
	full := &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}
	for _, test := range []struct {
		name, op string
		fault    error
		status   int
		code     string
		want     string
	}{
		{"push, no answer", drivertest.OpPush, lost, 503, machine.CodeTransferFailed, "broken pipe"},
		{"pull, no answer", drivertest.OpPull, lost, 503, machine.CodeTransferFailed, "broken pipe"},
		{"exec, no answer", drivertest.OpExec, lost, 503, machine.CodeExecTransport, "broken pipe"},
		{"push, gone", drivertest.OpPush, gone, 409, machine.CodeMachineGone, "not running on the host any more"},
		{"pull, gone", drivertest.OpPull, gone, 409, machine.CodeMachineGone, "not running on the host any more"},
		{"exec, gone", drivertest.OpExec, gone, 409, machine.CodeMachineGone, "may have had an effect"},
		{"pull, host disk", drivertest.OpPull, full, 409, machine.CodeTransferFailed, "the disk of this host is full"},
		{"push, guest disk", drivertest.OpPush, fmt.Errorf("%w: f", driver.ErrFull), 409, machine.CodeTransferFailed, "the disk of the guest is full"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.driver.Fail(test.op, test.fault)
			err := calls[test.op]()
			var e *machine.Error
			if !errors.As(err, &e) || e.Status != test.status || e.Code != test.code || !strings.Contains(e.Message, test.want) {
				t.Fatalf("%s = %v, want %d %s with %q", test.op, err, test.status, test.code, test.want)
			}
			if got := machine.Transient(err); got != (test.status == 503) {
				t.Errorf("Transient(%v) = %t", err, got)
			}
		})
	}
}
