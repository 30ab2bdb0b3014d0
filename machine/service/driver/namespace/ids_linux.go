package namespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// idRange is a run of the host's user and group ids that a guest has as 0, 1, ...
type idRange struct{ first, size int }

// Ranges lie where no distribution puts accounts and systemd puts no containers. Root in a guest is its range's first
// id: nobody on the host.
const (
	firstGuestID = 0x70000000
	guestIDs     = 0x10000
	mostSlots    = 4000
)

// spareIDs are left out at the end of a container's ids, where nobody and the like are.
const spareIDs = 1000

// rangeOf returns the range of a slot. uidMap is the text of /proc/self/uid_map: a container whose root has few ids gets
// ranges of one id from the end of what it has.
func rangeOf(uidMap string, slot int) (idRange, error) {
	full := idRange{first: firstGuestID + slot*guestIDs, size: guestIDs}
	small := idRange{}
	for line := range strings.Lines(uidMap) {
		var inner, outer, size int
		if _, err := fmt.Sscan(line, &inner, &outer, &size); err != nil {
			return idRange{}, fmt.Errorf("cannot read the user id map: %w", err)
		}
		if inner <= full.first && full.first+full.size <= inner+size {
			return full, nil
		}
		if id := inner + size - spareIDs - slot; id > inner && id > spareIDs {
			small = idRange{first: id, size: 1}
		}
	}
	if small.size == 0 {
		return idRange{}, errors.New("no user id is left for a guest in this user namespace")
	}
	return small, nil
}

// isGuestID says whether a user id of the host may be a guest's of a service that runs as root.
func isGuestID(uid int) bool { return uid >= firstGuestID && uid < firstGuestID+mostSlots*guestIDs }

// slotFile holds one lock per slot, at the byte of its number, for all services on the host. The open file goes to the
// guest's init, so a slot is taken exactly as long as its guest lives, whoever else dies.
const slotFile = "/run/mcp-relay/uid-slots"

// takeSlot finds a free slot.
func takeSlot() (int, *os.File, error) {
	if err := os.MkdirAll(filepath.Dir(slotFile), 0o700); err != nil {
		return 0, nil, err
	}
	file, err := os.OpenFile(slotFile, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, nil, err
	}
	for slot := range mostSlots {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: int64(slot), Len: 1}
		err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock)
		if err == nil {
			return slot, file, nil
		}
		if err != unix.EAGAIN && err != unix.EACCES {
			file.Close()
			return 0, nil, fmt.Errorf("lock %s: %w", slotFile, err)
		}
	}
	file.Close()
	return 0, nil, fmt.Errorf("all %d ranges of user ids are taken", mostSlots)
}

// identity is who a guest's processes are on the host.
type identity struct {
	isolation string
	ids       idRange
	slot      *int
	lock      *os.File // nil without a slot
}

func (id identity) close() {
	if id.lock != nil {
		id.lock.Close()
	}
}

// chooseIdentity takes a range of ids as root, and the user's own id otherwise: the kernel grants no other.
func chooseIdentity() (identity, error) {
	if os.Geteuid() != 0 {
		return identity{isolation: isolationUser, ids: idRange{first: os.Geteuid(), size: 1}}, nil
	}
	slot, lock, err := takeSlot()
	if err != nil {
		return identity{}, err
	}
	uidMap, err := os.ReadFile("/proc/self/uid_map")
	if err == nil {
		var ids idRange
		if ids, err = rangeOf(string(uidMap), slot); err == nil {
			return identity{isolation: isolationIDMap, ids: ids, slot: &slot, lock: lock}, nil
		}
	}
	lock.Close()
	return identity{}, err
}

// apply makes the child root of a user namespace in which it has these ids only.
func (id identity) apply(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	gid := id.ids.first
	if id.isolation == isolationUser {
		gid = os.Getegid()
	} else {
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0} // and no supplementary groups
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id.ids.first, Size: id.ids.size}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: id.ids.size}}
}
