package supervisor

import (
	"fmt"
	"log/slog"
	"time"
)

// Event is something that happened to a supervisor or to one of its children. Its name and the keys of its fields are stable.
type Event interface {
	Name() string
	Level() slog.Level
	Message() string
	Fields() map[string]any
}

// Child names an incarnation of a child.
type Child struct {
	Supervisor  string // path of the supervisor
	ID          string
	Incarnation uint64 // counted by the supervisor, from 1
}

func (c Child) fields(more ...any) map[string]any {
	fields := map[string]any{"supervisor": c.Supervisor, "child": c.ID, "incarnation": c.Incarnation}
	for i := 0; i+1 < len(more); i += 2 {
		fields[fmt.Sprint(more[i])] = more[i+1]
	}
	return fields
}

// Started: a child came up.
type Started struct{ Child Child }

// Exited: a child ended. It may have ended before it came up.
type Exited struct {
	Child  Child
	Reason error
}

// Restarting: a child failed and is started again, after waiting.
type Restarting struct {
	Child   Child
	Reason  error
	Row     int // the how-manieth restart in a row
	Waiting time.Duration
}

// Abandoned: a child was given its time to start or to stop and let it pass. Its goroutine may still run; its context has ended.
type Abandoned struct {
	Child Child
	Doing string // starting or stopping
}

// Escalated: a supervisor gave up, since its children failed too often. What happens now is its own supervisor's business.
type Escalated struct {
	Supervisor string
	Reason     *IntensityError
}

func (Started) Name() string    { return "child.started" }
func (Exited) Name() string     { return "child.exited" }
func (Restarting) Name() string { return "child.restarting" }
func (Abandoned) Name() string  { return "child.abandoned" }
func (Escalated) Name() string  { return "supervisor.escalated" }

func (Started) Level() slog.Level    { return slog.LevelDebug }
func (Restarting) Level() slog.Level { return slog.LevelWarn }
func (Abandoned) Level() slog.Level  { return slog.LevelError }
func (Escalated) Level() slog.Level  { return slog.LevelError }

// Level is a warning for anything but an orderly end.
func (e Exited) Level() slog.Level {
	if IsNormal(e.Reason) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (e Started) Message() string { return fmt.Sprintf("%s started", e.Child.ID) }
func (e Exited) Message() string  { return fmt.Sprintf("%s ended: %v", e.Child.ID, e.Reason) }
func (e Restarting) Message() string {
	return fmt.Sprintf("%s is restarted in %v after: %v", e.Child.ID, e.Waiting, e.Reason)
}
func (e Abandoned) Message() string {
	return fmt.Sprintf("%s was abandoned while %s", e.Child.ID, e.Doing)
}
func (e Escalated) Message() string { return fmt.Sprintf("%s gave up: %v", e.Supervisor, e.Reason) }

func (e Started) Fields() map[string]any { return e.Child.fields() }
func (e Exited) Fields() map[string]any  { return e.Child.fields("reason", fmt.Sprint(e.Reason)) }
func (e Restarting) Fields() map[string]any {
	return e.Child.fields("reason", fmt.Sprint(e.Reason), "row", e.Row, "waitMs", e.Waiting.Milliseconds())
}
func (e Abandoned) Fields() map[string]any { return e.Child.fields("doing", e.Doing) }
func (e Escalated) Fields() map[string]any {
	return map[string]any{"supervisor": e.Supervisor, "child": e.Reason.Child, "reason": fmt.Sprint(e.Reason.Reason)}
}
