package machine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// answering is a client of a server that gives every request the same answer.
func answering(t *testing.T, status int, body string) *machine.Client {
	t.Helper()
	return clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func clientOf(t *testing.T, handle http.HandlerFunc) *machine.Client {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c, err := machine.New(machine.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOriginIsLoopbackAndNothingMore(t *testing.T) {
	cases := []struct {
		name, url string
		want      string // "" means refused
	}{
		{"localhost", "http://localhost:6240", "http://localhost:6240"},
		{"trailing slash is stripped", "http://127.0.0.1:6240/", "http://127.0.0.1:6240"},
		{"anywhere in 127", "http://127.9.8.7:1", "http://127.9.8.7:1"},
		{"IPv6", "https://[::1]:6240", "https://[::1]:6240"},
		{"another host", "http://example.com:6240", ""},
		{"a name that begins like loopback", "http://127.0.0.1.example.com", ""},
		{"a private address", "http://10.0.0.1:6240", ""},
		{"mapped", "http://[::ffff:127.0.0.1]:6240", ""},
		{"user", "http://me@localhost:6240", ""},
		{"path", "http://localhost:6240/api", ""},
		{"query", "http://localhost:6240?x=1", ""},
		{"empty query", "http://localhost:6240?", ""},
		{"fragment", "http://localhost:6240#x", ""},
		{"scheme", "ftp://localhost:6240", ""},
		{"empty", "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client, err := machine.New(machine.Options{URL: c.url})
			if (err == nil) != (c.want != "") || err == nil && client.Origin() != c.want {
				t.Errorf("New(%q) = %v, want origin %q", c.url, err, c.want)
			}
		})
	}
}

func TestHealthMustSayMachineService(t *testing.T) {
	cases := []struct {
		name, body string
		want       error
	}{
		{"ours", `{"ok":true,"service":"machine-service","more":1}`, nil},
		{"the older one", `{"ok":true,"service":"vm-service"}`, machine.ErrNotMachineService},
		{"not ok", `{"ok":false,"service":"machine-service"}`, machine.ErrNotMachineService},
		{"no JSON", `<html>`, machine.ErrNotMachineService},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := answering(t, 200, c.body).Health(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("Health = %v, want %v", err, c.want)
			}
		})
	}
}

func lease(change func(map[string]any)) string {
	l := map[string]any{"vm": "a-1", "machine": "a-1", "purpose": "a", "image": "host", "image_kind": "linux", "state": "running",
		"created_at": 1.5, "ttl_expires_at": 2.5, "grace_until": nil, "warned": false, "env": nil, "ip": nil,
		"cpu": nil, "memory_mb": nil, "disk_gb": nil, "extra": []int{1}}
	if change != nil {
		change(l)
	}
	data, err := json.Marshal(l)
	if err != nil {
		panic(err) // the map above is JSON
	}
	return string(data)
}

// An answer to acquire that is not wholly a lease leaves open whether there is one.
func TestMalformedLeaseIsIndeterminate(t *testing.T) {
	set := func(key string, value any) func(map[string]any) { return func(l map[string]any) { l[key] = value } }
	without := func(key string) func(map[string]any) { return func(l map[string]any) { delete(l, key) } }
	cases := []struct {
		name   string
		change func(map[string]any)
		ok     bool
	}{
		{"whole", nil, true},
		{"old name alone", without("machine"), true},
		{"new name alone", without("vm"), true},
		{"names disagree", set("vm", "b-2"), false},
		{"no name", func(l map[string]any) { delete(l, "vm"); delete(l, "machine") }, false},
		{"name that is a path", func(l map[string]any) { l["vm"], l["machine"] = "../x", "../x" }, false},
		{"another purpose", set("purpose", "b"), false},
		{"another image", set("image", "b"), false},
		{"no purpose", set("purpose", ""), false},
		{"kind", set("image_kind", "windows"), false},
		{"state", set("state", "done"), false},
		{"no created_at", without("created_at"), false},
		{"null ttl", set("ttl_expires_at", nil), false},
		{"ttl a string", set("ttl_expires_at", "2"), false},
		{"no grace_until", without("grace_until"), false},
		{"grace a number", set("grace_until", 3.5), true},
		{"no cpu", without("cpu"), false},
		{"cpu a string", set("cpu", "2"), false},
		{"no env", without("env"), false},
		{"no ip", without("ip"), false},
		{"ip a number", set("ip", 1), false},
		{"warned null", set("warned", nil), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := answering(t, 200, lease(c.change)).Acquire(t.Context(), machine.AcquireRequest{Purpose: "a", Image: "host", TTL: time.Hour})
			if (err == nil) != c.ok || err != nil && (!machine.Indeterminate(err) || !errors.Is(err, machine.ErrMalformed)) {
				t.Errorf("Acquire = %v, want ok %t, else indeterminate", err, c.ok)
			}
		})
	}
}

func TestAcquireOutcomes(t *testing.T) {
	cases := []struct {
		name                   string
		status                 int
		body                   string
		refused, indeterminate bool
		code                   string
	}{
		{"a refusal", 409, `{"error":"unknown image"}`, true, false, ""},
		{"capacity by its text", 409, `{"error":"macOS VM limit reached (2 active)"}`, true, false, machine.CodeCapacity},
		{"capacity by its code", 409, `{"error":"full","code":"capacity"}`, true, false, machine.CodeCapacity},
		{"a code wins over the text", 409, `{"error":"limit reached","code":"internal"}`, true, false, machine.CodeInternal},
		{"a failure", 500, `{"error":"oops"}`, false, true, ""},
		{"unavailable", 503, `busy`, false, true, ""},
		{"a redirect", 302, ``, false, true, ""},
		{"no JSON", 200, `OK`, false, true, ""},
		{"empty", 200, ``, false, true, ""},
		{"too much", 200, `"` + strings.Repeat("x", 4<<20) + `"`, false, true, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := answering(t, c.status, c.body).Acquire(t.Context(), machine.AcquireRequest{Purpose: "a", Image: "host", TTL: time.Hour})
			if machine.Refused(err) != c.refused || machine.Indeterminate(err) != c.indeterminate {
				t.Errorf("%v: refused %t, indeterminate %t", err, machine.Refused(err), machine.Indeterminate(err))
			}
			var e *machine.Error
			if errors.As(err, &e) && e.Code != c.code {
				t.Errorf("code = %q, want %q", e.Code, c.code)
			}
		})
	}
}

// Once sent, an acquire waits for its answer whatever becomes of the caller; the lease must be owned.
func TestAcquireOutlivesItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		_, _ = io.WriteString(w, lease(nil))
	})
	got, err := c.Acquire(ctx, machine.AcquireRequest{Purpose: "a", Image: "host", TTL: time.Hour})
	if err != nil || got.Name != "a-1" {
		t.Errorf("Acquire = %+v, %v", got, err)
	}
}

func TestNobodyThereMeansNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := machine.New(machine.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Acquire(t.Context(), machine.AcquireRequest{Purpose: "a", Image: "host", TTL: time.Hour})
	if !errors.Is(err, machine.ErrNotSent) || machine.Indeterminate(err) {
		t.Errorf("Acquire = %v, want ErrNotSent", err)
	}
}

// A connection that breaks after the request was sent is never tried again by itself.
func TestBrokenConnectionIsNotResent(t *testing.T) {
	var requests atomic.Int32
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	_, err := c.Exec(t.Context(), "a-1", machine.ExecRequest{Argv: []string{"true"}, Timeout: time.Second})
	if !machine.Indeterminate(err) || requests.Load() != 1 {
		t.Errorf("Exec = %v after %d requests, want indeterminate after one", err, requests.Load())
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer target.Close()
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	if _, err := c.List(t.Context()); err == nil || followed.Load() {
		t.Errorf("List = %v, followed %t", err, followed.Load())
	}
}

// The older service reads a body by its Content-Length alone.
func TestEveryPostHasItsLength(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ContentLength != int64(len(body)) || len(body) < 2 || r.URL.RawQuery != "" {
			http.Error(w, "length", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"released":true}`)
	})
	if err := c.Release(t.Context(), "a-1", "test"); err != nil {
		t.Error(err)
	}
}

func TestAcquireSendsOnlyWhatIsSet(t *testing.T) {
	vnc := false
	cases := []struct {
		name string
		req  machine.AcquireRequest
		want string
	}{
		{"least", machine.AcquireRequest{Purpose: "a", Image: "host", TTL: 15 * time.Minute},
			`{"purpose":"a","image":"host","env":"none","ttl_hours":0.25,"wait":true}`},
		{"most", machine.AcquireRequest{Purpose: "a", Image: "host", TTL: time.Hour, Env: "p", Network: "internet", VNC: &vnc},
			`{"purpose":"a","image":"host","env":"p","ttl_hours":1,"wait":true,"network":"internet","vnc":false}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sent := make(chan string, 1)
			client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent <- string(body)
				_, _ = io.WriteString(w, lease(nil))
			})
			if _, err := client.Acquire(t.Context(), c.req); err != nil {
				t.Fatal(err)
			}
			if got := <-sent; got != c.want {
				t.Errorf("sent %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnknownMachineIsTellable(t *testing.T) {
	cases := []struct {
		name   string
		status int
		body   string
		want   bool
	}{
		{"as the service says it", 404, `{"error":"unknown VM"}`, true},
		{"in other words", 404, `{"error":"no machine of that name"}`, true},
		{"a page of something else", 404, `<html>not found</html>`, false},
		{"a failure", 500, `{"error":"oops"}`, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := answering(t, c.status, c.body).Get(t.Context(), "a-1"); errors.Is(err, machine.ErrUnknownMachine) != c.want {
				t.Errorf("Get = %v, want ErrUnknownMachine: %t", err, c.want)
			}
		})
	}
}

func TestListReadsEitherKey(t *testing.T) {
	for _, key := range []string{"machines", "vms"} {
		got, err := answering(t, 200, fmt.Sprintf(`{%q:{"a-1":%s}}`, key, lease(nil))).List(t.Context())
		if err != nil || got["a-1"].Purpose != "a" {
			t.Errorf("%s: List = %v, %v", key, got, err)
		}
	}
	if _, err := answering(t, 200, `{}`).List(t.Context()); !errors.Is(err, machine.ErrMalformed) {
		t.Errorf("List of nothing = %v, want ErrMalformed", err)
	}
}

func TestExecTimeoutKeepsItsOutput(t *testing.T) {
	c := answering(t, 409, `{"error":"ssh failed","code":"exec_timeout","output":"so far"}`)
	_, err := c.Exec(t.Context(), "a-1", machine.ExecRequest{Argv: []string{"true"}, Timeout: time.Second})
	var e *machine.Error
	if !errors.As(err, &e) || e.Code != machine.CodeExecTimeout || e.Output != "so far" {
		t.Errorf("Exec = %#v", err)
	}
}

func TestLongRefusalsAreCut(t *testing.T) {
	_, err := answering(t, 409, strings.Repeat("é", 5000)).Images(t.Context())
	var e *machine.Error
	if !errors.As(err, &e) || len(e.Message) > 4096+3 {
		t.Errorf("message of %d bytes", len(e.Message))
	}
}

func TestReleaseMustBeConfirmed(t *testing.T) {
	if err := answering(t, 200, `{"released":false,"reason":"renewed"}`).Release(t.Context(), "a-1", "x"); err == nil {
		t.Error("a release that did not release succeeded")
	}
}
