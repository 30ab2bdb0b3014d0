package guestinit

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

// threads are made at the start, more than init ever uses at a time: when a guest has used up its processes none can be
// made, and the runtime would end the process over it.
const threads = 24

// Init runs the second stage until the lease is over, and returns the exit status.
func Init() int {
	// Nobody in the guest may read our memory, our files or our root: see kept.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 1
	}
	for fd := controlFD; fd <= slotFD; fd++ {
		unix.CloseOnExec(fd)
	}
	swallowSignals()
	control := os.NewFile(controlFD, "control")
	var cfg InitConfig
	if err := wire.Receive(control, wire.KindRequest, &cfg); err != nil {
		return fail(control, failed("read the configuration", err))
	}
	s := &server{nonce: cfg.Nonce, children: newChildren(), lease: newLease(cfg), transfers: make(chan struct{}, mostTransfers)}
	var listener net.Listener
	report := runSteps([]step{
		{"start threads", warmThreads},
		{"start the display", func() error { return s.openDisplay(cfg.Geometry) }},
		{"listen", func() (err error) { listener, err = inheritedListener(); return err }},
	})
	if report != nil {
		return fail(control, report)
	}
	go func() {
		fmt.Fprintf(os.Stderr, "guest: cannot serve: %v\n", s.serve(listener))
		os.Exit(1)
	}()
	_ = wire.Send(control, wire.KindAnswer, Report{Display: s.display}) // a driver that died is succeeded by another
	control.Close()
	s.lease.wait()
	fmt.Fprintln(os.Stderr, "guest: nobody renewed the lease: ending")
	return 0
}

func (s *server) openDisplay(geometry string) error {
	if geometry == "" || !DisplayAvailable() {
		return nil
	}
	if err := s.startDisplay(geometry); err != nil {
		return err
	}
	s.display = geometry
	return nil
}

// swallowSignals keeps a guest's processes from ending init: the kernel drops those that init does not handle, and the
// runtime handles most. The channel is never read.
func swallowSignals() { signal.Notify(make(chan os.Signal, 1)) }

func warmThreads() error {
	var all, ready sync.WaitGroup
	release := make(chan struct{})
	for range threads {
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	all.Wait()
	return nil
}

func inheritedListener() (net.Listener, error) {
	file := os.NewFile(listenerFD, "listener")
	defer file.Close()
	return net.FileListener(file)
}
