package guestinit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/wire"
)

const (
	guestPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	home      = "/root"

	// largestOutput bounds what one command's output may take of init's memory, in bytes.
	largestOutput = 1 << 20

	// killWait is how long the processes of a killed command may take to be gone.
	killWait = 10 * time.Second
)

// Exit statuses of commands that cannot be started, as shells give them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

func (s *server) environment() []string {
	env := []string{"PATH=" + guestPath, "HOME=" + home, "USER=root", "LOGNAME=root", "LANG=C.UTF-8", "SHELL=/bin/sh"}
	if s.display != "" {
		env = append(env, "DISPLAY="+displayName)
	}
	return env
}

// exec runs one command to its end. That the peer closes the connection does not end the command; KindKill does.
func (s *server) exec(conn net.Conn, request wire.Request) {
	if len(request.Argv) == 0 || request.Argv[0] == "" || strings.Contains(strings.Join(request.Argv, ""), "\x00") {
		answer(conn, wire.Answer{Fault: wire.FaultBad, Error: "no command, or a zero byte in it"})
		return
	}
	read, write, err := os.Pipe()
	if err != nil {
		answer(conn, wire.Answer{Fault: wire.FaultStart, Error: err.Error()})
		return
	}
	pid, ended, err := s.startCommand(request.Argv, write)
	write.Close()
	if err != nil {
		read.Close()
		answerNotStarted(conn, request.Argv[0], err)
		return
	}
	out := collect(read, min(max(request.Limit, 0), largestOutput))
	result := s.await(conn, pid, ended, time.Duration(request.TimeoutMS)*time.Millisecond)
	text, left := out.finish()
	result.Left = left
	answerWith(conn, result, text)
}

func (s *server) startCommand(argv []string, out *os.File) (int, <-chan unix.WaitStatus, error) {
	path, err := lookPath(argv[0])
	if err != nil {
		return 0, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	return s.children.start(path, argv, s.environment(), home, null, out, out)
}

func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	found := error(fs.ErrNotExist)
	for dir := range strings.SplitSeq(guestPath, ":") {
		path := dir + "/" + name
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
		found = fs.ErrPermission
	}
	return "", found
}

func answerNotStarted(conn net.Conn, name string, err error) {
	code := 0
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = codeNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR):
		code = codeNotExecutable
	default:
		answer(conn, wire.Answer{Fault: wire.FaultStart, Error: fmt.Sprintf("cannot start %q: %v", name, err)})
		return
	}
	answerWith(conn, wire.Answer{Code: code}, fmt.Appendf(nil, "cannot start %q: %v\n", name, err))
}

// await waits for the end of the command, by itself, by its deadline or by the peer's wish.
func (s *server) await(conn net.Conn, pid int, ended <-chan unix.WaitStatus, timeout time.Duration) wire.Answer {
	var deadline <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		deadline = timer.C
	}
	result := wire.Answer{}
	select {
	case status := <-ended:
		result.Code = exitCode(status)
		return result
	case <-deadline:
		result.TimedOut = true
	case <-killAsked(conn):
		result.Killed = true
	}
	if !endSession(pid, killWait) {
		result.Fault = wire.FaultFailed
		result.Error = "the command was killed, but some of its processes are not gone yet"
		return result
	}
	result.Code = exitCode(<-ended)
	return result
}

// killAsked yields when the peer asks for the command's end, and never when the peer just goes away.
func killAsked(conn net.Conn) <-chan struct{} {
	asked := make(chan struct{})
	go func() {
		if kind, _, err := wire.ReadFrame(conn); err == nil && kind == wire.KindKill {
			close(asked)
		}
	}()
	return asked
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
