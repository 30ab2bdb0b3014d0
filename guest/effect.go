package guest

import (
	"errors"
	"net"
	"syscall"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Effect is what is known about what a failed call did.
type Effect int

// Effects. The zero value promises nothing.
const (
	EffectUnknown    Effect = iota // it may have run; the same call is not to be sent again blindly
	EffectNone                     // it was not begun: nothing was sent, or the answer proves that nothing was done
	EffectRepeatable               // it may have been done in part, and the same call takes that up or does it anew without harm
)

// EffectError is a failure whose effect is known where it was made. Its text is its cause's.
type EffectError struct {
	Effect Effect
	Cause  error
}

func (e *EffectError) Error() string { return e.Cause.Error() }
func (e *EffectError) Unwrap() error { return e.Cause }

// NoEffect marks a failure that came before anything was begun. nil stays nil.
func NoEffect(err error) error { return withEffect(EffectNone, err) }

// Repeatable marks a failure after which the same call may be sent again. nil stays nil.
func Repeatable(err error) error { return withEffect(EffectRepeatable, err) }

func withEffect(effect Effect, err error) error {
	if err == nil {
		return nil
	}
	return &EffectError{Effect: effect, Cause: err}
}

// EffectOf tells what is known of a failed call. The outermost mark wins, since whoever set it saw the whole call; without one
// the refusals of this package and those of machine-service speak for themselves.
func EffectOf(err error) Effect {
	var marked *EffectError
	if errors.As(err, &marked) {
		return marked.Effect
	}
	var refused *RefusedError
	var unknown *UnknownGuestError
	var held *HeldElsewhereError
	if errors.As(err, &refused) || errors.As(err, &unknown) || errors.As(err, &held) || neverSent(err) || notBegun(err) {
		return EffectNone
	}
	return EffectUnknown
}

// effectOfOperation is what a failure inside an operation on a held guest leaves, unless the failure says it itself.
func effectOfOperation(operation string) Effect {
	switch operation {
	case "reconcile", "script", "diagnostic": // a run that was sent is answered with its outcome, never with an error
		return EffectNone
	case "acquire":
		return EffectUnknown
	}
	return EffectRepeatable
}

// neverSent says that the request cannot have reached the service: it was not sent, or no connection was made.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, machine.ErrNotSent) || errors.As(err, &op) && op.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED)
}

// notBegun says that the service's answer itself proves that it did nothing.
func notBegun(err error) bool {
	var answer *machine.Error
	if !errors.As(err, &answer) || !machine.Refused(err) {
		return false
	}
	switch answer.Code {
	case machine.CodeNotRunning, machine.CodeUnknownMachine, machine.CodeInvalidRequest, machine.CodeReleasing, machine.CodeLeaving,
		machine.CodeUnknownImage, machine.CodeDuplicatePurpose, machine.CodeCapacity, machine.CodeImageUnavailable,
		machine.CodeNetworkUnavailable, machine.CodeConsoleUnavailable, machine.CodeIsolation, machine.CodeOtherUser,
		machine.CodeOriginRefused, machine.CodePathRefused:
		return true
	}
	return false
}
