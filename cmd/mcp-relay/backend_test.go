package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/fake"
)

// A request to a service of our own that dies under it is made again on the next one if it changes nothing, or was surely not begun.
func TestWhatIsAskedAgainOfAServiceOfOurOwn(t *testing.T) {
	cutOff := errors.New("connection reset")
	list := func(o *ownService) error { _, err := o.List(t.Context()); return err }
	acquire := func(o *ownService) error {
		_, err := o.Acquire(t.Context(), machine.AcquireRequest{Purpose: "p", Image: "host", TTL: time.Hour})
		return err
	}
	for _, c := range []struct {
		name, op string
		request  func(*ownService) error
		fault    error
		want     int // requests made
	}{
		{"a list that was cut off", machine.OpList, list, cutOff, 2},
		{"a list that was not sent", machine.OpList, list, machine.ErrNotSent, 2},
		{"a list that makes no sense", machine.OpList, list, machine.ErrMalformed, 1},
		{"a list that was refused", machine.OpList, list, &machine.Error{Status: 403, Code: machine.CodeOtherUser}, 1},
		{"an acquire that was not sent", machine.OpAcquire, acquire, machine.ErrNotSent, 2},
		{"an acquire that a leaving service did not begin", machine.OpAcquire, acquire, &machine.Error{Status: 409, Code: machine.CodeLeaving}, 2},
		{"an acquire that was cut off", machine.OpAcquire, acquire, cutOff, 1},
		{"an acquire for another process", machine.OpAcquire, acquire, &machine.Error{Status: 409, Code: machine.CodeOtherInstance}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := fake.New()
			o := &ownService{ensure: func(context.Context) (machine.API, error) { return service, nil }}
			service.Fail(c.op, c.fault)
			err := c.request(o)
			if made := service.Calls(c.op); made != c.want || (err == nil) != (c.want == 2) {
				t.Errorf("%d requests, %v; want %d", made, err, c.want)
			}
		})
	}
}
