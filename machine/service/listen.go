package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// checkListen accepts host:port with a loopback host.
func checkListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("cannot listen on %q: %w", address, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("cannot listen on %q: the port must be 0 to 65535", address)
	}
	if !isLoopback(host) {
		return fmt.Errorf("cannot listen on %q: only loopback is served; use localhost, 127.0.0.1 or ::1", address)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// listen binds the address; "localhost" means both families on one port, where the host has both.
func listen(ctx context.Context, address string, anyPort bool) ([]net.Listener, error) {
	listeners, err := listenAt(ctx, address)
	if errors.Is(err, syscall.EADDRINUSE) && anyPort {
		host, _, _ := net.SplitHostPort(address) // checked before
		listeners, err = listenAt(ctx, net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return listeners, nil
}

func listenAt(ctx context.Context, address string) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if host != "localhost" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		return []net.Listener{l}, err
	}
	// The kernel picks a free port for one family only; if the other's is taken, another is tried.
	for range 10 {
		var both []net.Listener
		if both, err = listenBoth(ctx, port); err == nil || port != "0" {
			return both, err
		}
	}
	return nil, err
}

func listenBoth(ctx context.Context, port string) ([]net.Listener, error) {
	var config net.ListenConfig
	four, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	bound := strconv.Itoa(four.Addr().(*net.TCPAddr).Port)
	six, err := config.Listen(ctx, "tcp6", net.JoinHostPort("::1", bound))
	switch {
	case err == nil:
		return []net.Listener{four, six}, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return []net.Listener{four}, nil // a host without IPv6
	}
	return nil, errors.Join(err, four.Close())
}
