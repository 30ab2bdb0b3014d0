package actors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"
	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

var castSeed = flag.Int64("cast-seed", 0, "seed of the property test of the relay; 0 draws one")

// Whatever calls, cancellations, crashes of lanes, lost beats and passing of time come in whatever order: on each guest calls begin in
// their order, at most once and one at a time; every call gets one answer, and one that says that nothing was done is true; status
// answers at once; a lease that nobody refuses to renew is never lost; the end takes no longer than it may.
func TestRelayKeepsItsPromisesUnderAnyFaults(t *testing.T) {
	seed := *castSeed
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	parameters := gopter.DefaultTestParametersWithSeed(seed)
	parameters.MinSuccessfulTests, parameters.MaxSize = 1000, 40
	if testing.Short() {
		parameters.MinSuccessfulTests = 100
	}
	synctest.Test(t, func(t *testing.T) {
		property := prop.ForAll(func(numbers []int) *gopter.PropResult {
			if violation := story(t, numbers); violation != "" {
				return &gopter.PropResult{Status: gopter.PropFalse, Labels: []string{violation}}
			}
			return &gopter.PropResult{Status: gopter.PropTrue}
		}, gen.SliceOf(gen.IntRange(0, 1<<20)))
		result := property.Check(parameters)
		if result.Passed() {
			return
		}
		var report strings.Builder
		gopter.NewFormatedReporter(true, 140, &report).ReportTestResult(t.Name(), result)
		t.Errorf("%s\nrepeat with: go test ./actors -run '^%s$' -cast-seed %d", &report, t.Name(), seed)
	})
}

// bookedCall is a call that was made, as the books have it.
type bookedCall struct {
	name   string
	guest  int
	cancel context.CancelFunc
	answer <-chan answered
	got    *answered
}

// tale is one relay with three guests and what happened to it.
type tale struct {
	*world
	guests []*fakeGuest
	faulty [3]bool // its beats were lost, or it was finished
	calls  []*bookedCall
}

// story tells a relay one fact for each number and answers what it violates.
func story(t *testing.T, numbers []int) string {
	host := &fakeHost{guests: map[string]*fakeGuest{}, faults: map[string]error{}}
	system, err := Start(context.Background(), Options{
		Host: host, MaxGuests: 3, OnExit: "pause", Grace: time.Minute, Log: zerolog.Nop(),
		Guest: guest.Options{Window: fakeWindow, Minimum: 6 * time.Minute},
	})
	if err != nil {
		return err.Error()
	}
	s := &tale{world: &world{T: t, host: host, system: system, relay: system.Relay()}}
	for i := range 3 {
		s.guests = append(s.guests, s.acquire(fmt.Sprintf("g%d", i)))
	}
	for _, k := range numbers {
		if violation := s.fact(k); violation != "" {
			s.finale()
			return violation
		}
	}
	return s.finale()
}

func (s *tale) fact(k int) string {
	choice, i, rest := k%12, k/12%3, k/36
	switch choice {
	case 0, 1, 2, 3, 4:
		s.submit(i, rest)
	case 5, 6:
		if len(s.calls) > 0 {
			s.calls[rest%len(s.calls)].cancel()
			synctest.Wait()
		}
	case 7, 8:
		time.Sleep(time.Duration(rest%600) * time.Second)
	case 9:
		if e, err := s.system.parts.roster.find(fmt.Sprintf("g%d-1", i)); err == nil {
			e.lane.Tell(callSubmitted{nil})
			synctest.Wait()
		}
	case 10:
		s.faulty[i] = true
		s.guests[i].loseBeats([]error{nil, errors.New("no answer")}[rest%2])
	default:
		before := time.Now()
		if _, err := s.relay.Status(context.Background()); err != nil || time.Since(before) != 0 {
			return fmt.Sprintf("status: %v after %v", err, time.Since(before))
		}
	}
	return ""
}

func (s *tale) submit(i, k int) {
	b := &bookedCall{name: fmt.Sprintf("n%d", len(s.calls)), guest: i}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	code := b.name + " " + []string{
		fmt.Sprintf("for %ds", k%100), fmt.Sprintf("for %dm", k%90), fmt.Sprintf("deaf %ds", k%100), "panic", "goexit", "",
	}[k%6]
	b.answer = s.script(ctx, fmt.Sprintf("g%d-1", i), code)
	s.calls = append(s.calls, b)
}

// finale ends the relay and looks at everything that happened.
func (s *tale) finale() string {
	code, took := s.end("the story is over")
	for _, b := range s.calls {
		a := <-b.answer
		b.got = &a
		b.cancel()
	}
	time.Sleep(time.Hour) // deaf work ends
	synctest.Wait()
	if n := s.system.engine.Living(); n != 0 {
		return fmt.Sprintf("%d actors still live", n)
	}
	if limit := time.Minute + 5*time.Second + 12*time.Second + stopTime; code != 0 || took > limit {
		return fmt.Sprintf("it ended with %d after %v", code, took)
	}
	for i := range s.guests {
		if violation := s.judge(i); violation != "" {
			return violation
		}
	}
	return ""
}

func (s *tale) judge(i int) string {
	g, after := s.guests[i], s.guests[i].look()
	began := g.began()[1:] // without the acquisition
	last := -1
	for _, name := range began {
		n := slices.IndexFunc(s.calls, func(b *bookedCall) bool { return b.name == name })
		if n <= last {
			return fmt.Sprintf("guest %d began %v", i, began)
		}
		last = n
	}
	for _, b := range s.calls {
		if b.guest != i {
			continue
		}
		ran := slices.Contains(began, b.name)
		var refused *guest.RefusedError
		if ran == errors.As(b.got.err, &refused) || (b.got.err == nil && !ran) {
			return fmt.Sprintf("call %s ran %t and was answered %v", b.name, ran, b.got.err)
		}
	}
	if g.overlap {
		return fmt.Sprintf("two operations at a time: %v", after.trace)
	}
	if after.lease.Active || after.closed != 1 {
		return fmt.Sprintf("guest %d is not let go of: active %t, closed %d", i, after.lease.Active, after.closed)
	}
	return s.judgeLease(i, after)
}

func (s *tale) judgeLease(i int, after seen) string {
	end := after.lease.Start.Add(time.Second + fakeWindow)
	for n, b := range after.beats {
		if b.at.Add(b.ttl).After(after.lease.Deadline.Add(time.Second)) {
			return fmt.Sprintf("beat %d of guest %d reaches past the deadline", n, i)
		}
		if b.at.After(end) && !s.faulty[i] {
			return fmt.Sprintf("the lease of guest %d ended at %v, before beat %d", i, end.Sub(after.lease.Start), n)
		}
		end = b.at.Add(b.ttl)
	}
	return ""
}
