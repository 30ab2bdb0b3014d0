package actors

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

func TestTwoAcquisitionsCannotBothTakeTheLastSlot(t *testing.T) { // T64, T65
	inRelay(t, func(o *Options, h *fakeHost) { o.MaxGuests, h.slow = 1, time.Second }, func(w *world) {
		acquire := func() <-chan answered {
			return w.call(func() (guest.Result, error) { return w.relay.Acquire(w.Context(), guest.AcquireInput{Task: "one"}) })
		}
		first, second := acquire(), acquire()
		a, b := <-first, <-second
		if a.err != nil {
			w.Error(a.err)
		}
		w.wantRefused(b.err, "being acquired")
		if b.took != 0 {
			w.Errorf("refused after %v, not at once", b.took)
		}
		w.wantRefused((<-acquire()).err, "one-1")
		if w.host.created != 1 {
			w.Errorf("%d guests were made", w.host.created)
		}
	})
}

func TestNamesOfOneTaskAreNeverGivenTwice(t *testing.T) {
	inRelay(t, func(_ *Options, h *fakeHost) { h.slow = time.Second }, func(w *world) {
		var answers []<-chan answered
		for range 3 {
			answers = append(answers, w.call(func() (guest.Result, error) {
				return w.relay.Acquire(w.Context(), guest.AcquireInput{Task: "one"})
			}))
		}
		for _, a := range answers {
			if got := <-a; got.err != nil {
				w.Error(got.err)
			}
		}
		if got := strings.Join(w.system.parts.roster.held(), " "); got != "one-1 one-2 one-3" {
			w.Errorf("held: %s", got)
		}
	})
}

func TestARefusedAcquisitionFreesItsSlot(t *testing.T) { // T57
	inRelay(t, func(o *Options, h *fakeHost) {
		o.MaxGuests = 1
		h.faults["create"] = guest.Refuse("there is no image")
	}, func(w *world) {
		_, err := w.relay.Acquire(w.Context(), guest.AcquireInput{Task: "one"})
		w.wantRefused(err, "there is no image")
		w.host.mu.Lock()
		delete(w.host.faults, "create")
		w.host.mu.Unlock()
		w.acquire("one")
	})
}

func TestAnAcquisitionCancelledBeforeItIsSentAllocatesNothing(t *testing.T) { // T52
	inRelay(t, func(o *Options, h *fakeHost) { o.MaxGuests = 1 }, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if _, err := w.relay.Acquire(ctx, guest.AcquireInput{Task: "one"}); err == nil {
			w.Error("no error")
		}
		if n := len(w.status().Guests); n != 0 {
			w.Errorf("%d guests held", n)
		}
		w.acquire("two")
	})
}

func TestAnAcquisitionCancelledAfterItWasSentIsOwnedAndRenewed(t *testing.T) { // T53, R4
	inRelay(t, nil, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		acquire := w.call(func() (guest.Result, error) { return w.relay.Acquire(ctx, guest.AcquireInput{Task: "one"}) })
		time.Sleep(100 * time.Millisecond)
		cancel()
		if a := <-acquire; a.err == nil || !strings.Contains(a.err.Error(), "owned") || a.took != time.Second {
			w.Errorf("%v after %v", a.err, a.took)
		}
		time.Sleep(time.Hour)
		g := w.host.guest("one-1")
		if len(g.look().beats) < 55 {
			w.Errorf("%d beats in an hour", len(g.look().beats))
		}
		if a := <-w.script(w.Context(), "one-1", "a"); a.err != nil {
			w.Error(a.err)
		}
	})
}

func restored(names ...string) func(*Options, *fakeHost) {
	return func(_ *Options, h *fakeHost) {
		for _, name := range names {
			h.stored = append(h.stored, guest.Stored{Name: name, Status: guest.Status{Guest: name, State: guest.StateStaged, Unreconciled: true}})
		}
	}
}

func TestGuestsOfAnEarlierProcessAreShownAtOnceAndTakenUpByTheFirstCall(t *testing.T) { // T67, D18
	inRelay(t, restored("old-1", "other-1"), func(w *world) {
		status := w.status()
		if len(status.Guests) != 2 || !status.Guests["old-1"].Unreconciled || status.Active {
			w.Errorf("status: %+v", status)
		}
		if len(w.host.guests) != 0 {
			w.Error("a guest was opened before any call needed it")
		}
		first, second := w.script(w.Context(), "old-1", "a"), w.script(w.Context(), "old-1", "b")
		for _, a := range []<-chan answered{first, second} {
			if got := <-a; got.err != nil {
				w.Error(got.err)
			}
		}
		g := w.host.guest("old-1")
		w.wantBegan(g, "a", "b")
		time.Sleep(time.Second)
		after := g.look()
		if after.trace[0] != "+reconcile" {
			w.Errorf("not compared first: %v", after.trace)
		}
		if len(after.beats) != 1 {
			w.Errorf("a lease with a minute left got %d beats at once", len(after.beats))
		}
	})
}

func TestAGuestOwnedElsewhereDoesNotHideTheOthers(t *testing.T) { // T70, T72
	inRelay(t, restored("old-1", "other-1"), func(w *world) {
		w.host.faults["open old-1"] = &guest.HeldElsewhereError{Name: "old-1"}
		var elsewhere *guest.HeldElsewhereError
		if a := <-w.script(w.Context(), "old-1", "a"); !errors.As(a.err, &elsewhere) {
			w.Errorf("got %v", a.err)
		}
		if a := <-w.script(w.Context(), "other-1", "a"); a.err != nil {
			w.Error(a.err)
		}
		w.host.faults["open old-1"] = &guest.UnknownGuestError{Name: "old-1"}
		var unknown *guest.UnknownGuestError
		if a := <-w.script(w.Context(), "old-1", "a"); !errors.As(a.err, &unknown) || len(unknown.Held) != 1 {
			w.Errorf("got %v", a.err)
		}
	})
}

func TestAPauseRenewsOnceForAllThatIsLeftAndLetsGo(t *testing.T) { // T31
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		<-w.script(w.Context(), "one-1", "a for 5m10s")
		before := len(g.look().beats)
		code, took := w.end("the client is gone")
		if code != 0 || took > 2*time.Second {
			w.Errorf("code %d after %v", code, took)
		}
		after := g.look()
		if len(after.beats) != before+1 {
			w.Fatalf("%d last beats", len(after.beats)-before)
		}
		last := after.beats[before]
		if end := last.at.Add(last.ttl); end.Before(after.lease.Deadline) || end.After(after.lease.Deadline.Add(time.Second)) {
			w.Errorf("the last beat reaches to %v, the deadline is %v", end, after.lease.Deadline)
		}
		if after.lease.Active || after.closed != 1 || len(after.reasons) != 1 || !strings.Contains(after.reasons[0], "the client is gone") {
			w.Errorf("active %t, closed %d, reasons %q", after.lease.Active, after.closed, after.reasons)
		}
		time.Sleep(time.Hour)
		if len(g.look().beats) != before+1 {
			w.Error("renewed after the pause")
		}
		w.wantBegan(g, "acquire", "a")
	})
}

func TestWhatIsInFlightEndsBeforeItsGuestIsPausedAndNothingElseBegins(t *testing.T) { // T32
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		running := w.script(w.Context(), "one-1", "a for 10s")
		finish := w.call(func() (guest.Result, error) { return w.relay.Finish(w.Context(), guest.NamedInput{Guest: "one-1"}) })
		waiting := w.script(w.Context(), "one-1", "b")
		ended := w.system.End("the client is gone")
		synctest.Wait()
		w.wantRefused((<-waiting).err, "shutting down")
		w.wantRefused((<-w.script(w.Context(), "one-1", "c")).err, "shutting down")
		_, err := w.relay.Acquire(w.Context(), guest.AcquireInput{Task: "two"})
		w.wantRefused(err, "shutting down")
		if !errors.Is(w.Context().Err(), nil) || len(w.status().Guests) != 1 {
			w.Error("status does not answer while the session ends")
		}
		if a := <-running; a.err != nil || a.took != 10*time.Second {
			w.Errorf("the running call: %v after %v", a.err, a.took)
		}
		if a := <-finish; a.err != nil {
			w.Errorf("a finish already sent: %v", a.err)
		}
		if code := <-ended; code != 0 {
			w.Errorf("code %d", code)
		}
		w.wantBegan(g, "acquire", "a", "finish")
	})
}

func TestEndingTwiceIsEndingOnce(t *testing.T) { // T43
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		first, second := w.system.End("one"), w.system.End("two")
		if a, b := <-first, <-second; a != 0 || b != 0 {
			w.Errorf("codes %d and %d", a, b)
		}
		if reasons := g.look().reasons; len(reasons) != 1 || !strings.Contains(reasons[0], "one") {
			w.Errorf("reasons %q", reasons)
		}
		if code, _ := w.end("three"); code != 0 {
			w.Errorf("code %d after the end", code)
		}
	})
}

func TestAnOperationThatHangsIsCutOffAndItsGuestPausedAllTheSame(t *testing.T) { // T33
	for _, how := range []string{"for 10h", "stubborn", "deaf 65.05s"} {
		t.Run(how, func(t *testing.T) {
			inRelay(t, nil, func(w *world) {
				g, other := w.acquire("one"), w.acquire("two")
				hangs := w.script(w.Context(), "one-1", "a "+how)
				code, took := w.end("the client is gone")
				w.wantUncertain((<-hangs).err)
				if code != 0 || took < time.Minute || took > time.Minute+6*time.Second+stopTime {
					w.Errorf("code %d after %v", code, took)
				}
				for _, g := range []*fakeGuest{g, other} {
					if after := g.look(); after.lease.Active || after.closed != 1 || after.gone {
						w.Errorf("guest %s: active %t, closed %d, gone %t", g.name, after.lease.Active, after.closed, after.gone)
					}
				}
			})
		})
	}
}

func TestWithoutAGraceNothingInFlightIsWaitedFor(t *testing.T) {
	inRelay(t, func(o *Options, _ *fakeHost) { o.Grace = 0 }, func(w *world) {
		g := w.acquire("one")
		hangs := w.script(w.Context(), "one-1", "a for 10h")
		code, took := w.end("the client is gone")
		w.wantUncertain((<-hangs).err)
		if after := g.look(); code != 0 || took > time.Second || after.lease.Active || after.closed != 1 {
			w.Errorf("code %d after %v, active %t, closed %d", code, took, after.lease.Active, after.closed)
		}
	})
}

func TestALaneThatCrashesAtTheEndDoesNotKeepItsGuestFromBeingPaused(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		hangs := w.script(w.Context(), "one-1", "a for 10h")
		ended := w.system.End("the client is gone")
		synctest.Wait()
		w.crash("one-1")
		w.wantUncertain((<-hangs).err)
		if code := <-ended; code != 0 {
			w.Errorf("code %d", code)
		}
		if after := g.look(); after.lease.Active || after.closed != 1 {
			w.Errorf("active %t, closed %d", after.lease.Active, after.closed)
		}
	})
}

func releasing(o *Options, _ *fakeHost) { o.OnExit = "release" }

func TestReleaseAtTheEndReleasesEveryGuestSideBySide(t *testing.T) { // T39
	inRelay(t, func(o *Options, h *fakeHost) { releasing(o, h); restored("old-1")(o, h) }, func(w *world) {
		w.acquire("one")
		w.acquire("two")
		code, took := w.end("the client is gone")
		if code != 0 || took != time.Second {
			w.Errorf("code %d after %v", code, took)
		}
		for _, name := range []string{"one-1", "two-1", "old-1"} {
			if !w.host.guest(name).look().gone {
				w.Errorf("guest %s was not released", name)
			}
		}
	})
}

func TestAFailedReleaseAtTheEndKeepsTheGuestWithoutALastRenewal(t *testing.T) { // T40
	inRelay(t, releasing, func(w *world) {
		bad, good := w.acquire("one"), w.acquire("two")
		bad.fail("release", errors.New("no answer"))
		beats := len(bad.look().beats)
		code, _ := w.end("the client is gone")
		after := bad.look()
		if code != 1 || after.gone || !good.look().gone {
			w.Errorf("code %d, gone %t and %t", code, after.gone, good.look().gone)
		}
		if len(after.beats) != beats || after.lease.Active {
			w.Error("renewed after a failed release")
		}
	})
}

func TestAHungOperationDoesNotKeepItsGuestFromBeingReleased(t *testing.T) { // T41
	inRelay(t, releasing, func(w *world) {
		g := w.acquire("one")
		hangs := w.script(w.Context(), "one-1", "a stubborn")
		code, took := w.end("the client is gone")
		w.wantUncertain((<-hangs).err)
		if code != 0 || !g.look().gone || took > time.Minute+7*time.Second+stopTime {
			w.Errorf("code %d, gone %t after %v", code, g.look().gone, took)
		}
		g.forgive() // the one attempt is made beside what hangs
	})
}

func TestARunThatOutlivesTheGraceIsCancelledAndItsGuestDestroyedAtOnce(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Minute} {
		t.Run(grace.String(), func(t *testing.T) {
			inRelay(t, func(o *Options, h *fakeHost) { releasing(o, h); o.Grace = grace }, func(w *world) {
				g := w.acquire("one")
				g.burden(10*time.Hour, false)
				running := w.script(w.Context(), "one-1", "a for 10h")
				code, took := w.end("the client is gone")
				w.wantUncertain((<-running).err)
				if after := g.look(); code != 0 || !after.gone || after.kept || took != grace+time.Second {
					w.Errorf("code %d, gone %t, kept %t after %v", code, after.gone, after.kept, took)
				}
				w.wantBegan(g, "acquire", "a", "release")
			})
		})
	}
}

func TestARunThatEndsWithinTheGraceIsCompletedAndItsEvidenceKept(t *testing.T) {
	inRelay(t, releasing, func(w *world) {
		g := w.acquire("one")
		g.burden(10*time.Second, false)
		running := w.script(w.Context(), "one-1", "a for 30s")
		code, took := w.end("the client is gone")
		if a := <-running; a.err != nil || a.took != 30*time.Second {
			w.Errorf("the run: %v after %v", a.err, a.took)
		}
		if after := g.look(); code != 0 || !after.gone || !after.kept || took != 41*time.Second {
			w.Errorf("code %d, gone %t, kept %t after %v", code, after.gone, after.kept, took)
		}
	})
}

func TestAReleaseThatHangsInItsTurnDoesNotKeepItsGuestFromBeingDestroyed(t *testing.T) {
	inRelay(t, releasing, func(w *world) {
		g := w.acquire("one")
		g.burden(0, true)
		code, took := w.end("the client is gone")
		if after := g.look(); code != 0 || !after.gone || took < time.Minute || took > time.Minute+6*time.Second+stopTime {
			w.Errorf("code %d, gone %t after %v", code, after.gone, took)
		}
		w.wantBegan(g, "acquire", "release", "release")
		g.forgive() // the one attempt is made beside what hangs
	})
}

func TestASlowReleaseIsWaitedForWhenTheAttemptBesideItFails(t *testing.T) {
	inRelay(t, releasing, func(w *world) {
		g := w.acquire("one")
		g.burden(0, true)
		ended := w.system.End("the client is gone")
		synctest.Wait()
		g.fail("release", errors.New("another release is under way"))
		time.Sleep(time.Minute + 10*time.Second)
		w.wantBegan(g, "acquire", "release", "release")
		close(g.free)
		if code := <-ended; code != 0 || !g.look().gone {
			w.Errorf("code %d, gone %t", code, g.look().gone)
		}
		g.forgive() // the one attempt is made beside what hangs
	})
}

func TestAReleaseThatNeverGotItsTurnIsNoFailure(t *testing.T) {
	inRelay(t, releasing, func(w *world) {
		g := w.acquire("one")
		hangs := w.script(w.Context(), "one-1", "a stubborn")
		w.crash("one-1") // the work stays, and has the guest
		w.wantUncertain((<-hangs).err)
		code, took := w.end("the client is gone")
		if after := g.look(); code != 0 || !after.gone || took > time.Minute+6*time.Second+stopTime {
			w.Errorf("code %d, gone %t after %v", code, after.gone, took)
		}
		g.forgive() // the one attempt is made beside what hangs
	})
}

func TestACancelledReleaseIsBroughtToItsEndWithoutFurtherEvidence(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		g.burden(10*time.Hour, false)
		ctx, cancel := context.WithCancel(w.Context())
		release := w.call(func() (guest.Result, error) { return w.relay.Release(ctx, guest.NamedInput{Guest: "one-1"}) })
		cancel()
		if a := <-release; a.err == nil || a.took != 0 {
			w.Errorf("a cancelled release: %v after %v", a.err, a.took)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if after := g.look(); !after.gone || after.kept {
			w.Errorf("gone %t, kept %t", after.gone, after.kept)
		}
	})
}

func TestASessionThatCannotBeStartedSaysWhy(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no guests", func(o *Options) { o.MaxGuests = 0 }, "at most 0 guests"},
		{"unknown exit policy", func(o *Options) { o.OnExit = "explode" }, "explode"},
		{"negative grace", func(o *Options) { o.Grace = -1 }, "negative"},
		{"no guest library", func(o *Options) { o.Host = nil }, "guest options"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := Options{Host: &fakeHost{}, MaxGuests: 1, OnExit: "pause"}
			row.change(&o)
			if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q in it", err, row.want)
			}
		})
	}
}

func TestASessionWhoseActorsGiveUpSaysSoAndLetsGoOfItsGuests(t *testing.T) {
	inRelay(t, nil, func(w *world) {
		g := w.acquire("one")
		for range bearable.MaxRestarts + 1 {
			desk := w.system.parts.self.get()
			desk.Tell(acquireAsked{nil})
			<-desk.Done()
			time.Sleep(time.Second)
		}
		<-w.system.Failed()
		if code, _ := w.end("the session failed"); code != 1 {
			w.Errorf("code %d", code)
		}
		if after := g.look(); after.lease.Active || after.closed != 1 {
			w.Errorf("the exit policy was not carried out: active %t, closed %d", after.lease.Active, after.closed)
		}
	})
}

func TestALogThatHangsHoldsUpNothing(t *testing.T) {
	var stuck chan struct{}
	inRelay(t, func(o *Options, _ *fakeHost) {
		stuck = make(chan struct{}) // of the bubble
		o.Events = func(Event) { <-stuck }
	}, func(w *world) {
		g := w.acquire("one")
		if a := <-w.script(w.Context(), "one-1", "a for 1h"); a.err != nil || a.took != time.Hour {
			w.Errorf("%v after %v", a.err, a.took)
		}
		if n := len(g.look().beats); n < 55 {
			w.Errorf("%d beats in an hour", n)
		}
		if code, took := w.end("the client is gone"); code != 0 || took > tellerStop+time.Second {
			w.Errorf("code %d after %v", code, took)
		}
		close(stuck)
	})
}
