package namespace

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also the init of guests, a program that runs in them, and a service that gets killed.
func TestMain(m *testing.M) {
	if IsStage(os.Args) {
		os.Exit(Main(os.Args))
	}
	if len(os.Args) > 2 && os.Args[1] == probeArg {
		os.Exit(runProbe(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) > 2 && os.Args[1] == serviceArg {
		os.Exit(runService(os.Args[2], os.Args[3]))
	}
	if len(os.Args) > 2 && os.Args[1] == checkArg {
		os.Exit(runCheck(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == listArg {
		os.Exit(runList())
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
