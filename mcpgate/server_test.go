package mcpgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

const opening = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n"

// scriptLine is one relay_script call as a line.
func scriptLine(id int, guestName, code string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"relay_script","arguments":{"guest":%q,"language":"shell","inline":true,"code":%q}}}`+"\n",
		id, guestName, code)
}

// dialogue is a server with a client's end of its streams.
type dialogue struct {
	server *Server
	typed  *io.PipeWriter
	out    *sink
	served chan error
}

func serve(t *testing.T, relay Relay) *dialogue {
	in, typed := io.Pipe()
	d := &dialogue{server: New(relay, Options{}), typed: typed, out: &sink{}, served: make(chan error, 1)}
	go func() { d.served <- d.server.Serve(t.Context(), in, d.out) }()
	d.send(t, opening)
	d.out.take()
	return d
}

func (d *dialogue) send(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(d.typed, line); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

func (d *dialogue) end(t *testing.T) {
	t.Helper()
	d.typed.Close()
	if err := <-d.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := d.server.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
}

// T1, T2, T6, T9, through the official client.
func TestOfficialClientListsAndCalls(t *testing.T) {
	relay := &fakeRelay{}
	server := New(relay, Options{Version: "1.2.3"})
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), toServer, fromServer) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Tools()
	if len(listed.Tools) != len(want) {
		t.Fatalf("%d tools, want %d", len(listed.Tools), len(want))
	}
	for _, tool := range listed.Tools {
		i := slices.IndexFunc(want, func(w Tool) bool { return w.Name == tool.Name })
		if i < 0 || tool.Title != want[i].Title || tool.Description != want[i].Description ||
			toJSON(t, tool.InputSchema) != canonical(t, want[i].InputSchema) || canonical(t, []byte(toJSON(t, tool.Annotations))) != canonical(t, []byte(toJSON(t, want[i].Annotations))) {
			t.Errorf("%s is not listed as the table has it: %s", tool.Name, toJSON(t, tool))
		}
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "relay_search", Arguments: map[string]any{"name": "x"}})
	if err != nil || result.IsError || !strings.Contains(textOf(result), `"name": "x"`) {
		t.Errorf("search: %v, %+v", err, result)
	}
	result, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "relay_finish", Arguments: map[string]any{"guest": 5}})
	if err != nil || !result.IsError || !strings.HasPrefix(textOf(result), "invalid relay input: guest:") {
		t.Errorf("an invalid call: %v, %+v", err, result)
	}
	if relay.count() != 1 {
		t.Errorf("the relay was called %d times, want once", relay.count())
	}
	if err := session.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	fromServer.Close()
}

func textOf(result *mcp.CallToolResult) string {
	if len(result.Content) == 0 {
		return ""
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		return ""
	}
	return text.Text
}

// T5: no refused call reaches the relay.
func TestRefusedCallsNeverReachTheRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &fakeRelay{}
		d := serve(t, relay)
		for i, tool := range table {
			d.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"surprise":1}}}`+"\n", i+1, tool.name))
			if got := d.out.take(); !strings.Contains(got, `"text":"invalid relay input: surprise: is not a field`) || !strings.Contains(got, `"isError":true`) {
				t.Errorf("%s: %s", tool.name, got)
			}
		}
		d.end(t)
		if relay.count() != 0 {
			t.Errorf("the relay was called %d times", relay.count())
		}
	})
}

// The end of stdin must not cut a finish that is under way.
func TestEndOfInputLeavesCallsInFlightAndTheirAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, cancelled := make(chan struct{}), false
		relay := &fakeRelay{do: func(ctx context.Context, _ string, _ any) (guest.Result, error) {
			select {
			case <-release:
			case <-ctx.Done():
				cancelled = true
			}
			return guest.Result{Value: "finished"}, nil
		}}
		d := serve(t, relay)
		d.send(t, scriptLine(1, "a-1", "x"), scriptLine(2, "b-1", "x"))
		d.typed.Close()
		if err := <-d.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		soon, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := d.server.Drain(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain with calls in flight: %v, want the deadline", err)
		}
		close(release)
		if err := d.server.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if got := d.out.take(); cancelled || strings.Count(got, `"finished`) != 2 {
			t.Errorf("cancelled %v, answers %s", cancelled, got)
		}
	})
}

func TestCancelAllEndsCallsInFlightAndThoseToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &fakeRelay{do: func(ctx context.Context, _ string, _ any) (guest.Result, error) {
			<-ctx.Done()
			return guest.Result{}, ctx.Err()
		}}
		d := serve(t, relay)
		d.send(t, scriptLine(1, "a-1", "x"), scriptLine(2, "a-1", "x"))
		d.server.CancelAll()
		synctest.Wait()
		got := d.out.take()
		if !strings.Contains(got, `"id":1,"result":{"content":[{"type":"text","text":"the session is ending\nWhat it had begun may have run`) {
			t.Errorf("the call in flight: %s", got)
		}
		if !strings.Contains(got, `"id":2,"result":{"content":[{"type":"text","text":"the call was cancelled while it waited behind earlier calls on its guest (the session is ending)\nNothing was done.`) {
			t.Errorf("the waiting call: %s", got)
		}
		d.send(t, scriptLine(3, "b-1", "x"))
		if got := d.out.take(); !strings.Contains(got, `"id":3`) || !strings.Contains(got, "the session is ending") || relay.count() != 1 {
			t.Errorf("a later call: %s after %d calls of the relay", got, relay.count())
		}
		d.end(t)
	})
}

// brokenPipe takes some writes, then fails.
type brokenPipe struct{ left int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrClosedPipe
	}
	b.left--
	return len(p), nil
}

// T34, the gate's part.
func TestWriteErrorEndsTheTransportAndNotTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var ended sync.WaitGroup
		ended.Add(1)
		relay := &fakeRelay{do: func(ctx context.Context, tool string, _ any) (guest.Result, error) {
			if tool == "relay_script" {
				defer ended.Done()
				select {
				case <-release:
				case <-ctx.Done():
					t.Error("the call was cancelled by a write error")
				}
			}
			return guest.Result{}, nil
		}}
		in, typed := io.Pipe()
		server := New(relay, Options{})
		served := make(chan error, 1)
		go func() { served <- server.Serve(t.Context(), in, &brokenPipe{left: 1}) }()
		for _, line := range []string{opening, scriptLine(1, "a-1", "x"), `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n"} {
			if _, err := io.WriteString(typed, line); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-served; !errors.Is(err, io.ErrClosedPipe) || !strings.HasPrefix(err.Error(), "cannot write to the client") {
			t.Errorf("Serve: %v", err)
		}
		close(release)
		ended.Wait()
		if err := server.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		typed.Close()
	})
}

func TestContextEndsServingAndNotTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		relay := &fakeRelay{do: func(ctx context.Context, _ string, _ any) (guest.Result, error) {
			<-release
			return guest.Result{Value: "ended"}, ctx.Err()
		}}
		in, typed := io.Pipe()
		out := &sink{}
		server := New(relay, Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		served := make(chan error, 1)
		go func() { served <- server.Serve(ctx, in, out) }()
		if _, err := io.WriteString(typed, opening+scriptLine(1, "a-1", "x")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		why := errors.New("told to stop")
		cancel(why)
		if err := <-served; !errors.Is(err, why) {
			t.Errorf("Serve: %v, want the cause", err)
		}
		close(release)
		if err := server.Drain(t.Context()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		if got := out.take(); !strings.Contains(got, `"ended`) {
			t.Errorf("the answer in flight was not written: %s", got)
		}
		typed.Close()
	})
}

func TestReadErrorIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, typed := io.Pipe()
		server := New(&fakeRelay{}, Options{})
		typed.CloseWithError(io.ErrUnexpectedEOF)
		if err := server.Serve(t.Context(), in, io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// Calls on one guest reach the relay in the order they were sent, though all are sent at once and the relay's work overlaps: a
// call that says it has its place lets the next one in.
func TestCallsOnOneGuestReachTheRelayInOrder(t *testing.T) {
	for _, row := range []struct {
		name  string
		admit bool
		want  int // most calls of one guest in the relay at once
	}{
		{"admitted at once", true, 20},
		{"never admitted", false, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const each = 20
				var mu sync.Mutex
				seen, inside, most := map[string][]string{}, map[string]int{}, 0
				relay := &fakeRelay{do: func(ctx context.Context, _ string, in any) (guest.Result, error) {
					script := in.(guest.Script)
					mu.Lock()
					seen[script.Guest] = append(seen[script.Guest], *script.Code)
					inside[script.Guest]++
					most = max(most, inside[script.Guest])
					mu.Unlock()
					if row.admit {
						guest.Admitted(ctx)
						guest.Admitted(ctx)
					}
					time.Sleep(time.Second)
					mu.Lock()
					inside[script.Guest]--
					mu.Unlock()
					return guest.Result{}, nil
				}}
				d := serve(t, relay)
				var lines []string
				var want []string
				for i := range each {
					want = append(want, fmt.Sprint(i))
					for g, name := range []string{"a-1", "b-1", "c-1"} {
						lines = append(lines, scriptLine(1+3*i+g, name, fmt.Sprint(i)))
					}
				}
				d.send(t, lines...)
				d.end(t)
				for name, got := range seen {
					if !slices.Equal(got, want) {
						t.Errorf("%s: %v", name, got)
					}
				}
				if len(seen) != 3 || most != row.want {
					t.Errorf("%d guests, at most %d calls of one guest at once, want 3 and %d", len(seen), most, row.want)
				}
			})
		})
	}
}

// A server may serve several clients; ids of one say nothing about another's.
func TestTwoClientsMayUseTheSameIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &fakeRelay{do: func(ctx context.Context, _ string, _ any) (guest.Result, error) {
			<-ctx.Done()
			return guest.Result{}, ctx.Err()
		}}
		first := serve(t, relay)
		in, typed := io.Pipe()
		second := &dialogue{server: first.server, typed: typed, out: &sink{}, served: make(chan error, 1)}
		go func() { second.served <- first.server.Serve(t.Context(), in, second.out) }()
		second.send(t, opening)
		second.out.take()
		first.send(t, scriptLine(1, "a-1", "x"))
		second.send(t, scriptLine(1, "b-1", "x"))
		second.send(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+"\n")
		if got := second.out.take(); !strings.Contains(got, "the client cancelled the call") {
			t.Errorf("the second client's call: %s", got)
		}
		if got := first.out.take(); got != "" {
			t.Errorf("the first client's call was answered: %s", got)
		}
		first.server.CancelAll()
		first.end(t)
		second.end(t)
	})
}

// Every call gets exactly one answer, under its own id.
func TestEveryCallGetsOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &fakeRelay{do: func(ctx context.Context, _ string, in any) (guest.Result, error) {
			switch *in.(guest.Script).Code {
			case "0":
				panic("x")
			case "1":
				return guest.Result{}, errors.New("cannot")
			case "2":
				<-ctx.Done()
				return guest.Result{}, ctx.Err()
			case "3":
				return guest.Result{Value: func() {}}, nil
			}
			return guest.Result{}, nil
		}}
		d := serve(t, relay)
		const calls = 100
		for i := range calls {
			d.send(t, scriptLine(i+1, fmt.Sprintf("g-%d", i%7), fmt.Sprint(i%6)))
			if i%3 == 0 {
				d.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", i+1))
			}
		}
		d.server.CancelAll()
		d.end(t)
		answers := map[int]int{}
		for line := range strings.Lines(d.out.take()) {
			var answer struct {
				ID     int
				Result *struct{}
			}
			if err := json.Unmarshal([]byte(line), &answer); err != nil || answer.Result == nil {
				t.Errorf("%v: %s", err, line)
			}
			answers[answer.ID]++
		}
		for i := range calls {
			if answers[i+1] != 1 {
				t.Errorf("call %d has %d answers", i+1, answers[i+1])
			}
		}
	})
}

// A call whose cancelling follows at its heels is answered like any other, whether it began or not.
func TestCallCancelledAtOnceIsAnsweredAsAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &fakeRelay{do: func(ctx context.Context, _ string, _ any) (guest.Result, error) {
			<-ctx.Done()
			return guest.Result{}, ctx.Err()
		}}
		d := serve(t, relay)
		const calls = 200
		var lines strings.Builder
		for i := range calls {
			lines.WriteString(scriptLine(i+1, fmt.Sprintf("g-%d", i%3), "x"))
			fmt.Fprintf(&lines, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", i+1)
		}
		d.send(t, lines.String())
		got := d.out.take()
		if n := strings.Count(got, `"isError":true`); n != calls || strings.Contains(got, `"error":`) {
			t.Errorf("%d of %d calls have an error result: %s", n, calls, got)
		}
		d.end(t)
	})
}
