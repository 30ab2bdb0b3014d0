package image

import "fmt"

// Delivery statuses of a picture, as tool results state them.
const (
	Attached                = "attached"
	NotRequested            = "not-requested"
	Pending                 = "pending"
	Downloaded              = "downloaded"
	CaptureFailed           = "capture-failed"
	CaptureUnknown          = "capture-unknown"
	UnauthorizedReference   = "unauthorized-reference"
	UnsafePath              = "unsafe-path"
	Missing                 = "image-missing"
	StaleReference          = "stale-reference"
	IntegrityFailed         = "integrity-failed"
	TransferFailed          = "transfer-failed"
	PresentationUnavailable = "presentation-unavailable"
)

// Error is a picture that cannot be had. Status is one of the constants above, and is what the caller acts on; none of them
// gets better by trying the same again, except TransferFailed.
type Error struct {
	Status string
	Why    string
	Err    error // the cause, or nil
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Status, e.Why, e.Err)
	}
	return e.Status + ": " + e.Why
}

func (e *Error) Unwrap() error { return e.Err }

func unavailable(format string, args ...any) error {
	return &Error{Status: PresentationUnavailable, Why: fmt.Sprintf(format, args...)}
}

func integrity(format string, args ...any) error {
	return &Error{Status: IntegrityFailed, Why: fmt.Sprintf(format, args...)}
}
