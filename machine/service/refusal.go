package service

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// refusal is an answer that is not a success. A 4xx is definite; a 5xx leaves open whether something was done.
type refusal struct {
	Status int    `json:"-"`
	Text   string `json:"error"`
	Code   string `json:"code,omitempty"`
	Output string `json:"output,omitempty"` // of an exec that ran out of time
	cause  error  // for the log
}

func (r *refusal) Error() string { return r.Text }
func (r *refusal) Unwrap() error { return r.cause }

// refuse makes a definite refusal.
func refuse(code, format string, args ...any) *refusal {
	return &refusal{Status: http.StatusConflict, Code: code, Text: fmt.Sprintf(format, args...)}
}

// uncertain makes an answer that says: it may or may not have happened.
func uncertain(code string, cause error, format string, args ...any) *refusal {
	return &refusal{Status: http.StatusServiceUnavailable, Code: code, Text: fmt.Sprintf(format, args...), cause: cause}
}

func unknownMachine(name string) *refusal {
	return refuse(machine.CodeUnknownMachine, "unknown VM %q", name)
}

func leaving() *refusal {
	return refuse(machine.CodeLeaving, "machine-service is about to end and begins nothing; start it again, then ask again")
}

func otherInstance() *refusal {
	return refuse(machine.CodeOtherInstance, "machine-service was started anew since it was asked who it is, and nothing was begun; ask again")
}

// asRefusal turns any error of an operation into an answer.
func asRefusal(err error) *refusal {
	var ours *refusal
	if errors.As(err, &ours) {
		return ours
	}
	var drivers *driver.Refusal
	if errors.As(err, &drivers) {
		r := refuse(drivers.Code, "%s", drivers.Message)
		r.cause = err
		return r
	}
	return &refusal{Status: http.StatusInternalServerError, Code: machine.CodeInternal, Text: err.Error(), cause: err}
}
