package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/machinetest"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleKey); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

// served is a service at work over a driver of the test's own.
type served struct {
	t      *testing.T
	dir    string
	root   string // of the driver
	driver *drivertest.Driver
	svc    *service.Service
	url    string
	stop   func() error
}

// serve starts a service on a free port. change may edit its configuration.
func serve(t *testing.T, change func(*service.Config)) *served {
	t.Helper()
	s := &served{t: t, dir: filepath.Join(t.TempDir(), "state"), root: t.TempDir()}
	s.start(change)
	return s
}

// start opens the service of this folder anew, as the next process would.
func (s *served) start(change func(*service.Config)) {
	s.t.Helper()
	s.driver = drivertest.New(s.root)
	cfg := config(s.dir, s.driver)
	if change != nil {
		change(&cfg)
	}
	svc, err := service.Open(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- svc.Serve(ctx) }()
	s.svc, s.url = svc, "http://"+svc.Addr()
	stopped := false
	s.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	s.t.Cleanup(func() {
		if err := s.stop(); err != nil {
			s.t.Errorf("Serve: %v", err)
		}
		_, _ = s.driver.Sweep(context.Background(), nil)
	})
}

func config(dir string, d *drivertest.Driver) service.Config {
	return service.Config{
		StateDir: dir, Driver: d, Listen: "127.0.0.1:0", MinTTL: time.Millisecond, ReapEvery: time.Hour,
		DpkgStatus: filepath.Join(dir, "no-status"), Log: zerolog.Nop(),
	}
}

func (s *served) client() *machine.Client {
	s.t.Helper()
	c, err := machine.New(machine.Options{URL: s.url})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *served) acquire(purpose string) machine.Lease {
	s.t.Helper()
	lease, err := s.client().Acquire(s.t.Context(), machine.AcquireRequest{Purpose: purpose, Image: "host", TTL: time.Hour})
	if err != nil {
		s.t.Fatal(err)
	}
	return lease
}

// send makes one raw request and returns status and decoded answer.
func (s *served) send(method, path, body string, header ...string) (int, map[string]any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var answer map[string]any
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&answer); err != nil {
		s.t.Fatalf("%s %s: %d, not JSON: %q", method, path, resp.StatusCode, data)
	}
	return resp.StatusCode, answer
}

// gc runs one reaper pass.
func (s *served) gc() {
	s.t.Helper()
	if status, answer := s.send("POST", "/gc", "{}"); status != 200 {
		s.t.Fatalf("gc = %d %v", status, answer)
	}
}

// eventually waits for a fact that another goroutine or process brings about.
func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if fact() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// wantNothingLeft checks that neither lease, folder nor process is left.
func (s *served) wantNothingLeft() {
	s.t.Helper()
	list, err := s.client().List(s.t.Context())
	if err != nil || len(list) != 0 {
		s.t.Errorf("leases left: %v, %v", list, err)
	}
	folders, err := os.ReadDir(filepath.Join(s.dir, "machines"))
	if err != nil || len(folders) != 0 {
		s.t.Errorf("folders left: %v, %v", folders, err)
	}
	if pids, err := s.driver.Processes(); err != nil || len(pids) != 0 {
		s.t.Errorf("processes left: %v, %v", pids, err)
	}
}

func TestServiceAndClientConform(t *testing.T) {
	machinetest.API(t, func(t *testing.T) machine.API { return serve(t, nil).client() })
}
