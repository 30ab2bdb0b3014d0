// Package actors is an actor system with the supervision of Erlang/OTP, and the cast of actors that serve a relay session on it.
//
// # The base
//
// An actor is a Behaviour: Init, then Handle for one message at a time, then Terminate. It is reached through a Ref, which addresses
// one incarnation: an actor that restarts is a new incarnation with a new Ref, and whoever was talking to the old one learns that it
// ended.
//
//	Ref.Tell(msg)                    puts a message into the mailbox and never waits
//	Ref.Done(), Ref.Err()            closed when the incarnation ended, and why it did
//	Ask[T](ctx, ref, makeMessage)    tells, and waits for the Reply, for ctx, or for the end of the other side
//	Ctx.After, Ctx.Cancel            keyed timers: a message to oneself, later; never a stale one
//	Offload[T](c, key, work, msg)    work that blocks, in a goroutine of its own; exactly one message comes back, whatever happens
//	Ctx.Watch                        a Down message, exactly once, when another actor ends
//
// Handle must not block: no I/O, no Ask, no sleep. Blocking work is offloaded; bounds on how much is accepted are the behaviour's own.
// An error from Handle is the reason the actor ends with: ErrNormal and ErrShutdown are orderly, anything else is a crash, and so are a
// panic and a runtime.Goexit. Stop is an ordinary message that a behaviour answers by ending when it is ready to.
//
// What becomes of messages: those told before the actor ended are handled, in the order of each sender, up to the one it ended with.
// That one (after a crash), those behind it, and those told later are failed: a message that is a Failer has Fail called once Terminate
// has run; others are dropped and counted (Engine.DeadLetters). A Reply within a message makes it a Failer when it is embedded.
//
// # Supervision
//
// NewSupervisor and NewDynamicSupervisor make behaviours that keep others running, by the rules of package supervisor/restart:
//
//	engine, err := actors.NewEngine(actors.EngineOptions{Emit: log})
//	root, over := actors.StartRoot(ctx, engine, "root", actors.NewSupervisor(
//		supervisor.Options{Strategy: supervisor.OneForOne, Intensity: supervisor.Intensity{MaxRestarts: 3, Period: time.Minute}},
//		actors.Child{
//			Spec: supervisor.ChildSpec{ID: "clock", Start: time.Second, Shutdown: time.Second},
//			New:  func() actors.Behaviour { return &clock{} },
//		}))
//
// AddChild, TerminateChild, RestartChild, RemoveChild and WhichChildren work at run time; Forward addresses a child by its name, in
// whatever incarnation it lives; Inspect shows a whole tree without asking any actor. They ask, so a behaviour that needs one calls it
// in an offload.
//
// A child that ignores its stop is abandoned when its time has passed: its context ends, its place is given away, an event tells. Its
// goroutine cannot be killed and may still run beside its successor; what only one may touch needs a fence of its own.
//
// The tenet of the package is that hollywood runs mailboxes and nothing else: engine.go alone imports it, no panic reaches it, it never
// restarts or stops anything that has not ended by itself.
package actors
