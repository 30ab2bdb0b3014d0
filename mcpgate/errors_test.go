package mcpgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

func TestErrorTextsSayWhatHappenedAndWhatToDo(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: syscall.ECONNREFUSED}
	for _, row := range []struct {
		name, tool string
		err, cause error
		want       []string
	}{
		{"refused", "relay_stage", guest.Refuse("the evidence of %q is sealed", "a-1"), nil,
			[]string{`the evidence of "a-1" is sealed`, "Nothing was done."}},
		{"unknown guest", "relay_script", &guest.UnknownGuestError{Name: "x-1", Held: []string{"a-1", "b-2"}}, nil,
			[]string{`no guest named "x-1" is held; held now: a-1, b-2`, "Nothing was done.", "relay_acquire"}},
		{"held elsewhere", "relay_script", &guest.HeldElsewhereError{Name: "a-1"}, nil,
			[]string{`guest "a-1" is owned by another relay process`, "Nothing was done. Sending the call again does not help"}},
		{"operation on a held guest", "relay_script",
			&guest.OperationError{Guest: "a-1", Cause: errors.New("cannot push the script"), Status: map[string]any{"vm": "m1"}}, nil,
			[]string{"cannot push the script\n", "It may have had an effect.", "\n{\n  \"vm\": \"m1\"\n}"}},
		{"refused operation with status", "relay_script",
			&guest.OperationError{Guest: "a-1", Cause: guest.Refuse("not staged"), Status: map[string]any{"staged": false}}, nil,
			[]string{"not staged\nNothing was done.\n{\n  \"staged\": false\n}"}},
		{"no capacity", "relay_acquire", fmt.Errorf("cannot acquire: %w", &machine.Error{Op: "acquire", Status: 409, Code: machine.CodeCapacity, Message: "limit reached"}), nil,
			[]string{"limit reached", "No machine was allocated. End a guest that you no longer need"}},
		{"no isolation", "relay_acquire", &machine.Error{Op: "acquire", Status: 409, Code: machine.CodeIsolation, Message: "user namespaces are off; allow them with sysctl"}, nil,
			[]string{"allow them with sysctl", "does not help until this is changed on the host"}},
		{"unknown image", "relay_acquire", &machine.Error{Op: "acquire", Status: 400, Code: machine.CodeUnknownImage, Message: "no image x"}, nil,
			[]string{"no image x", "Choose an image"}},
		{"exec ran out of time", "relay_script", &machine.Error{Op: "exec", Status: 409, Code: machine.CodeExecTimeout, Message: "too long"}, nil,
			[]string{"may have run or may still be running", "do not send the same call again"}},
		{"machine gone", "relay_script", &machine.Error{Op: "exec", Status: 404, Code: machine.CodeMachineGone, Message: "gone"}, nil,
			[]string{"The machine is not there any more", "acquire a new guest"}},
		{"teardown incomplete", "relay_release", &machine.Error{Op: "release", Status: 500, Code: machine.CodeTeardownIncomplete, Message: "mount busy"}, nil,
			[]string{"may still exist. Send the call again"}},
		{"another 4xx", "relay_stage", &machine.Error{Op: "push", Status: 409, Code: machine.CodePathRefused, Message: "bad path"}, nil,
			[]string{"bad path", "Nothing was done. The same call may be sent again once the cause is removed."}},
		{"5xx", "relay_script", &machine.Error{Op: "exec", Status: 500, Message: "broken"}, nil, []string{"broken", "It may have had an effect."}},
		{"5xx at a reading tool", "relay_probe", &machine.Error{Op: "images", Status: 500, Message: "broken"}, nil, []string{"may be sent again"}},
		{"closed port (T8)", "relay_search", fmt.Errorf("cannot reach the machine-service at http://127.0.0.1:1: %w", dial), nil,
			[]string{"http://127.0.0.1:1", "Nothing was done. The machine-service was not reached", "relay_probe"}},
		{"cancelled", "relay_script", fmt.Errorf("cannot wait: %w", context.Canceled), errClientCancelled,
			[]string{"cannot wait: the client cancelled the call", "may have run or may still be running"}},
		{"deadline", "relay_script", fmt.Errorf("cannot wait: %w", context.DeadlineExceeded), nil,
			[]string{"cannot wait: the time for it ran out", "do not send the same call again"}},
		{"unknown, repeatable", "relay_finish", errors.New("cannot seal: disk full"), nil, []string{"cannot seal: disk full", "The same call may be sent again"}},
		{"unknown, acting", "relay_script", errors.New("cannot tell"), nil, []string{"cannot tell", "It may have had an effect."}},
		{"the run was not recorded", "relay_script",
			&guest.OperationError{Guest: "a-1", Cause: guest.NoEffect(errors.New("cannot record the run, so nothing was sent: no space left on device"))}, nil,
			[]string{"no space left on device\nNothing was done. The same call may be sent again once the cause is removed."}},
		{"the acquisition was not sent", "relay_acquire", fmt.Errorf("%w: cannot start machine-service", machine.ErrNotSent), nil,
			[]string{"cannot start machine-service\nNothing was done. The machine-service was not reached"}},
		{"missing output", "relay_extract", &guest.OperationError{Guest: "a-1", Cause: guest.Repeatable(errors.New("cannot extract: no such file"))}, nil,
			[]string{"no such file\nPart of it may have been done, which does no harm. The same call may be sent again"}},
		{"init killed during stage", "relay_stage", &guest.OperationError{Guest: "a-1", Cause: guest.Repeatable(
			&machine.Error{Op: "push", Status: 409, Code: machine.CodeMachineGone, Message: "scp failed: the machine ended"})}, nil,
			[]string{"The machine is not there any more", "acquire a new guest"}},
		{"full disk during a pull", "relay_finish", &guest.OperationError{Guest: "a-1", Cause: guest.Repeatable(
			&machine.Error{Op: "pull", Status: 409, Code: machine.CodeTransferFailed, Message: "the disk of this host is full"})}, nil,
			[]string{"machine-service failed at pull: the disk of this host is full", "The same call may be sent again once the cause is removed"}},
		{"unknown, reading", "relay_image", errors.New("cannot read: x"), nil, []string{"This tool changes nothing"}},
		{"no text", "relay_finish", errors.New(""), nil, []string{"the call failed\n"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tool, ok := findTool(row.tool)
			if !ok {
				t.Fatal("no tool", row.tool)
			}
			got := errorText(row.err, row.cause, tool)
			for _, part := range row.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q does not say %q", got, part)
				}
			}
		})
	}
}

func TestErrorTextsHideWhatIsNobodysBusiness(t *testing.T) {
	got := errorText(errors.New("cannot reach http://user:secret@host/x: \x1b[31mred\x00 \xff\ngoroutine 12 [running]:\nmain.main()"), nil, table[0])
	for _, bad := range []string{"secret", "\x1b", "\x00", "\xff", "goroutine", "main.main"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q holds %q", got, bad)
		}
	}
	if !strings.Contains(got, "http://***@host/x") {
		t.Errorf("%q does not name the address", got)
	}
	if long := errorText(errors.New(strings.Repeat("x", 100_000)), nil, table[0]); len(long) > 2*maxErrorRunes {
		t.Errorf("an error of 100,000 characters gives a text of %d", len(long))
	}
}

// Whatever fails in whatever tool, its text says one thing about the effect, and nothing against it about sending the call again.
func TestErrorTextsNeverContradictThemselves(t *testing.T) {
	answer := func(status int, code string) error {
		return &machine.Error{Op: "push", Status: status, Code: code, Message: "x"}
	}
	kinds := map[string]error{
		"refused": guest.Refuse("x"), "unknown guest": &guest.UnknownGuestError{Name: "x"}, "held": &guest.HeldElsewhereError{Name: "x"},
		"not sent": fmt.Errorf("%w: x", machine.ErrNotSent), "plain": errors.New("x"), "broken": errBroken,
		"cancelled": context.Canceled, "deadline": context.DeadlineExceeded, "service failed": answer(500, ""), "service lost": answer(503, ""),
	}
	for _, code := range []string{machine.CodeUnknownMachine, machine.CodeInvalidRequest, machine.CodeUnknownImage, machine.CodeCapacity, machine.CodeNotRunning,
		machine.CodeExecTimeout, machine.CodeExecTransport, machine.CodeTransferFailed, machine.CodePreempted, machine.CodePathRefused, machine.CodeMachineGone,
		machine.CodeReleasing, machine.CodeTeardownIncomplete, machine.CodeIsolation, machine.CodeLeaving, machine.CodeInternal, machine.CodeTransferTimeout} {
		kinds["409 "+code], kinds["503 "+code] = answer(409, code), answer(503, code)
	}
	marks := map[string]func(error) error{
		"unmarked": func(err error) error { return err }, "no effect": guest.NoEffect, "repeatable": guest.Repeatable,
		"held guest": func(err error) error { return &guest.OperationError{Guest: "a-1", Cause: guest.NoEffect(err)} },
	}
	none := []string{"Nothing was done", "No machine was allocated"}
	open := []string{"may have had an effect", "may have run", "Part of it may have been done", "may still exist"}
	again := []string{"may be sent again", "Send the call again", "send the call again"}
	for _, tool := range table {
		for kind, failure := range kinds {
			for mark, wrap := range marks {
				err := wrap(failure)
				got := errorText(err, nil, tool)
				said := func(list []string) bool {
					return slices.ContainsFunc(list, func(part string) bool { return strings.Contains(got, part) })
				}
				if said(none) && said(open) || said(again) && strings.Contains(got, "do not send") {
					t.Errorf("%s, %s, %s: %q says both", tool.name, kind, mark, got)
				}
				_, advised, _ := strings.Cut(got, "\n")
				if advised == "" {
					t.Errorf("%s, %s, %s: %q says nothing about the effect", tool.name, kind, mark, got)
				}
				if effect := guest.EffectOf(err); effect == guest.EffectNone && said(open[:2]) || effect != guest.EffectNone && said(none[:1]) {
					t.Errorf("%s, %s, %s: %q, but the effect is %d", tool.name, kind, mark, got, effect)
				}
				if strings.Contains(got, "do not send") && (tool.repeatable || tool.hints.ReadOnlyHint) {
					t.Errorf("%s, %s, %s: %q, but the call may be repeated", tool.name, kind, mark, got)
				}
			}
		}
	}
}
