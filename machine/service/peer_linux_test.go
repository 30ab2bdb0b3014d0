package service

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// The owner of a connection's other end is found while it is open. A closed end has no owner, though the kernel goes on
// listing it, under user 0.
func TestOwnerOfTheOtherEnd(t *testing.T) {
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		l, err := net.Listen(network, address)
		if network == "tcp6" && err != nil {
			continue // a host without IPv6 has no such connections
		}
		t.Run(network, func(t *testing.T) {
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			client, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			local, remote := netip.MustParseAddrPort(client.LocalAddr().String()), netip.MustParseAddrPort(client.RemoteAddr().String())
			if uid, err := socketOwner(local, remote); err != nil || uid != os.Getuid() {
				t.Errorf("socketOwner = %d, %v, want %d", uid, err, os.Getuid())
			}
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			if uid, err := socketOwner(local, remote); err == nil {
				t.Errorf("socketOwner of a closed end = %d, want an error", uid)
			}
		})
	}
}

func TestKernelsFormOfAnAddress(t *testing.T) {
	cases := []struct {
		name, column, address string
		want                  bool
	}{
		{"IPv4", "0100007F:1860", "127.0.0.1:6240", true},
		{"another port", "0100007F:1861", "127.0.0.1:6240", false},
		{"another address", "0200007F:1860", "127.0.0.1:6240", false},
		{"IPv6", "00000000000000000000000001000000:1860", "[::1]:6240", true},
		{"mapped", "0000000000000000FFFF00000100007F:1860", "127.0.0.1:6240", true},
		{"garbage", "xyz", "127.0.0.1:6240", false},
		{"short", "01:1860", "127.0.0.1:6240", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := sameAddress(c.column, netip.MustParseAddrPort(c.address)); got != c.want {
				t.Errorf("sameAddress = %t, want %t", got, c.want)
			}
		})
	}
}
