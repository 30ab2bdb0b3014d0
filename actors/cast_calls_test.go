package actors

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

func TestCallsOnOneGuestRunInTheOrderTheyCame(t *testing.T) { // P1
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		answers := []<-chan answered{
			w.script(w.Context(), "one-1", "a for 3s"),
			w.script(w.Context(), "one-1", "b for 1s"),
			w.script(w.Context(), "one-1", "c for 2s"),
		}
		for i, want := range []time.Duration{3 * time.Second, 4 * time.Second, 6 * time.Second} {
			if a := <-answers[i]; a.err != nil || a.took != want {
				w.Errorf("call %d: %v after %v, want %v", i, a.err, a.took, want)
			}
		}
		w.wantBegan(g, "acquire", "a", "b", "c")
	})
}

func TestDifferentGuestsNeverWaitForEachOther(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		w.acquire("one")
		w.acquire("two")
		long := w.script(w.Context(), "one-1", "a for 1h")
		short := w.script(w.Context(), "two-1", "b for 1s")
		if a := <-short; a.err != nil || a.took != time.Second {
			w.Errorf("the short call: %v after %v", a.err, a.took)
		}
		for _, do := range []func() (guest.Result, error){
			func() (guest.Result, error) { return w.relay.Search(w.Context(), guest.SearchInput{Name: "x"}) },
			func() (guest.Result, error) { return w.relay.Probe(w.Context(), guest.ProbeInput{Scope: "host"}) },
		} {
			if a := <-w.call(do); a.err != nil || a.took != 0 {
				w.Errorf("a call that names no guest: %v after %v", a.err, a.took)
			}
		}
		<-long
	})
}

func TestALeaseIsRenewedThroughARunOfAnHour(t *testing.T) { // T83, H6
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		<-w.script(w.Context(), "one-1", "a for 1h")
		after := g.look()
		if n := len(after.beats); n < 55 || n > 65 {
			w.Errorf("%d beats in an hour, want about 60", n)
		}
		end := after.lease.Start.Add(time.Second + fakeWindow)
		for _, b := range after.beats {
			if b.at.After(end) {
				w.Fatalf("the lease had ended at %v before the beat at %v", end, b.at)
			}
			if b.ttl != fakeWindow {
				w.Errorf("a beat asked for %v", b.ttl)
			}
			end = b.at.Add(b.ttl)
		}
		if !w.status().Active {
			w.Error("status does not show the lease as renewed")
		}
	})
}

func TestStatusAnswersAtOnceWhileAnOperationHangs(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		hangs := w.script(w.Context(), "one-1", "a stubborn")
		status := w.status()
		if len(status.Guests) != 1 || status.MaxGuests != 4 || status.Project != "/project" {
			w.Errorf("status: %+v", status)
		}
		calls, err := w.system.Calls(w.Context())
		if err != nil || len(calls) != 1 || calls[0].Tool != "relay_script" || calls[0].Guest != "one-1" {
			w.Errorf("calls in flight: %+v, %v", calls, err)
		}
		close(g.free)
		<-hangs
	})
}

func TestACancelledWaitingCallNeverStarts(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		first := w.script(w.Context(), "one-1", "a for 10s")
		ctx, cancel := context.WithCancel(w.Context())
		second := w.script(ctx, "one-1", "b")
		third := w.script(w.Context(), "one-1", "c")
		time.Sleep(time.Second)
		cancel()
		if a := <-second; a.took != time.Second {
			w.Errorf("answered after %v", a.took)
		} else {
			w.wantRefused(a.err, "never began")
		}
		<-first
		if a := <-third; a.err != nil {
			w.Error(a.err)
		}
		w.wantBegan(g, "acquire", "a", "c")
	})
}

func TestACancelledRunningCallIsAnsweredAtOnceAndKeepsItsPlace(t *testing.T) { // R6
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		ctx, cancel := context.WithCancel(w.Context())
		first := w.script(ctx, "one-1", "a stubborn")
		second := w.script(w.Context(), "one-1", "b")
		time.Sleep(time.Second)
		cancel()
		a := <-first
		w.wantUncertain(a.err)
		if a.took != time.Second || !errors.Is(a.err, context.Canceled) {
			w.Errorf("%v after %v", a.err, a.took)
		}
		var operation *guest.OperationError
		if !errors.As(a.err, &operation) || operation.Guest != "one-1" {
			w.Errorf("the error does not carry the guest's status: %v", a.err)
		}
		time.Sleep(time.Minute)
		w.wantBegan(g, "acquire", "a") // its work still holds the place
		close(g.free)
		if b := <-second; b.err != nil {
			w.Error(b.err)
		}
		w.wantBegan(g, "acquire", "a", "b")
	})
}

func TestWorkThatBreaksIsUncertainAndRunsOnce(t *testing.T) {
	for _, how := range []string{"panic", "goexit"} {
		t.Run(how, func(t *testing.T) {
			inRelay(t, nil, func(w *world) {
				g := w.acquire("one")
				first := w.script(w.Context(), "one-1", "a "+how)
				second := w.script(w.Context(), "one-1", "b")
				w.wantUncertain((<-first).err)
				if b := <-second; b.err != nil {
					w.Error(b.err)
				}
				w.wantBegan(g, "acquire", "a", "b")
			})
		})
	}
}

// crash makes a lane panic in its own work.
func (w *world) crash(name string) {
	w.Helper()
	e, err := w.system.parts.roster.find(name)
	if err != nil {
		w.Fatal(err)
	}
	e.lane.Tell(callSubmitted{nil})
	<-e.lane.Done()
}

func TestALaneThatCrashesAnswersWhatItHadAndRunsNothingAgain(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		running := w.script(w.Context(), "one-1", "a stubborn")
		waiting := w.script(w.Context(), "one-1", "b")
		w.crash("one-1")
		w.wantUncertain((<-running).err)
		w.wantRefused((<-waiting).err, "may be sent again")
		// The next lane works on, but not beside what the one before has left running; and the lease is renewed all the while.
		next := w.script(w.Context(), "one-1", "c")
		beats := len(g.look().beats)
		time.Sleep(10 * time.Minute)
		w.wantBegan(g, "acquire", "a")
		if len(g.look().beats) < beats+8 {
			w.Error("the lease was not renewed while the lane was down")
		}
		close(g.free)
		if c := <-next; c.err != nil {
			w.Error(c.err)
		}
		w.wantBegan(g, "acquire", "a", "c")
	})
}

func TestAGuestThatEndsAfterItsLaneCrashedIsNotHeldAnyMore(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		release := w.call(func() (guest.Result, error) { return w.relay.Release(w.Context(), guest.NamedInput{Guest: "one-1"}) })
		w.crash("one-1")
		w.wantUncertain((<-release).err)
		time.Sleep(2 * time.Second)
		if n := len(w.status().Guests); n != 0 || !g.look().gone {
			w.Errorf("%d guests held, gone %t", n, g.look().gone)
		}
	})
}

func TestAGuestWhoseActorsGiveUpStandsAsFailedAndIsTakenUpByTheNextCall(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		for range bearable.MaxRestarts + 1 {
			w.crash("one-1")
			time.Sleep(time.Second) // the restart's delay
		}
		if state := w.status().Guests["one-1"].State; state != StateFailed {
			w.Errorf("state %q, want failed", state)
		}
		if a := <-w.script(w.Context(), "one-1", "a"); a.err != nil {
			w.Error(a.err)
		}
		w.wantBegan(g, "acquire", "a")
		if state := w.status().Guests["one-1"].State; state != guest.StateStaged {
			w.Errorf("state %q after the next call", state)
		}
	})
}

func TestASessionThatCrashesFindsItsGuestsAgain(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		long := w.script(w.Context(), "one-1", "a for 1m")
		desk := w.system.parts.self.get()
		desk.Tell(acquireAsked{nil})
		<-desk.Done()
		time.Sleep(time.Second)
		w.acquire("two")
		if a := <-long; a.err != nil {
			w.Error(a.err)
		}
		if b := <-w.script(w.Context(), "one-1", "b"); b.err != nil {
			w.Error(b.err)
		}
		w.wantBegan(g, "acquire", "a", "b")
	})
}

func TestAnUnknownGuestIsRefusedWithTheNamesOfThoseHeld(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		w.acquire("one")
		w.acquire("two")
		a := <-w.script(w.Context(), "three-1", "a")
		var unknown *guest.UnknownGuestError
		if !errors.As(a.err, &unknown) || !slices.Equal(unknown.Held, []string{"one-1", "two-1"}) {
			w.Errorf("got %v", a.err)
		}
	})
}

func TestAFinishedGuestFreesItsSlotBeforeItsAnswer(t *testing.T) {
	inRelay(t, func(o *Options, _ *fakeHost) { o.MaxGuests = 2 }, func(w *world) {
		g := w.acquire("one")
		w.acquire("two")
		finish := w.call(func() (guest.Result, error) { return w.relay.Finish(w.Context(), guest.NamedInput{Guest: "one-1"}) })
		late := w.script(w.Context(), "one-1", "late")
		a := <-finish
		if a.err != nil {
			w.Fatal(a.err)
		}
		if held := a.result.Value.(*guest.FinishResult).Held; !slices.Equal(held, []string{"two-1"}) {
			w.Errorf("held after it: %v", held)
		}
		w.acquire("three")
		var unknown *guest.UnknownGuestError
		if b := <-late; !errors.As(b.err, &unknown) {
			w.Errorf("a call behind finish: %v", b.err)
		}
		w.wantBegan(g, "acquire", "finish")
		beats := len(g.look().beats)
		time.Sleep(time.Hour)
		if len(g.look().beats) != beats {
			w.Error("a guest that is gone was renewed") // T85
		}
	})
}

func TestAGuestThatIsFoundGoneIsNotHeldAnyMore(t *testing.T) { // T73
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		g.fail("reconcile", guest.Refuse("its lease has ended"))
		a := <-w.call(func() (guest.Result, error) { return w.relay.Stage(w.Context(), guest.StageInput{Guest: "one-1"}) })
		w.wantRefused(a.err, "its lease has ended")
		w.wantBegan(g, "acquire")
		if n := len(w.status().Guests); n != 0 {
			w.Errorf("%d guests held", n)
		}
	})
}

func TestReleasingWithoutAGuestSaysWhatASessionIs(t *testing.T) { // T35
	inRelay(t, nil, func(w *world) {
		result, err := w.relay.Release(w.Context(), guest.NamedInput{Guest: "one-1"})
		if err != nil || !result.Failed || !strings.Contains(result.Value.(nothingReleased).Diagnostic, "MCP_RELAY_SESSION") {
			w.Errorf("%+v, %v", result, err)
		}
	})
}

func TestAPictureThatWaitsTooLongIsAnsweredAsNotTransferred(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		long := w.script(w.Context(), "one-1", "a for 10m")
		target := guest.ImageTarget{Source: "reference", ImageID: "x"}
		a := <-w.call(func() (guest.Result, error) { return w.relay.Image(w.Context(), guest.ImageInput{Target: target}) })
		if a.err != nil || a.result.Delivery.Status != "transfer-failed" || a.took != imageDeadline {
			w.Errorf("%+v after %v", a.outcome, a.took)
		}
		<-long
		w.wantBegan(g, "acquire", "a")
	})
}

func TestAPictureFindsItsGuest(t *testing.T) { // D10
	inRelay(t, nil, func(w *world) {
		image := func(target guest.ImageTarget) answered {
			return <-w.call(func() (guest.Result, error) { return w.relay.Image(w.Context(), guest.ImageInput{Target: target}) })
		}
		w.wantRefused(image(guest.ImageTarget{Source: "application"}).err, "no guest is held")
		w.acquire("one")
		if a := image(guest.ImageTarget{Source: "application"}); a.err != nil || a.result.Value != "one-1" {
			w.Errorf("the only guest: %+v", a)
		}
		w.acquire("two")
		if a := image(guest.ImageTarget{Source: "display", SessionID: "session of two-1"}); a.err != nil || a.result.Value != "two-1" {
			w.Errorf("the guest of the recording: %+v", a)
		}
		w.wantRefused(image(guest.ImageTarget{Source: "application"}).err, "one-1, two-1")
	})
}

func TestALostBeatIsTriedAgainAndTheGuestComparedInItsTurn(t *testing.T) { // T84
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		long := w.script(w.Context(), "one-1", "a for 5m")
		g.loseBeats(errors.New("no answer"))
		time.Sleep(2 * time.Minute)
		if trace := g.look().trace; trace[len(trace)-1] != "+a" {
			w.Errorf("compared beside a running call: %v", trace)
		}
		g.loseBeats(nil)
		<-long
		synctest.Wait()
		after := g.look()
		if got := after.trace[len(after.trace)-1]; got != "-reconcile" {
			w.Errorf("not compared after the call: %v", after.trace)
		}
		if len(after.beats) == 0 {
			w.Error("no beat after the fault")
		}
	})
}
