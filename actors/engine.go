package actors

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/anthdm/hollywood/actor"

	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// inboxSize is the first capacity of a mailbox, which grows as needed. Hollywood's own costs 28 KB an actor.
const inboxSize = 16

// EngineOptions configure an Engine.
type EngineOptions struct {
	// Emit is told every supervision event, on the goroutine of the supervisor concerned: it must not block. Nil: nobody is told.
	Emit func(supervisor.Event)
}

// Engine runs actors. It needs no closing: it holds no goroutine while every actor is idle, and nothing of an actor that ended.
type Engine struct {
	hollywood    *actor.Engine
	emit         func(supervisor.Event)
	incarnations atomic.Uint64
	living       atomic.Int64
	abandoned    atomic.Int64
	deadLetters  atomic.Uint64
}

// NewEngine makes an engine without actors.
func NewEngine(options EngineOptions) (*Engine, error) {
	hollywood, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return nil, fmt.Errorf("cannot make the actor engine: %w", err)
	}
	if options.Emit == nil {
		options.Emit = func(supervisor.Event) {}
	}
	return &Engine{hollywood: hollywood, emit: options.Emit}, nil
}

// Living is how many actors have been made and have not ended. An abandoned one counts until it ends.
func (e *Engine) Living() int { return int(e.living.Load()) }

// Abandoned is how many actors their supervisors have given up on that have not ended yet.
func (e *Engine) Abandoned() int { return int(e.abandoned.Load()) }

// DeadLetters is how many messages were told to actors that had ended, or were in the mailbox of one when it ended.
func (e *Engine) DeadLetters() uint64 { return e.deadLetters.Load() }

// mailbox is one process of hollywood's. Its name is never used again, so that no message can reach a successor.
type mailbox struct {
	hollywood *actor.Engine
	pid       *actor.PID
}

// open makes the process of a cell. On return the cell has been told to boot, on a goroutine that is not the caller's.
func (e *Engine) open(c *cell) {
	id := strconv.FormatUint(c.life.incarnation, 10)
	c.life.box = mailbox{e.hollywood, actor.NewPID(e.hollywood.Address(), c.life.path+"/"+id)}
	e.hollywood.Spawn(func() actor.Receiver { return process{c} }, c.life.path, actor.WithID(id), actor.WithInboxSize(inboxSize))
}

func (m mailbox) push(msg any) { m.hollywood.Send(m.pid, msg) }

// close ends the process behind what is in its mailbox. It is called once, by the cell, after it has ended.
func (m mailbox) close() { m.hollywood.Stop(m.pid) }

// forget takes the process off the books without its help, for the one whose goroutine is lost: hollywood would never run it again.
func (m mailbox) forget() { m.hollywood.Registry.Remove(m.pid) }

// process is what hollywood sees of a cell.
type process struct{ cell *cell }

// Receive must never panic: hollywood would restart the process by its own rules.
func (p process) Receive(c *actor.Context) {
	switch msg := c.Message().(type) {
	case actor.Initialized:
	case actor.Started:
		p.cell.life.box.push(boot{}) // behind Spawn: Init must not run on the spawner's goroutine
	case actor.Stopped:
		p.cell.receive(stopped{}) // no news, unless somebody else stopped the process
	default:
		p.cell.receive(msg)
	}
}
