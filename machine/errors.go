package machine

import (
	"errors"
	"fmt"
	"strings"
)

// Codes of machine-service errors that the relay acts on. A service that sends none is understood by its text.
const (
	CodeUnknownMachine     = "unknown_machine"
	CodeInvalidRequest     = "invalid_request"
	CodeUnknownImage       = "unknown_image"
	CodeDuplicatePurpose   = "duplicate_purpose"
	CodeCapacity           = "capacity"
	CodeImageUnavailable   = "image_unavailable"
	CodeNetworkUnavailable = "network_unavailable"
	CodeConsoleUnavailable = "console_unavailable"
	CodeBootFailed         = "boot_failed"
	CodeNotRunning         = "not_running"
	CodeExecTimeout        = "exec_timeout"
	CodeExecTransport      = "exec_transport"
	CodeTransferFailed     = "transfer_failed"
	CodePreempted          = "preempted"
	CodePathRefused        = "path_refused"
	CodeMachineGone        = "machine_gone"
	CodeReleasing          = "releasing"
	CodeTeardownIncomplete = "teardown_incomplete"
	CodeIsolation          = "isolation_unavailable" // ours: this host cannot make guests for this user; the text has cause and remedy
	CodeOtherUser          = "other_user"            // ours: the service serves the user it runs as
	CodeCatalogue          = "catalog_unavailable"
	CodeNotFound           = "not_found"
	CodeInternal           = "internal"
)

// Facts callers act on, to be tested with errors.Is.
var (
	ErrUnknownMachine = errors.New("unknown machine")
	ErrCapacity       = errors.New("no capacity")
)

// Error is an answer of the service that is not a success. Status is its HTTP status, Code its own or the one recognised in
// its text (may be empty), Message its text cut to 4 KiB. Output is what an exec that ran out of time had printed.
type Error struct {
	Op      string
	Status  int
	Code    string
	Message string
	Output  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("machine-service refused %s: %s (HTTP %d)", e.Op, e.Message, e.Status)
}

// Is makes errors.Is find the facts behind the code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnknownMachine:
		return e.Code == CodeUnknownMachine
	case ErrCapacity:
		return e.Code == CodeCapacity
	}
	return false
}

// Refused says that the service answered with a definite refusal (4xx): nothing was begun, unless the operation's own
// contract says otherwise (an exec that timed out is a 409 too; see Code).
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500
}

// Transient says that trying the same transfer again may help: the connection failed, or the service answered 5xx.
func Transient(err error) bool {
	if err == nil {
		return false
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Status >= 500
	}
	return true
}

// codeFromText recognises a kind in the text of a service that sends no codes.
func codeFromText(status int, text string) string {
	switch {
	case strings.Contains(text, "limit reached"):
		return CodeCapacity
	case strings.Contains(text, "unknown VM"):
		return CodeUnknownMachine
	case strings.Contains(text, "already leased"):
		return CodeDuplicatePurpose
	case strings.Contains(text, "not built yet"):
		return CodeImageUnavailable
	case strings.Contains(text, "cancelled by release"):
		return CodePreempted
	case status == 404:
		return CodeNotFound
	}
	return ""
}
