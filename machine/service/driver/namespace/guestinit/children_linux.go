package guestinit

import (
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// children starts processes and reaps every process of the guest: its own children and the orphans that become so.
type children struct {
	mu      sync.Mutex // held while a child is started, so that it cannot be reaped before it is known
	waiters map[int]chan unix.WaitStatus
}

func newChildren() *children {
	c := &children{waiters: map[int]chan unix.WaitStatus{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			c.reap()
		}
	}()
	return c
}

func (c *children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if waiter, ok := c.waiters[pid]; ok {
			waiter <- status
			delete(c.waiters, pid)
		}
	}
}

// start starts path as the leader of a session of its own, with exactly these files. The channel yields its end.
func (c *children) start(path string, argv, env []string, dir string, files ...*os.File) (int, <-chan unix.WaitStatus, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true}}
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	waiter := make(chan unix.WaitStatus, 1)
	c.waiters[pid] = waiter
	preferToKill(pid)
	return pid, waiter, nil
}

// preferToKill makes the kernel, when memory is out, end a command (and what it starts) before it ends init.
func preferToKill(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("300"), 0)
}

// endSession kills every process of the session or the group that pid led, and says whether they are all gone.
func endSession(pid int, atMost time.Duration) bool {
	until := time.Now().Add(atMost)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		_ = unix.Kill(-pid, unix.SIGKILL)
		members, err := sessionMembers(pid)
		if err == nil && len(members) == 0 {
			return true
		}
		for _, m := range members {
			_ = unix.Kill(m, unix.SIGKILL)
		}
		if time.Now().After(until) {
			return false
		}
		time.Sleep(pause)
	}
}

func sessionMembers(leader int) ([]int, error) {
	pids, err := proc.Pids()
	if err != nil {
		return nil, err
	}
	var members []int
	for _, pid := range pids {
		stat, err := proc.ReadStat(pid)
		if err == nil && pid != 1 && !stat.Gone() && (stat.Session == leader || stat.Group == leader) {
			members = append(members, pid)
		}
	}
	return members, nil
}
