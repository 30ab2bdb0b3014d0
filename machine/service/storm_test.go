package service_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

// Everything at once: machines come and go while commands, renewals, reads and reaper passes run into each other. Each ends
// in an answer that says what happened, and nothing is left.
func TestStormLeavesNothing(t *testing.T) {
	s := serve(t, nil)
	client := s.client()
	stop := make(chan struct{})
	var passes, users sync.WaitGroup
	passes.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.gc()
				if _, err := client.List(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range 4 {
		users.Go(func() {
			for round := range 3 {
				lease, err := client.Acquire(t.Context(), machine.AcquireRequest{
					Purpose: fmt.Sprintf("storm-%d-%d", i, round), Image: "host", TTL: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				stormOn(t, client, lease.Name)
			}
		})
	}
	users.Wait()
	close(stop)
	passes.Wait()
	s.wantNothingLeft()
}

// stormOn runs a command, renewals and two releases of one machine side by side.
func stormOn(t *testing.T, client *machine.Client, name string) {
	var all sync.WaitGroup
	all.Go(func() {
		_, err := client.Exec(t.Context(), name, machine.ExecRequest{Argv: []string{"sleep", "30"}, Timeout: time.Minute})
		var e *machine.Error
		if !errors.As(err, &e) || e.Code != machine.CodePreempted && e.Code != machine.CodeNotRunning && e.Code != machine.CodeUnknownMachine {
			t.Errorf("Exec = %v, want an end by release", err)
		}
	})
	all.Go(func() {
		if _, err := client.Heartbeat(t.Context(), name, time.Hour); err != nil && !machine.Refused(err) {
			t.Errorf("Heartbeat = %v", err)
		}
	})
	for range 2 {
		all.Go(func() {
			if err := client.Release(t.Context(), name, "storm"); err != nil && !errors.Is(err, machine.ErrUnknownMachine) {
				t.Errorf("Release = %v", err)
			}
		})
	}
	all.Wait()
}

// What cannot be written down is not done.
func TestFullDiskRefusesBeforeAnythingIsMade(t *testing.T) {
	s := serve(t, nil)
	lease := s.acquire("before")
	// A folder in the place of the file that is written first: the write fails, as on a full disk.
	block := filepath.Join(s.dir, "state.json.new")
	if err := os.Mkdir(block, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := s.client().Acquire(t.Context(), machine.AcquireRequest{Purpose: "during", Image: "host", TTL: time.Hour})
	if !machine.Refused(err) {
		t.Errorf("Acquire = %v, want a definite refusal: nothing was made", err)
	}
	if _, err := s.client().Heartbeat(t.Context(), lease.Name, 5*time.Hour); err == nil {
		t.Error("a renewal that is not on disk was answered")
	}
	if got, err := s.client().Get(t.Context(), lease.Name); err != nil || got.TTLExpiresAt != lease.TTLExpiresAt {
		t.Errorf("Get = %+v, %v, want the end unchanged", got, err)
	}
	if pids, err := s.driver.Processes(); err != nil || len(pids) != 1 {
		t.Errorf("processes = %v, %v, want the first machine's alone", pids, err)
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	if err := s.client().Release(t.Context(), lease.Name, "test"); err != nil {
		t.Error(err)
	}
	s.wantNothingLeft()
}

// A teardown that had not succeeded when the service ended is finished by the next one.
func TestTeardownGoesOnAfterRestart(t *testing.T) {
	s := serve(t, nil)
	name := s.acquire("half-gone").Name
	s.driver.Fail(drivertest.OpDestroy, errors.New("busy"))
	if err := s.client().Release(t.Context(), name, "test"); err == nil {
		t.Fatal("a failed teardown was answered as done")
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	s.wantNothingLeft()
}
