package mcpgate

import (
	"context"
	"errors"
	"fmt"
	"net"
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
			[]string{"bad path", "was not begun"}},
		{"5xx", "relay_script", &machine.Error{Op: "exec", Status: 500, Message: "broken"}, nil, []string{"broken", "It may have had an effect."}},
		{"5xx at a reading tool", "relay_probe", &machine.Error{Op: "images", Status: 500, Message: "broken"}, nil, []string{"may be sent again"}},
		{"closed port (T8)", "relay_search", fmt.Errorf("cannot reach the machine-service at http://127.0.0.1:1: %w", dial), nil,
			[]string{"http://127.0.0.1:1", "was not reached, so nothing was begun", "relay_probe"}},
		{"cancelled", "relay_script", fmt.Errorf("cannot wait: %w", context.Canceled), errClientCancelled,
			[]string{"cannot wait: the client cancelled the call", "may have run or may still be running"}},
		{"deadline", "relay_script", fmt.Errorf("cannot wait: %w", context.DeadlineExceeded), nil,
			[]string{"cannot wait: the time for it ran out", "do not send the same call again"}},
		{"unknown, acting", "relay_finish", errors.New("cannot seal: disk full"), nil, []string{"cannot seal: disk full", "It may have had an effect."}},
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
