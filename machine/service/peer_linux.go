package service

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// socketOwner finds the user whose socket has local as its own address and remote as the other end, in the kernel's table
// of this network namespace. A socket that no process holds any more has no owner.
func socketOwner(local, remote netip.AddrPort) (uid int, err error) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		uid, found, err := searchTable(table, local, remote)
		if found || err != nil {
			return uid, err
		}
	}
	return 0, errors.New("the other end of the connection is not in the kernel's tables")
}

func searchTable(path string, local, remote netip.AddrPort) (uid int, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil // a kernel without this family
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
		if len(columns) < 10 || !sameAddress(columns[1], local) || !sameAddress(columns[2], remote) {
			continue
		}
		if columns[9] == "0" {
			continue // closed by its process: the table shows it under user 0
		}
		uid, err := strconv.Atoi(columns[7])
		if err != nil {
			return 0, false, fmt.Errorf("cannot read the owner in %s: %w", path, err)
		}
		return uid, true, nil
	}
	return 0, false, lines.Err()
}

// sameAddress compares the kernel's hexadecimal form, 32-bit words in host order and a port, with an address.
func sameAddress(column string, want netip.AddrPort) bool {
	address, port, ok := strings.Cut(column, ":")
	if !ok {
		return false
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(number) != want.Port() {
		return false
	}
	raw, err := hex.DecodeString(address)
	if err != nil || len(raw)%4 != 0 {
		return false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return ok && ip.Unmap() == want.Addr().Unmap().WithZone("")
}
