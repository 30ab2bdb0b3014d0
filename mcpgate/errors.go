package mcpgate

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// errBroken stands for a panic in the work of a call.
var errBroken = errors.New("the relay failed inside while it worked on this call")

// What a text says about the effect of a call and about the next move.
const (
	nothingDone = "Nothing was done."
	changesNone = "This tool changes nothing, so the call may be sent again."
	mayHaveRun  = "It may have had an effect. Look at relay_status and at the guest before you go on, and do not send the same call again."
	stillGoing  = "What it had begun may have run or may still be running. Look at relay_status and at the guest before you go on, and do not " +
		"send the same call again."
)

// errorText is what a model reads about an error of a call: what happened, whether it may have run, what to do next and whether to
// try again. cause says why the call's context ended, if it did. A failure on a guest that is still held ends with its status.
func errorText(err, cause error, t tool) string {
	var invalid *inputError
	if errors.As(err, &invalid) {
		return invalid.Error()
	}
	message := readable(err, cause) + "\n" + advice(err, t)
	var operation *guest.OperationError
	if errors.As(err, &operation) && operation.Status != nil {
		if status, broken := indented(operation.Status); broken == nil {
			message += "\n" + status
		}
	}
	return message
}

// neverBegan is the text of a call that was cancelled while it waited for earlier calls on its guest.
func neverBegan(cause error) string {
	return "the call was cancelled while it waited behind earlier calls on its guest (" + clean(cause.Error()) + ")\n" + nothingDone +
		" It may be sent again."
}

// advice tells the effect and the next move by the kind of error.
func advice(err error, t tool) string {
	var (
		refused *guest.RefusedError
		unknown *guest.UnknownGuestError
		held    *guest.HeldElsewhereError
		service *machine.Error
	)
	switch {
	case errors.As(err, &refused):
		return nothingDone
	case errors.As(err, &unknown):
		return nothingDone + " Name a guest that is held, or acquire a new one with relay_acquire."
	case errors.As(err, &held):
		return nothingDone + " Sending the call again does not help while that process owns the guest."
	case errors.As(err, &service):
		return serviceAdvice(service, t)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The machine-service was not reached, so nothing was begun there. The call may be sent again when it answers; relay_probe tells."
	case t.hints.ReadOnlyHint:
		return changesNone
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return stillGoing
	default:
		return mayHaveRun
	}
}

// serviceAdvice is advice on an answer of the machine-service.
func serviceAdvice(e *machine.Error, t tool) string {
	switch e.Code {
	case machine.CodeCapacity:
		return "No machine was allocated. End a guest that you no longer need, or send the call again later."
	case machine.CodeIsolation, machine.CodeOtherUser:
		return "No machine was allocated. Sending the call again does not help until this is changed on the host; tell the user."
	case machine.CodeUnknownImage, machine.CodeImageUnavailable:
		return "No machine was allocated. Choose an image that relay_probe lists as available."
	case machine.CodeNetworkUnavailable:
		return "No machine was allocated. Sending the call again does not help until the host offers that network; tell the user."
	case machine.CodeUnknownMachine, machine.CodeMachineGone:
		return "The machine is not there any more, and what ran in it is lost with it. Look at relay_status; for further work acquire a new guest."
	case machine.CodeTeardownIncomplete:
		return "The machine may still exist. Send the call again; if it goes on failing, tell the user."
	}
	switch {
	case t.hints.ReadOnlyHint:
		return changesNone
	case e.Code == machine.CodeExecTimeout, e.Code == machine.CodeExecTransport, e.Code == machine.CodePreempted, e.Code == machine.CodeReleasing:
		return stillGoing
	case e.Status >= 400 && e.Status < 500:
		return "The machine-service refused this, so that step was not begun. Correct what it names before you send the call again."
	default:
		return mayHaveRun
	}
}

// readable is an error's own text, fit to be shown: house errors say "cannot X: cause".
func readable(err, cause error) string {
	message := clean(err.Error())
	if cause != nil && errors.Is(err, context.Canceled) {
		message = strings.ReplaceAll(message, "context canceled", clean(cause.Error()))
	}
	message = strings.ReplaceAll(message, "context canceled", "the call was cancelled")
	message = strings.ReplaceAll(message, "context deadline exceeded", "the time for it ran out")
	if message == "" {
		return "the call failed"
	}
	return message
}

// maxErrorRunes bounds what is shown of one error.
const maxErrorRunes = 2000

var credentials = regexp.MustCompile(`://[^/\s@]+@`)

// clean takes from a text what no model should see: control characters, stack traces, credentials in addresses, endless length.
func clean(message string) string {
	message, _, _ = strings.Cut(message, "\ngoroutine ")
	message = credentials.ReplaceAllString(message, "://***@")
	message = strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(message, "�"))
	if runes := []rune(message); len(runes) > maxErrorRunes {
		message = string(runes[:maxErrorRunes]) + "..."
	}
	return strings.TrimSpace(message)
}
