package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
)

// rawClient writes JSON-RPC lines in the order it is told to, which an SDK's client does not promise.
type rawClient struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	mu      sync.Mutex
	waiting map[int]chan rawAnswer
	next    int
	log     *lockedBuffer
}

type rawAnswer struct {
	Result struct {
		IsError bool
		Content []struct{ Type, Text string }
	}
	Error *struct{ Message string }
	lost  bool // the connection ended first
}

func (a rawAnswer) text() string {
	if len(a.Result.Content) == 0 {
		return ""
	}
	return a.Result.Content[0].Text
}

func (w *world) rawConnect() *rawClient {
	w.t.Helper()
	c := &rawClient{t: w.t, cmd: w.command(), waiting: map[int]chan rawAnswer{}, log: &lockedBuffer{}}
	c.cmd.Stderr = c.log
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		w.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go c.read(out)
	first := c.send("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "raw", "version": "1"}})
	if a := <-first; a.Error != nil || a.lost {
		w.t.Fatalf("initialize: %+v\n%s", a, c.log)
	}
	c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	w.t.Cleanup(func() {
		c.in.Close()
		_ = c.cmd.Wait()
	})
	return c
}

func (c *rawClient) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			c.mu.Lock()
			for _, ch := range c.waiting {
				ch <- rawAnswer{lost: true}
			}
			c.waiting = nil
			c.mu.Unlock()
			return
		}
		var m struct {
			ID int `json:"id"`
			rawAnswer
		}
		if json.Unmarshal(line, &m) != nil || m.ID == 0 {
			continue
		}
		c.mu.Lock()
		ch := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- m.rawAnswer
		}
	}
}

func (c *rawClient) write(m map[string]any) {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a test message does not encode: %v", err))
	}
	_, _ = c.in.Write(append(b, '\n')) // a server that is gone shows in the answers
}

// send writes a request; its answer arrives on the channel.
func (c *rawClient) send(method string, params map[string]any) <-chan rawAnswer {
	ch := make(chan rawAnswer, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		ch <- rawAnswer{lost: true}
		return ch
	}
	c.next++
	c.waiting[c.next] = ch
	c.write(map[string]any{"jsonrpc": "2.0", "id": c.next, "method": method, "params": params})
	return ch
}

func (c *rawClient) call(tool string, args map[string]any) <-chan rawAnswer {
	return c.send("tools/call", map[string]any{"name": tool, "arguments": args})
}

// must waits for a call that has to succeed and answers its JSON.
func (c *rawClient) must(tool string, args map[string]any) map[string]any {
	c.t.Helper()
	a := <-c.call(tool, args)
	if a.lost || a.Error != nil || a.Result.IsError {
		c.t.Fatalf("%s: lost %v, %+v, %s\nserver log:\n%s", tool, a.lost, a.Error, a.text(), c.log)
	}
	var m map[string]any
	_ = json.Unmarshal([]byte(a.text()), &m)
	return m
}
