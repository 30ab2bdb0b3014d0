package proc

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestStatReadsBehindAnyName(t *testing.T) {
	const rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20"
	for _, name := range []string{"sh", "a b", ") R 9 9 9", "((", "new\nline"} {
		stat, err := parseStat([]byte("77 (" + name + ") " + rest))
		if err != nil || stat.State != 'S' || stat.Group != 2 || stat.Session != 3 || stat.Start != 424242 {
			t.Errorf("%q: %+v, %v", name, stat, err)
		}
	}
	for _, broken := range []string{"", "77 (sh", "77 (sh) S 1 2"} {
		if _, err := parseStat([]byte(broken)); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

func TestHandleIsOfOneProcessOnly(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if h.Ended() {
		t.Error("a running process counts as ended")
	}
	for _, wrong := range []Identity{{id.PID, id.Start + 1, id.BootID}, {id.PID, id.Start, "another boot"}, {1, id.Start, id.BootID}} {
		if _, err := Open(wrong); !errors.Is(err, ErrOther) {
			t.Errorf("Open(%+v): %v, want ErrOther", wrong, err)
		}
	}
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	if !h.Wait(time.Minute) {
		t.Error("the process does not end")
	}
	_ = cmd.Wait()
	if err := h.Kill(); err != nil {
		t.Errorf("Kill of an ended process: %v", err)
	}
	if _, err := Open(id); !errors.Is(err, ErrOther) {
		t.Errorf("Open of an ended process: %v, want ErrOther", err)
	}
}

func TestStatusOfThisProcess(t *testing.T) {
	status, err := ReadStatus(os.Getpid())
	if err != nil || status.UID != os.Getuid() || len(status.Pids) == 0 {
		t.Errorf("%+v, %v", status, err)
	}
	if status.FirstOfOwnNamespace() {
		t.Error("this process counts as the first of a namespace of its own")
	}
}
