package actors

import (
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
	"github.com/seed-1e4c9d81/mcp-relay/supervisor"
)

// eventHeartbeatUncertain is the evidence's word for a renewal that got lost and a machine that could not be looked at after it.
const eventHeartbeatUncertain = "heartbeat-uncertain"

// Event is a fact about the session or its guests, for logs and monitors. Its name and keys are stable.
type Event interface {
	Name() string
	Level() zerolog.Level
	MarshalZerologObject(e *zerolog.Event)
}

// Events of a session.
type (
	// SessionStarted with so many guests found on disk.
	SessionStarted struct{ Found int }
	// SessionEnding because of a trigger; no call is taken any more.
	SessionEnding struct{ Trigger string }
	// SessionEnded with an exit code; Left are the guests that were not settled.
	SessionEnded struct {
		Code int
		Left []string
	}
)

// Events of a guest.
type (
	// GuestOpened says that this process owns the guest from now on.
	GuestOpened struct{ Guest string }
	// GuestGone says that it is no more.
	GuestGone struct{ Guest string }
	// GuestFailed says that its actors gave up; the record and the machine are kept.
	GuestFailed struct {
		Guest string
		Err   error
	}
	// GuestNoted is a fact of the guest's evidence.
	GuestNoted struct{ Event guest.Event }
	// SettleFailed says that a guest could not be paused or released at the session's end.
	SettleFailed struct {
		Guest, Choice string
		Err           error
	}
	// BeatLost says that a renewal was not confirmed; it is tried again.
	BeatLost struct{ Guest, Reason string }
	// RecordFailed says that something could not be made durable.
	RecordFailed struct {
		Guest string
		Err   error
	}
)

// Events of a call.
type (
	// CallStarted says that the work of a call begins.
	CallStarted struct{ Guest, Tool, Call string }
	// CallEnded says that a call whose work had begun was answered.
	CallEnded struct {
		Guest, Tool, Call string
		Duration          time.Duration
		Err               error
	}
)

// ServiceSeen says that machine-service began or ceased to answer.
type ServiceSeen struct {
	Reachable bool
	Reason    string
}

// OperationBroken says that the work of a call panicked, or its goroutine ended.
type OperationBroken struct {
	Guest, Tool, Call string
	Err               error
	Stack             []byte
}

// EventsLost says that so many events were not told, because those who are told were too slow.
type EventsLost struct{ Count uint64 }

// Supervised is what a supervisor did or saw.
type Supervised struct{ Event supervisor.Event }

func (SessionStarted) Name() string  { return "session-started" }
func (SessionEnding) Name() string   { return "session-ending" }
func (SessionEnded) Name() string    { return "session-ended" }
func (GuestOpened) Name() string     { return "guest-opened" }
func (GuestGone) Name() string       { return "guest-gone" }
func (GuestFailed) Name() string     { return "guest-failed" }
func (GuestNoted) Name() string      { return "guest-noted" }
func (SettleFailed) Name() string    { return "settle-failed" }
func (BeatLost) Name() string        { return "beat-lost" }
func (RecordFailed) Name() string    { return "record-failed" }
func (CallStarted) Name() string     { return "call-started" }
func (CallEnded) Name() string       { return "call-ended" }
func (ServiceSeen) Name() string     { return "service-seen" }
func (EventsLost) Name() string      { return "events-lost" }
func (OperationBroken) Name() string { return "operation-broken" }
func (e Supervised) Name() string    { return e.Event.Name() }

func (SessionStarted) Level() zerolog.Level { return zerolog.InfoLevel }
func (SessionEnding) Level() zerolog.Level  { return zerolog.InfoLevel }
func (e SessionEnded) Level() zerolog.Level {
	if e.Code != 0 {
		return zerolog.ErrorLevel
	}
	return zerolog.InfoLevel
}
func (GuestOpened) Level() zerolog.Level     { return zerolog.InfoLevel }
func (GuestGone) Level() zerolog.Level       { return zerolog.InfoLevel }
func (GuestFailed) Level() zerolog.Level     { return zerolog.ErrorLevel }
func (GuestNoted) Level() zerolog.Level      { return zerolog.InfoLevel }
func (SettleFailed) Level() zerolog.Level    { return zerolog.ErrorLevel }
func (BeatLost) Level() zerolog.Level        { return zerolog.WarnLevel }
func (RecordFailed) Level() zerolog.Level    { return zerolog.ErrorLevel }
func (CallStarted) Level() zerolog.Level     { return zerolog.DebugLevel }
func (CallEnded) Level() zerolog.Level       { return zerolog.InfoLevel }
func (EventsLost) Level() zerolog.Level      { return zerolog.WarnLevel }
func (OperationBroken) Level() zerolog.Level { return zerolog.ErrorLevel }
func (e Supervised) Level() zerolog.Level    { return zerologLevel(e.Event.Level()) }
func (e ServiceSeen) Level() zerolog.Level {
	if !e.Reachable {
		return zerolog.WarnLevel
	}
	return zerolog.InfoLevel
}

func (e SessionStarted) MarshalZerologObject(l *zerolog.Event) { l.Int("found", e.Found) }
func (e SessionEnding) MarshalZerologObject(l *zerolog.Event)  { l.Str("trigger", e.Trigger) }
func (e SessionEnded) MarshalZerologObject(l *zerolog.Event) {
	l.Int("code", e.Code).Strs("left", e.Left)
}
func (e GuestOpened) MarshalZerologObject(l *zerolog.Event) { l.Str("guest", e.Guest) }
func (e GuestGone) MarshalZerologObject(l *zerolog.Event)   { l.Str("guest", e.Guest) }
func (e GuestFailed) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Guest).AnErr("reason", e.Err)
}
func (e GuestNoted) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Event.Guest).Str("kind", e.Event.Kind).Str("reason", e.Event.Because)
}
func (e SettleFailed) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Guest).Str("choice", e.Choice).AnErr("reason", e.Err)
}
func (e BeatLost) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Guest).Str("reason", e.Reason)
}
func (e RecordFailed) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Guest).AnErr("reason", e.Err)
}
func (e CallStarted) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Guest).Str("tool", e.Tool).Str("call", e.Call)
}
func (e CallEnded) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Guest).Str("tool", e.Tool).Str("call", e.Call).Int64("durMs", e.Duration.Milliseconds()).AnErr("reason", e.Err)
}
func (e ServiceSeen) MarshalZerologObject(l *zerolog.Event) {
	l.Bool("reachable", e.Reachable).Str("reason", e.Reason)
}
func (e EventsLost) MarshalZerologObject(l *zerolog.Event) { l.Uint64("count", e.Count) }
func (e OperationBroken) MarshalZerologObject(l *zerolog.Event) {
	l.Str("guest", e.Guest).Str("tool", e.Tool).Str("call", e.Call).AnErr("reason", e.Err).Bytes("stack", e.Stack)
}
func (e Supervised) MarshalZerologObject(l *zerolog.Event) { l.Fields(e.Event.Fields()) }

// logged writes events to the log, each under its name.
func logged(log zerolog.Logger) func(Event) {
	return func(e Event) { log.WithLevel(e.Level()).Str("event", e.Name()).EmbedObject(e).Send() }
}

// zerologLevel is a supervisor's level as the log has it.
func zerologLevel(l slog.Level) zerolog.Level {
	switch {
	case l >= slog.LevelError:
		return zerolog.ErrorLevel
	case l >= slog.LevelWarn:
		return zerolog.WarnLevel
	case l >= slog.LevelInfo:
		return zerolog.InfoLevel
	}
	return zerolog.DebugLevel
}
