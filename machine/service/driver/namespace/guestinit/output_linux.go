package guestinit

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	kept  []byte
	left  int64 // bytes that fell out at the front
}

func (t *tail) write(p []byte) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.limit+pipeRead { // seldom, so that a byte is moved at most about once
		t.trim()
	}
}

func (t *tail) trim() {
	if over := len(t.kept) - t.limit; over > 0 {
		t.left += int64(over)
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

const (
	pipeRead = 64 << 10
	// drainMost bounds what is still read after the command's end, in bytes: more than any pipe holds.
	drainMost = 4 << 20
)

// output collects what a command writes. When the command has ended, what it had written by then is in it; processes it
// left behind may write on, to nobody, and are not ended by that.
type output struct {
	pipe   *os.File
	mu     sync.Mutex
	tail   tail
	ended  chan struct{} // closed when everything that counts is in
	closed bool
}

func collect(pipe *os.File, limit int) *output {
	o := &output{pipe: pipe, tail: tail{limit: limit}, ended: make(chan struct{})}
	go o.run()
	return o
}

// finish returns what counts: all that was written before the call.
func (o *output) finish() ([]byte, int64) {
	_ = o.pipe.SetReadDeadline(time.Unix(1, 0)) // wakes run, which then drains
	<-o.ended
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail.trim()
	return o.tail.kept, o.tail.left
}

func (o *output) run() {
	defer o.pipe.Close()
	buffer := make([]byte, pipeRead)
	for {
		n, err := o.pipe.Read(buffer)
		o.keep(buffer[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = o.pipe.SetReadDeadline(time.Time{})
			o.drain(buffer)
			o.end()
			continue // to nobody, until the last writer closes
		}
		if err != nil {
			o.end()
			return
		}
	}
}

// drain reads what is in the pipe, without waiting for more.
func (o *output) drain(buffer []byte) {
	raw, err := o.pipe.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < drainMost; {
		n := 0
		if err := raw.Read(func(fd uintptr) bool { n, _ = unix.Read(int(fd), buffer); return true }); err != nil || n <= 0 {
			return
		}
		o.keep(buffer[:n])
		total += n
	}
}

func (o *output) keep(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.tail.write(p)
	}
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.ended)
	}
}
