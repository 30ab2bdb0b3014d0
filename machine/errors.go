package machine

import (
	"context"
	"encoding/json"
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
	CodeTransferTimeout    = "transfer_timeout"
	CodeOriginRefused      = "origin_refused" // ours: a Host or Origin header that a program on this machine would not send
	CodeLeaving            = "leaving"        // ours: the service is about to end; nothing was begun
	CodeOtherInstance      = "other_instance" // ours: the request was meant for another process of the service; nothing was begun
)

// Facts callers act on, to be tested with errors.Is.
var (
	ErrUnknownMachine = errors.New("unknown machine")
	ErrCapacity       = errors.New("no capacity")
	// ErrNotSent: not one byte of the request reached the service, so it did nothing.
	ErrNotSent = errors.New("the request was not sent")
	// ErrMalformed: the service answered success in words that make no sense; what it did is unknown.
	ErrMalformed = errors.New("malformed answer")
	// ErrNotMachineService: something answers at the address, and it is not machine-service.
	ErrNotMachineService = errors.New("not machine-service")
)

// Error is an answer of the service that is not a success. Status is its HTTP status, Code its own or the one recognised in
// its text (may be empty), Message its text cut to 4 KiB. Output is what an exec that ran out of time had printed.
type Error struct {
	Op      string
	Status  int
	Code    string
	Message string
	Output  string

	worded bool // the answer was a JSON object with an error text, as only a machine-service gives it
}

func (e *Error) Error() string {
	verb := "refused"
	if e.Status >= 500 || e.begun() {
		verb = "failed at"
	}
	return fmt.Sprintf("machine-service %s %s: %s (HTTP %d)", verb, e.Op, e.Message, e.Status)
}

// begun says that the service had begun the operation before it failed.
func (e *Error) begun() bool {
	switch e.Code {
	case CodeExecTimeout, CodePreempted, CodeTransferFailed, CodeMachineGone, CodeBootFailed, CodeTeardownIncomplete:
		return true
	}
	return false
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
// contract says otherwise (an exec that timed out, or whose machine ended under it, is a 409 too; see Code).
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500
}

// Indeterminate says that the operation may have been carried out: it was sent, and neither a success nor a definite
// refusal came back. After an indeterminate acquire a lease may exist; find it by its purpose, never ask again blindly.
func Indeterminate(err error) bool {
	return err != nil && !Refused(err) && !errors.Is(err, ErrNotSent)
}

// Transient says that trying the same transfer again may help: the connection failed, the service answered 5xx, or a
// service without codes says that its copy tool failed. The caller's own cancellation is never transient.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Status >= 500 || e.Code == "" && strings.Contains(e.Message, "scp failed")
	}
	return true
}

// codeFromText recognises a kind in the text of a service that sends no codes.
func codeFromText(status int, text string) string {
	switch {
	case strings.Contains(text, "limit reached"):
		return CodeCapacity
	case strings.Contains(text, "unknown VM"), strings.Contains(text, "unknown machine"):
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

// parseRefusal makes an Error of an answer that is not a success. The service's own code wins over what its text says.
func parseRefusal(op string, status int, body []byte) *Error {
	e := &Error{Op: op, Status: status}
	var answer struct {
		Error  string `json:"error"`
		Code   string `json:"code"`
		Output string `json:"output"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		e.Message, e.Code, e.Output, e.worded = answer.Error, answer.Code, answer.Output, true
	} else {
		if len(body) > maxErrorBody {
			body = body[:maxErrorBody]
		}
		e.Message = strings.ToValidUTF8(strings.TrimSpace(string(body)), "\uFFFD")
	}
	if status >= 300 && status < 400 {
		e.Message = "it answered with a redirect, which is not followed"
	}
	if e.Code == "" {
		e.Code = codeFromText(status, e.Message)
	}
	return e
}
