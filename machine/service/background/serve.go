package background

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
)

// Serve runs a machine-service in this process and publishes it in the runtime folder for as long as it runs. It is what the
// program that Ensure starts does. Without cfg.Listen it takes opt.Port on both loopback families, or any free port if that
// one is taken. opt.Ready is called once it can be asked.
func Serve(ctx context.Context, cfg service.Config, opt Options) error {
	opt.fill()
	if cfg.Listen == "" {
		cfg.Listen, cfg.AnyPort = net.JoinHostPort("localhost", strconv.Itoa(max(opt.Port, 0))), true
	}
	s, err := service.Open(ctx, cfg)
	if err != nil {
		return err
	}
	_, portText, err := net.SplitHostPort(s.Addr())
	port, portErr := strconv.Atoi(portText)
	if err := errors.Join(err, portErr); err != nil {
		return errors.Join(fmt.Errorf("cannot tell the service's port: %w", err), s.Close())
	}
	err = Publish(opt.RuntimeDir, Record{
		PID: os.Getpid(), StartTime: startTime(), BootID: bootID(), Nonce: s.Instance(), Port: port, UID: os.Getuid(),
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if opt.Ready != nil {
		opt.Ready(s.Addr())
	}
	stopTrimming := trimWhile(ctx, os.Stderr)
	defer stopTrimming()
	return errors.Join(s.Serve(ctx), Withdraw(opt.RuntimeDir, s.Instance()))
}
