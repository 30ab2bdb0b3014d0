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

// What a text says about the effect of a call and about the next move. A text has one of these, or the words of a code.
const (
	nothingDone = "Nothing was done."
	notBegun    = nothingDone + " The same call may be sent again once the cause is removed."
	notReached  = nothingDone + " The machine-service was not reached; the same call may be sent again when it answers, and relay_probe tells."
	changesNone = "This tool changes nothing, so the call may be sent again."
	mayBeSent   = "Part of it may have been done, which does no harm. The same call may be sent again once the cause is removed."
	mayHaveRun  = "It may have had an effect. Look at relay_status and at the guest before you go on, and " + notAgain
	stillGoing  = "What it had begun may have run or may still be running. Look at relay_status and at the guest before you go on, and " + notAgain
	notAgain    = "do not send the same call again."
	lostMachine = "The machine is not there any more, and what ran in it is lost with it. Look at relay_status, end the guest with relay_release, and " +
		"acquire a new guest for further work."
	mayStillLive = "The machine may still exist. Send the call again; if it goes on failing, tell the user."
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

// advice tells the effect and the next move. What is known of the effect is in the error's type; this only words it.
func advice(err error, t tool) string {
	var (
		unknown *guest.UnknownGuestError
		held    *guest.HeldElsewhereError
		refused *guest.RefusedError
		service *machine.Error
	)
	effect := guest.EffectOf(err)
	switch {
	case effect == guest.EffectNone && errors.As(err, &unknown):
		return nothingDone + " Name a guest that is held, or acquire a new one with relay_acquire."
	case effect == guest.EffectNone && errors.As(err, &held):
		return nothingDone + " Sending the call again does not help while that process owns the guest."
	case errors.As(err, &service) && codeAdvice[service.Code] != "":
		return codeAdvice[service.Code]
	case effect == guest.EffectNone && errors.As(err, &refused):
		return nothingDone
	case effect == guest.EffectNone && (errors.Is(err, machine.ErrNotSent) || errors.Is(err, syscall.ECONNREFUSED)):
		return notReached
	case effect == guest.EffectNone:
		return notBegun
	case t.hints.ReadOnlyHint:
		return changesNone
	case effect == guest.EffectRepeatable, t.repeatable:
		return mayBeSent
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), service != nil && mayStillRun(service):
		return stillGoing
	}
	return mayHaveRun
}

// codeAdvice is the next move for answers of the machine-service that mean the same whatever the call was.
var codeAdvice = map[string]string{
	machine.CodeCapacity:           "No machine was allocated. End a guest that you no longer need, or send the call again later.",
	machine.CodeIsolation:          "No machine was allocated. Sending the call again does not help until this is changed on the host; tell the user.",
	machine.CodeOtherUser:          "No machine was allocated. Sending the call again does not help until this is changed on the host; tell the user.",
	machine.CodeUnknownImage:       "No machine was allocated. Choose an image that relay_probe lists as available.",
	machine.CodeImageUnavailable:   "No machine was allocated. Choose an image that relay_probe lists as available.",
	machine.CodeNetworkUnavailable: "No machine was allocated. Sending the call again does not help until the host offers that network; tell the user.",
	machine.CodeUnknownMachine:     lostMachine,
	machine.CodeMachineGone:        lostMachine,
	machine.CodeTeardownIncomplete: mayStillLive,
}

// mayStillRun says that an answer comes from a command whose end is not known.
func mayStillRun(e *machine.Error) bool {
	switch e.Code {
	case machine.CodeExecTimeout, machine.CodeExecTransport, machine.CodePreempted:
		return true
	}
	return false
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
