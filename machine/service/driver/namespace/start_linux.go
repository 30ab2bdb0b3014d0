package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/guestinit"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

// stepError is a step of the start that failed, in the driver or in the guest.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return fmt.Sprintf("cannot %s: %v", e.step, e.err) }
func (e *stepError) Unwrap() error { return e.err }

// started is an init that waits for its configuration and has done nothing yet.
type started struct {
	pid     int
	handle  *proc.Handle
	control *net.UnixConn
}

// start starts the init of a guest. When the driver dies before configure, init ends by itself.
func (d *hostDriver) start(folder, name string, id identity) (*started, error) {
	program, err := d.binary.path(d.opt.Executable)
	if err != nil {
		return nil, &stepError{"copy the program for the guest", err}
	}
	files, control, err := guestFiles(folder, id)
	if err != nil {
		return nil, &stepError{"make the guest's sockets", err}
	}
	defer closeAll(files)
	log, err := os.OpenFile(filepath.Join(folder, logFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		control.Close()
		return nil, &stepError{"open the guest's log", err}
	}
	defer log.Close()
	pidfd := -1
	cmd := &exec.Cmd{
		Path: program, Args: stageArgs(stageSetup, d.mark, name), Dir: "/", Env: []string{"GOMAXPROCS=2"},
		Stderr: log, ExtraFiles: files,
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
			Setsid:     true, // a terminal's interrupt is not for guests
			PidFD:      &pidfd,
		},
	}
	id.apply(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		control.Close()
		return nil, &stepError{stepNamespaces, err}
	}
	go func() { _ = cmd.Wait() }() // reaped whenever it ends; who needs to know holds a pidfd
	return &started{pid: cmd.Process.Pid, handle: proc.Hold(pidfd), control: control}, nil
}

// guestFiles makes the files that init is given by number: control, listener, slot.
func guestFiles(folder string, id identity) ([]*os.File, *net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	listener, err := listen(folder)
	if err != nil {
		theirs.Close()
		conn.Close()
		return nil, nil, err
	}
	files := []*os.File{theirs, listener}
	if id.lock != nil {
		lock, err := duplicate(id.lock)
		if err != nil {
			closeAll(files)
			conn.Close()
			return nil, nil, err
		}
		files = append(files, lock)
	}
	return files, conn.(*net.UnixConn), nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// listen makes the listening socket in the guest's folder, for the folder's owner alone. A folder's path may be longer
// than a socket's address, so the way leads through a descriptor of it.
func listen(folder string) (*os.File, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: descriptorPath(dir) + "/" + socketFile})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	if err := os.Chmod(filepath.Join(folder, socketFile), 0o600); err != nil {
		return nil, err
	}
	return listener.File()
}

// configure lets init go on, and waits until the guest is ready.
func (s *started) configure(ctx context.Context, setup guestinit.SetupConfig, init guestinit.InitConfig) (guestinit.Report, error) {
	stop := context.AfterFunc(ctx, func() { s.control.Close() })
	defer stop()
	var report guestinit.Report
	err := wire.Send(s.control, wire.KindRequest, setup)
	if err == nil {
		err = wire.Send(s.control, wire.KindRequest, init)
	}
	// A broken pipe may mean that init has already said what failed.
	if readErr := wire.Receive(s.control, wire.KindAnswer, &report); readErr != nil {
		if ctx.Err() != nil {
			return report, &stepError{stepWait, ctx.Err()}
		}
		return report, &stepError{stepWait, errors.Join(errors.New("it ended"), err, readErr)}
	}
	if report.Step == "" {
		return report, nil
	}
	cause := errors.New(report.Error)
	if report.Errno != 0 {
		cause = &reported{text: report.Error, errno: unix.Errno(report.Errno)}
	}
	return report, &stepError{report.Step, cause}
}

// reported is an error of the guest that keeps its number.
type reported struct {
	text  string
	errno unix.Errno
}

func (e *reported) Error() string { return e.text }
func (e *reported) Unwrap() error { return e.errno }
