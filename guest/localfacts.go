package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Fact is one observation of the host. A failed one has no value and says why; unknown is never idle.
type Fact struct {
	Value      any    `json:"value"` // null when it could not be observed
	Source     string `json:"source"`
	Diagnostic string `json:"diagnostic,omitempty"`
}

// observation is a read-only command and how its output is read.
type observation struct {
	name string
	argv []string
	read func(output string) (any, error)
}

// observations of this host. None grants, asks for or shows anything.
func observations(goos string) []observation {
	list := []observation{
		{"permissions", []string{"cua-driver", "permissions", "status", "--json"}, readAnyJSON},
		{"recording", []string{"cua-driver", "call", "get_recording_state", "--json", "{}"}, readAnyJSON},
		{"foreground", []string{"cua-driver", "call", "list_apps"}, readText},
	}
	if goos == "darwin" {
		return append(list,
			observation{"consoleUser", []string{"stat", "-f", "%Su", "/dev/console"}, readConsoleOwner},
			observation{"idleSeconds", []string{"ioreg", "-r", "-c", "IOHIDSystem"}, readHIDIdle})
	}
	return append(list,
		observation{"consoleUser", []string{"loginctl", "show-session", "self", "-p", "Active"}, readSessionActive},
		observation{"idleSeconds", []string{"xprintidle"}, readIdleMillis})
}

// localFacts makes the observations side by side, each within its limit.
func localFacts(ctx context.Context) map[string]Fact {
	ctx, cancel := context.WithTimeout(ctx, factTimeout)
	defer cancel()
	list := observations(runtime.GOOS)
	facts := make([]Fact, len(list))
	var wait sync.WaitGroup
	for i, o := range list {
		wait.Go(func() { facts[i] = observe(ctx, o) })
	}
	wait.Wait()
	byName := make(map[string]Fact, len(list))
	for i, o := range list {
		byName[o.name] = facts[i]
	}
	return byName
}

func observe(ctx context.Context, o observation) Fact {
	fact := Fact{Source: strings.Join(o.argv, " ")}
	command := exec.CommandContext(ctx, o.argv[0], o.argv[1:]...)
	command.WaitDelay = factTimeout
	var out bytes.Buffer
	command.Stdout = &out
	err := command.Run()
	if err == nil {
		fact.Value, err = o.read(out.String())
	}
	if err != nil {
		fact.Value, fact.Diagnostic = nil, err.Error()
	}
	return fact
}

func readText(output string) (any, error) { return clip(strings.TrimSpace(output), 8<<10), nil }

func readAnyJSON(output string) (any, error) {
	if !json.Valid([]byte(output)) {
		return nil, errors.New("the answer is not JSON")
	}
	return json.RawMessage(output), nil
}

func readConsoleOwner(output string) (any, error) {
	owner := strings.TrimSpace(output)
	return owner != "" && owner != "root" && owner != "loginwindow", nil
}

func readSessionActive(output string) (any, error) {
	value, ok := strings.CutPrefix(strings.TrimSpace(output), "Active=")
	if !ok {
		return nil, fmt.Errorf("unexpected answer %q", clip(output, 100))
	}
	return value == "yes", nil
}

// readHIDIdle: HIDIdleTime is in nanoseconds; seconds = HIDIdleTime / 1e9.
func readHIDIdle(output string) (any, error) {
	_, rest, ok := strings.Cut(output, `"HIDIdleTime" = `)
	if !ok {
		return nil, errors.New("the answer has no HIDIdleTime")
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, err := strconv.ParseInt(digits, 10, 64)
	return float64(n) / 1e9, err
}

// readIdleMillis: xprintidle answers milliseconds; seconds = answer / 1000.
func readIdleMillis(output string) (any, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(output), 10, 64)
	return float64(n) / 1000, err
}
