package service

import (
	"context"
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/drivertest"
)

// A service that has decided to leave reserves nothing, however the request came in.
func TestLeavingServiceReservesNothing(t *testing.T) {
	s, err := Open(context.Background(), Config{
		StateDir: t.TempDir(), Driver: drivertest.New(t.TempDir()), Listen: "127.0.0.1:0", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.activity.enter() {
		t.Fatal("a fresh service admits nobody")
	}
	s.activity.exit()
	s.activity.leave()
	if s.activity.enter() {
		t.Error("a leaving service admits a request")
	}
	if s.health().OK {
		t.Error("a leaving service calls itself ok")
	}
	_, _, err = s.reserve(acquireOrder{purpose: "late", image: "host"})
	var r *refusal
	if !errors.As(err, &r) || r.Code != machine.CodeLeaving || len(s.store.all()) != 0 {
		t.Errorf("reserve = %v, %d leases", err, len(s.store.all()))
	}
}
