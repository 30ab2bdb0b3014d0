package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/actors"
	"github.com/seed-1e4c9d81/mcp-relay/actors/actorstest"
)

var errCrash = errors.New("crash")

// expect compares what was written with what should have been.
func expect(b *actorstest.Bench, log *actorstest.Log, want ...string) {
	b.Helper()
	if got := log.Take(); !slices.Equal(got, want) {
		b.Errorf("log\n got %q\nwant %q", got, want)
	}
}

func TestEveryEndRunsTerminateOnceAndTellsItsReason(t *testing.T) {
	for _, tt := range []struct {
		name string
		msg  any
		want error
	}{
		{"a reason returned", actorstest.End{Reason: errCrash}, errCrash},
		{"normal", actorstest.End{Reason: actors.ErrNormal}, actors.ErrNormal},
		{"stop", actors.Stop{}, actors.ErrShutdown},
		{"goexit (H11)", actorstest.Goexit{}, actors.ErrGoexit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			actorstest.Run(t, func(b *actorstest.Bench) {
				log := &actorstest.Log{}
				ref, over := b.Start(&actorstest.Probe{Log: log})
				log.Take()
				b.Tell(ref, tt.msg)
				if got := <-over; !errors.Is(got, tt.want) || !errors.Is(ref.Err(), tt.want) || ref.Alive() {
					b.Errorf("reason = %v, Err = %v, want %v", got, ref.Err(), tt.want)
				}
				lines := slices.DeleteFunc(log.Take(), func(l string) bool { return l == "stop" })
				if want := []string{"end: " + tt.want.Error()}; !slices.Equal(lines, want) {
					b.Errorf("log = %q, want %q", lines, want)
				}
			})
		})
	}
}

// H1, H4, H5, H6: hollywood sees no panic, whatever panics.
func TestAPanicAnywhereIsAnOrdinaryEnd(t *testing.T) {
	for _, where := range []string{"make", "init", "handle", "terminate"} {
		t.Run(where, func(t *testing.T) {
			actorstest.Run(t, func(b *actorstest.Bench) {
				ref, over := b.Start(&fragile{where})
				b.Tell(ref, "anything")
				reason := <-over
				if panicked := (*actors.PanicError)(nil); where != "terminate" && !errors.As(reason, &panicked) {
					b.Errorf("reason = %v, want a panic", reason)
				}
				if !errors.Is(reason, errCrash) && where == "terminate" {
					b.Errorf("reason = %v, want the one it ended with", reason)
				}
			})
		})
	}
}

type fragile struct{ where string }

func (f *fragile) Init(*actors.Ctx) error {
	if f.where == "init" || f.where == "make" {
		panic(f.where)
	}
	return nil
}

func (f *fragile) Handle(*actors.Ctx, any) error {
	if f.where == "handle" {
		panic(f.where)
	}
	return errCrash
}

func (f *fragile) Terminate(*actors.Ctx, error) error {
	if f.where == "terminate" {
		panic(f.where)
	}
	return nil
}

func TestInitDoesNotRunOnTheSpawner(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		before := time.Now()
		ref, _ := actors.StartRoot(context.Background(), b.Engine, "slow", &actorstest.Probe{InitTime: time.Hour})
		if waited := time.Since(before); waited != 0 {
			b.Errorf("starting took %v", waited)
		}
		ref.Tell(actors.Stop{})
		<-ref.Done()
	})
}

// failing counts what becomes of it.
type failing struct{ outcome *[]error }

func (f failing) Fail(err error) { *f.outcome = append(*f.outcome, err) }

// H9: no message is neither handled nor failed.
func TestEveryFailerBehindTheEndIsFailedOnce(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, _ := b.Start(&actorstest.Probe{})
		var outcome []error
		ref.Tell(actorstest.Block{For: time.Second})
		ref.Tell(actorstest.End{Reason: errCrash})
		for range 3 {
			ref.Tell(failing{&outcome})
		}
		<-ref.Done()
		synctest.Wait()
		b.Tell(ref, failing{&outcome})
		if len(outcome) != 4 {
			b.Fatalf("%d failed, want 4", len(outcome))
		}
		for _, err := range outcome {
			if !errors.Is(err, actors.ErrDown) || !errors.Is(err, errCrash) {
				b.Errorf("failed with %v, want the end and its reason", err)
			}
		}
		if got := b.Engine.DeadLetters(); got != 4 {
			b.Errorf("dead letters = %d, want 4", got)
		}
	})
}

// panicking panics in Fail, too.
type panicking struct{ failing }

func (p panicking) Fail(err error) {
	p.failing.Fail(err)
	panic("in Fail")
}

func TestAMessageThatCrashedItsHandlerIsFailedAfterTerminate(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		var outcome []error
		ref, _ := b.Start(&fragile{"handle"})
		b.Tell(ref, panicking{failing{&outcome}})
		if len(outcome) != 1 || ref.Alive() {
			b.Errorf("failed %d times, want once", len(outcome))
		}
	})
}

func TestAfterAGoexitNothingIsLeftBehind(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, over := b.Start(&actorstest.Probe{})
		ref.Tell(actorstest.Block{For: time.Second})
		ref.Tell(actorstest.Goexit{})
		ref.Tell("never handled")
		var outcome []error
		ref.Tell(failing{&outcome})
		if reason := <-over; !errors.Is(reason, actors.ErrGoexit) {
			b.Errorf("reason = %v", reason)
		}
		synctest.Wait()
		if got := b.Engine.DeadLetters(); got != 2 {
			b.Errorf("dead letters = %d, want 2", got)
		}
		if len(outcome) != 1 || !errors.Is(outcome[0], actors.ErrGoexit) {
			b.Errorf("failed with %v, want the end once", outcome)
		}
		if actors.Registered(b.Engine, ref) {
			b.Error("hollywood still has the process on its books")
		}
		b.Tell(ref, "later")
		if got := b.Engine.DeadLetters(); got != 3 {
			b.Errorf("dead letters = %d, want 3", got)
		}
	})
}

func TestALaterTimerTakesTheKeyOver(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		ref, _ := b.Start(&actorstest.Probe{Log: log})
		log.Take()
		b.Tell(ref, actorstest.Do{F: func(c *actors.Ctx) {
			c.After("a", time.Second, "stale")
			c.After("a", 2*time.Second, "a")
			c.After("b", time.Second, "cancelled")
			c.Cancel("b")
			c.After("c", time.Second, "c")
		}})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		expect(b, log, "got c", "got a")
	})
}

func TestATickThatHasRunOutIsStaleOnceCancelled(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		ref, _ := b.Start(&actorstest.Probe{Log: log})
		log.Take()
		ref.Tell(actorstest.Do{F: func(c *actors.Ctx) {
			c.After("a", time.Second, "stale")
			time.Sleep(2 * time.Second) // its tick is in the mailbox now
			c.Cancel("a")
		}})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		expect(b, log)
	})
}

func TestNoTimerSurvivesItsActor(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, _ := b.Start(&actorstest.Probe{})
		ref.Tell(actorstest.Do{F: func(c *actors.Ctx) { c.After("a", time.Minute, "late") }})
		b.Tell(ref, actors.Stop{})
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := b.Engine.DeadLetters(); n != 0 {
			b.Errorf("dead letters = %d, want 0", n)
		}
	})
}

func TestOffloadedWorkReportsExactlyOnceWhateverHappens(t *testing.T) {
	for _, tt := range []struct {
		name string
		work func(context.Context) (int, error)
		want string
	}{
		{"a value", func(context.Context) (int, error) { return 7, nil }, "got 7 <nil>"},
		{"an error", func(context.Context) (int, error) { return 0, errCrash }, "got 0 crash"},
		{"a panic", func(context.Context) (int, error) { panic("boo") }, "got 0 panic: boo"},
		{"a goexit", func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, "got 0 " + actors.ErrGoexit.Error()},
		{"a cancel", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }, "got 0 context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			actorstest.Run(t, func(b *actorstest.Bench) {
				log := &actorstest.Log{}
				ref, _ := b.Start(&actorstest.Probe{Log: log})
				log.Take()
				b.Tell(ref, actorstest.Do{F: func(c *actors.Ctx) {
					actors.Offload(c, "work", tt.work, func(n int, err error) any { return fmt.Sprint(n, " ", err) })
				}})
				b.Tell(ref, actorstest.Do{F: func(c *actors.Ctx) { c.CancelWork("work") }})
				expect(b, log, tt.want)
			})
		})
	}
}

func TestAMessageThatCannotBeMadeEndsTheActor(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, over := b.Start(&actorstest.Probe{})
		ref.Tell(actorstest.Do{F: func(c *actors.Ctx) {
			actors.Offload(c, nil, func(context.Context) (int, error) { return 0, nil }, func(int, error) any { panic("boo") })
		}})
		if panicked := (*actors.PanicError)(nil); !errors.As(<-over, &panicked) {
			b.Error("the actor did not end with the panic")
		}
	})
}

func TestOffloadedWorkEndsWithItsActor(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, _ := b.Start(&actorstest.Probe{})
		var outcome []error
		ref.Tell(actorstest.Do{F: func(c *actors.Ctx) {
			actors.Offload(c, nil, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, nil }, func(int, error) any { return failing{&outcome} })
		}})
		b.Tell(ref, actors.Stop{})
		if len(outcome) != 1 { // its message had nobody to go to
			b.Errorf("failed %d times, want once", len(outcome))
		}
	})
}

// I11
func TestAWatcherIsToldExactlyOnce(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		watcher, _ := b.Start(&actorstest.Probe{Log: log})
		target, _ := b.Start(&actorstest.Probe{})
		other, _ := b.Start(&actorstest.Probe{})
		log.Take()
		watch := func(refs ...actors.Ref) {
			b.Tell(watcher, actorstest.Do{F: func(c *actors.Ctx) {
				for _, ref := range refs {
					c.Watch(ref)
				}
			}})
		}
		watch(target, target, other)
		b.Tell(watcher, actorstest.Do{F: func(c *actors.Ctx) { c.Unwatch(other) }})
		b.Tell(target, actorstest.End{Reason: errCrash})
		b.Tell(other, actorstest.End{Reason: errCrash})
		expect(b, log, "got {root crash}")
		watch(target)
		expect(b, log, "got {root crash}")
	})
}

func TestADownThatIsOnItsWayIsNotSeenAfterUnwatch(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		log := &actorstest.Log{}
		watcher, _ := b.Start(&actorstest.Probe{Log: log})
		target, _ := b.Start(&actorstest.Probe{})
		log.Take()
		b.Tell(watcher, actorstest.Do{F: func(c *actors.Ctx) {
			c.Watch(target)
			target.Tell(actors.Stop{})
			<-target.Done() // its Down is in the mailbox now
			c.Unwatch(target)
		}})
		expect(b, log)
	})
}

// A1-A5
func TestAskEndsByAnswerContextOrDeath(t *testing.T) {
	ask := func(ctx context.Context, to actors.Ref) (string, error) {
		return actors.Ask(ctx, to, func(r actors.Reply[string]) any { return actorstest.Echo{Reply: r} })
	}
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, _ := b.Start(&actorstest.Probe{Name: "p"})
		if got, err := ask(context.Background(), ref); got != "p" || err != nil {
			b.Errorf("answer = %q, %v", got, err)
		}

		ref.Tell(actorstest.Block{For: time.Hour})
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errCrash)
		defer cancel()
		before := time.Now()
		if _, err := ask(ctx, ref); !errors.Is(err, errCrash) || time.Since(before) != time.Second {
			b.Errorf("error = %v after %v, want the context's cause after 1s", err, time.Since(before))
		}

		ref.Tell(actorstest.End{Reason: errCrash})
		before = time.Now()
		if _, err := ask(context.Background(), ref); !errors.Is(err, actors.ErrDown) || !errors.Is(err, errCrash) {
			b.Errorf("error = %v, want the end", err)
		}
		if waited := time.Since(before); waited >= time.Hour {
			b.Errorf("the end was noticed after %v", waited)
		}
		if _, err := ask(context.Background(), actors.Ref{}); !errors.Is(err, actors.ErrDown) {
			b.Errorf("asking nobody: %v", err)
		}
	})
}

// A2: also when the message is no Failer, so that nobody but Done tells.
func TestAskEndsWithItsTarget(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, _ := b.Start(&actorstest.Probe{StopTime: time.Minute})
		before := time.Now()
		_, err := actors.Ask(context.Background(), ref, func(actors.Reply[int]) any { return actors.Stop{Reason: errCrash} })
		if !errors.Is(err, actors.ErrDown) || !errors.Is(err, errCrash) || time.Since(before) != time.Minute {
			b.Errorf("error = %v after %v, want the end after 1m", err, time.Since(before))
		}
	})
}

func TestOnlyTheFirstAnswerCounts(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ref, _ := b.Start(&actorstest.Probe{})
		got, err := actors.Ask(context.Background(), ref, func(r actors.Reply[int]) any {
			return actorstest.Do{F: func(*actors.Ctx) {
				r.Send(1)
				r.Send(2)
				r.Fail(errCrash)
			}}
		})
		if got != 1 || err != nil {
			b.Errorf("answer = %d, %v, want 1", got, err)
		}
	})
}

func TestTheEndOfItsContextAsksARootToStop(t *testing.T) {
	actorstest.Run(t, func(b *actorstest.Bench) {
		ctx, cancel := context.WithCancel(context.Background())
		log := &actorstest.Log{}
		ref, over := actors.StartRoot(ctx, b.Engine, "root", &actorstest.Probe{Log: log, StopTime: time.Minute})
		synctest.Wait()
		cancel()
		if reason := <-over; !errors.Is(reason, actors.ErrShutdown) || ref.Alive() {
			b.Errorf("reason = %v", reason)
		}
		expect(b, log, "init", "stop", "end: shutdown")
	})
}
