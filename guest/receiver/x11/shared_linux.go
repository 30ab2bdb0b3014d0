package x11

import (
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

// fetchShared reads the pixels through a shared memory segment (MIT-SHM), which spares two copies through the socket.
func fetchShared(conn *xgb.Conn, root xproto.Window, l layout) ([]byte, func(), error) {
	if err := shm.Init(conn); err != nil {
		return nil, nil, fmt.Errorf("the X server has no shared memory: %w", err)
	}
	size := l.stride * l.height
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make shared memory: %w", err)
	}
	memory, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return nil, nil, fmt.Errorf("cannot attach shared memory: %w", err)
	}
	release := func() { _ = unix.SysvShmDetach(memory) }
	err = fillShared(conn, root, l, id)
	// Marked for removal only now: other systems than Linux refuse to attach a marked segment, and so may its sandboxes.
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if err != nil {
		release()
		return nil, nil, err
	}
	return memory[:size], release, nil
}

func fillShared(conn *xgb.Conn, root xproto.Window, l layout, id int) error {
	segment, err := shm.NewSegId(conn)
	if err != nil {
		return fmt.Errorf("cannot name shared memory: %w", err)
	}
	if err := shm.AttachChecked(conn, segment, uint32(id), false).Check(); err != nil {
		return fmt.Errorf("the X server cannot attach shared memory: %w", err)
	}
	defer shm.Detach(conn, segment)
	reply, err := shm.GetImage(conn, xproto.Drawable(root), 0, 0, uint16(l.width), uint16(l.height), allPlanes,
		xproto.ImageFormatZPixmap, segment, 0).Reply()
	if err != nil {
		return fmt.Errorf("the X server did not give the picture: %w", err)
	}
	if int(reply.Size) < l.stride*l.height {
		return fmt.Errorf("the X server gave %d bytes where a picture has %d", reply.Size, l.stride*l.height)
	}
	return nil
}
