package guest

import (
	"fmt"
	"strings"
)

// RefusedError is a call that was refused before it had any effect: the message says what is wrong and what to do.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// Refuse makes a RefusedError.
func Refuse(format string, args ...any) error {
	return &RefusedError{Message: fmt.Sprintf(format, args...)}
}

// UnknownGuestError names the guests that are held.
type UnknownGuestError struct {
	Name string
	Held []string
}

func (e *UnknownGuestError) Error() string {
	if len(e.Held) == 0 {
		return fmt.Sprintf("no guest named %q is held; this session holds none", e.Name)
	}
	return fmt.Sprintf("no guest named %q is held; held now: %s", e.Name, strings.Join(e.Held, ", "))
}

// HeldElsewhereError means that another process holds the guest's owner lock.
type HeldElsewhereError struct{ Name string }

func (e *HeldElsewhereError) Error() string {
	return fmt.Sprintf("guest %q is owned by another relay process with this session identity; end that one or use it there", e.Name)
}

// OperationError is a failed operation on a guest that is still held, with its status at that moment, so that the model
// sees ownership in the same message.
type OperationError struct {
	Guest  string
	Cause  error
	Status any
}

func (e *OperationError) Error() string { return e.Cause.Error() }
func (e *OperationError) Unwrap() error { return e.Cause }
