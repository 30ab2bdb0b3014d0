package actors_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// The canaries pin what the base relies on in hollywood, so that another version of it that behaves differently fails here first.

type canary func(*actor.Context)

func (c canary) Receive(ctx *actor.Context) { c(ctx) }

func hatch(t *testing.T, receive func(*actor.Context)) (*actor.Engine, *actor.PID) {
	t.Helper()
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	return engine, engine.Spawn(func() actor.Receiver { return canary(receive) }, "canary", actor.WithID("1"), actor.WithInboxSize(16))
}

func TestHollywoodKeepsTheOrderOfEachSender(t *testing.T) {
	const senders, each = 8, 2000
	got := make([][]int, senders)
	var seen sync.WaitGroup
	seen.Add(senders * each)
	engine, pid := hatch(t, func(c *actor.Context) {
		if m, ok := c.Message().([2]int); ok {
			got[m[0]] = append(got[m[0]], m[1])
			seen.Done()
		}
	})
	for sender := range senders {
		go func() {
			for n := range each {
				engine.Send(pid, [2]int{sender, n})
			}
		}()
	}
	seen.Wait()
	for sender, numbers := range got {
		if !slices.IsSorted(numbers) {
			t.Errorf("messages of sender %d arrived out of order", sender)
		}
	}
	<-engine.Stop(pid).Done()
}

func TestHollywoodWakesTheOneWhoStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := false
		engine, pid := hatch(t, func(c *actor.Context) {
			if _, ok := c.Message().(actor.Stopped); ok {
				stopped = true
			}
		})
		<-engine.Stop(pid).Done() // a waiter that is not woken is a deadlock of the bubble
		if !stopped || engine.Registry.GetPID("canary", "1") != nil {
			t.Errorf("stopped = %t, registered = %v", stopped, engine.Registry.GetPID("canary", "1"))
		}
	})
}

func TestHollywoodStopsBehindWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		engine, pid := hatch(t, func(c *actor.Context) {
			if n, ok := c.Message().(int); ok {
				got = append(got, n)
			}
		})
		for n := range 100 {
			engine.Send(pid, n)
		}
		<-engine.Stop(pid).Done()
		if len(got) != 100 {
			t.Errorf("%d of 100 messages before the pill were handled", len(got))
		}
	})
}

func TestHollywoodStartsInsideSpawn(t *testing.T) {
	started := false // written without a lock: the race detector objects if it happens elsewhere
	engine, pid := hatch(t, func(c *actor.Context) {
		if _, ok := c.Message().(actor.Started); ok {
			started = true
			if c.Engine().Registry.GetPID("canary", "1") == nil {
				t.Error("the process is not registered when it is started")
			}
		}
	})
	if !started {
		t.Error("Spawn returned before Started was handled")
	}
	<-engine.Stop(pid).Done()
}

func TestHollywoodKeepsNoGoroutineWhenIdle(t *testing.T) {
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	var handled sync.WaitGroup
	handled.Add(1000)
	before := runtime.NumGoroutine()
	var pids []*actor.PID
	for range 1000 {
		pids = append(pids, engine.Spawn(func() actor.Receiver {
			return canary(func(c *actor.Context) {
				if _, ok := c.Message().(int); ok {
					handled.Done()
				}
			})
		}, "idle", actor.WithInboxSize(16)))
	}
	for _, pid := range pids {
		engine.Send(pid, 1)
	}
	handled.Wait()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+10; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("1000 idle actors hold %d goroutines", runtime.NumGoroutine()-before)
		}
	}
}
