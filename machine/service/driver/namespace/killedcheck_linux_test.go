package namespace

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/cgroup"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// checkArg starts the test binary as a process that checks whether guests can be made, and gets killed meanwhile.
const checkArg = "check-to-be-killed"

func runCheck(stateDir string) int {
	d := New(Options{StateDir: stateDir, Log: zerolog.Nop()}).(*hostDriver)
	fmt.Println(d.mark)
	if _, err := d.Check(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// checkAndDie begins a check in another process, kills that process with SIGKILL after the time given, and returns the
// mark of its driver and its pid. An empty state folder makes it a doctor.
func checkAndDie(t *testing.T, stateDir string, after time.Duration) (string, int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, checkArg, stateDir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mark, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(after) // the moment is what is varied
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return strings.TrimSpace(mark), cmd.Process.Pid
}

// killMoments are spread over a whole check.
func killMoments() []time.Duration {
	var moments []time.Duration
	step := 8 * time.Millisecond
	if testing.Short() {
		step = 20 * time.Millisecond
	}
	for at := time.Duration(0); at < 120*time.Millisecond; at += step {
		moments = append(moments, at)
	}
	return moments
}

// What a service leaves that is killed during its check is gone when the next one on its state folder has swept, or has
// checked itself.
func TestNextServiceClearsAKilledCheck(t *testing.T) {
	tests := []struct {
		name string
		next func(*testing.T, *hostDriver)
	}{
		{"sweep", func(t *testing.T, d *hostDriver) {
			if _, err := d.Sweep(t.Context(), nil); err != nil {
				t.Errorf("Sweep: %v", err)
			}
		}},
		{"check", func(t *testing.T, d *hostDriver) {
			if _, err := d.Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
			if _, err := d.Sweep(t.Context(), nil); err != nil {
				t.Errorf("Sweep: %v", err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, temp := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", temp)
			leftSomething := 0
			for _, at := range killMoments() {
				checkAndDie(t, dir, at)
				d := newDriver(t, dir)
				if exists(d.ownCheckFolder()) {
					leftSomething++
				}
				tt.next(t, d)
				if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
					t.Errorf("killed after %s: the state folder holds %v, %v", at, entries, err)
				}
				wantNothingLeft(t, d)
			}
			if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
				t.Errorf("among the temporary files: %v, %v", entries, err)
			}
			if leftSomething == 0 {
				t.Errorf("no check was killed while it had a folder")
			}
		})
	}
}

// A doctor has no state folder; what it leaves is taken by whichever service or doctor of the user comes next.
func TestNextOfTheUserClearsAKilledDoctor(t *testing.T) {
	tests := []struct {
		name string
		next func(*testing.T)
	}{
		{"service", func(t *testing.T) {
			if _, err := newDriver(t, t.TempDir()).Sweep(t.Context(), nil); err != nil {
				t.Errorf("Sweep: %v", err)
			}
		}},
		{"doctor", func(t *testing.T) {
			if _, err := newDriver(t, "").Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			leftSomething := 0
			for _, at := range killMoments() {
				mark, pid := checkAndDie(t, "", at)
				if entries, _ := os.ReadDir(temp); len(entries) > 0 {
					leftSomething++
				}
				tt.next(t)
				if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
					t.Errorf("killed after %s: the temporary files are %v, %v", at, entries, err)
				}
				eventually(t, "nothing is left of the doctor", func() bool {
					// An init that nobody had recorded ends by itself, and its groups can be taken only then.
					if _, err := newDriver(t, t.TempDir()).Sweep(t.Context(), nil); err != nil {
						t.Errorf("Sweep: %v", err)
					}
					return len(left(t, &hostDriver{mark: mark})) == 0
				})
				if t.Failed() {
					t.Fatalf("after the death of %d after %s", pid, at)
				}
			}
			if leftSomething == 0 {
				t.Errorf("no doctor was killed while it had a folder")
			}
		})
	}
}

// A doctor may run beside anything: nobody takes the folder or the guest of one that lives.
func TestLivingDoctorsAreLeftAlone(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for n := range 8 {
				facts, err := New(Options{Log: zerolog.Nop()}).Check(context.Background())
				if err != nil {
					t.Errorf("Check %d: %v", n, err)
				}
				if os.Geteuid() == 0 && strings.Contains(fmt.Sprint(facts["limits"]), "not limited: cannot") {
					t.Errorf("somebody took the control groups of check %d: %v", n, facts["limits"])
				}
			}
		})
	}
	go func() { all.Wait(); close(done) }()
	sweeper := newDriver(t, t.TempDir())
	for sweeping := true; sweeping; {
		select {
		case <-done:
			sweeping = false
		default:
			if _, err := sweeper.Sweep(t.Context(), nil); err != nil {
				t.Errorf("Sweep: %v", err)
			}
		}
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
		t.Errorf("left among the temporary files: %v, %v", entries, err)
	}
}

func TestDamagedCheckFolderDoesNotKeepAServiceFromChecking(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	if err := os.Mkdir(d.ownCheckFolder(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{recordFile, recordFile + ".new", logFile, socketFile} {
		if err := os.WriteFile(filepath.Join(d.ownCheckFolder(), name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	if exists(d.ownCheckFolder()) {
		t.Error("the folder is still there")
	}
}

// Among the temporary files lies what anybody put there.
func TestOnlyAbandonedFoldersOfChecksAreTaken(t *testing.T) {
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	dead, foreign := me, me
	dead.start--
	foreign.namespace++
	name := func(o owner) string { return tempCheckPrefix + o.String() + "-1" }
	tests := []struct {
		name string
		make func(dir string) (string, error)
		want bool
	}{
		{"of a dead owner", func(dir string) (string, error) { return mkdir(dir, name(dead), 0o700) }, true},
		{"of a living owner", func(dir string) (string, error) { return mkdir(dir, name(me), 0o700) }, false},
		{"of an owner who counts pids otherwise", func(dir string) (string, error) { return mkdir(dir, name(foreign), 0o700) }, false},
		{"others may write to it", func(dir string) (string, error) { return mkdir(dir, name(dead), 0o770) }, false},
		{"without an owner", func(dir string) (string, error) { return mkdir(dir, tempCheckPrefix+"12345", 0o700) }, false},
		{"a file", func(dir string) (string, error) {
			path := filepath.Join(dir, name(dead))
			return path, os.WriteFile(path, nil, 0o600)
		}, false},
		{"a symlink", func(dir string) (string, error) {
			path := filepath.Join(dir, name(dead))
			return path, os.Symlink(t.TempDir(), path)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			path, err := tt.make(temp)
			if err != nil {
				t.Fatal(err)
			}
			removed, err := sweepTempChecks()
			if err != nil {
				t.Fatal(err)
			}
			if taken := slices.Contains(removed, "folder "+path); taken != tt.want || exists(path) == tt.want {
				t.Errorf("taken %v, still there %v; want taken %v", taken, exists(path), tt.want)
			}
		})
	}
}

func mkdir(dir, name string, perm os.FileMode) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", err
	}
	return path, os.Chmod(path, perm)
}

// makeGroup makes an empty control group as a driver does before it puts a guest in.
func makeGroup(t *testing.T, name string) string {
	t.Helper()
	paths := cgroup.Host().Plan(name).Paths()
	if len(paths) == 0 {
		t.Skip("no control groups can be made by this user here")
	}
	path := paths[0]
	for { // another test's service may remove the parent just when it is empty
		if err := os.MkdirAll(path, 0o755); err == nil {
			break
		}
	}
	t.Cleanup(func() {
		_ = unix.Rmdir(path)
		_ = unix.Rmdir(filepath.Dir(path))
	})
	return path
}

func TestSweepTakesAnEmptyGroupOnlyWhenItsOwnerIsDead(t *testing.T) {
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	stat, err := proc.ReadStat(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	alive := owner{me.namespace, bystander.Process.Pid, stat.Start}
	reused := owner{me.namespace, bystander.Process.Pid, stat.Start - 1}
	foreign := owner{me.namespace + 1, bystander.Process.Pid, stat.Start - 1}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		by    owner
		other bool // belongs to another user
		want  bool
	}{
		{"its owner lives", alive, false, false},
		{"its owner is this process", me, false, false},
		{"its owner has ended", owner{me.namespace, gone.Process.Pid, 1}, false, true},
		{"its owner's pid is another's now", reused, false, true},
		{"its owner counts pids otherwise", foreign, false, false},
		{"it is another user's", reused, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.other && os.Geteuid() != 0 {
				t.Skip("only root can give a group away")
			}
			name := uniqueName()
			path := makeGroup(t, cgroupName(markOf(""), tt.by, name))
			if tt.other {
				if err := os.Chown(path, ordinaryID, ordinaryID); err != nil {
					t.Fatal(err)
				}
			}
			if listed := lists(t, name); listed == tt.other {
				t.Errorf("listed %v, want %v", listed, !tt.other)
			}
			if _, err := newDriver(t, t.TempDir()).Sweep(t.Context(), nil); err != nil {
				t.Errorf("Sweep: %v", err)
			}
			if taken := !exists(path); taken != tt.want {
				t.Errorf("taken %v, want %v", taken, tt.want)
			}
		})
	}
}

func lists(t *testing.T, name string) bool {
	t.Helper()
	listed, err := List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range listed {
		if l.Name == name {
			return true
		}
	}
	return false
}

// The end of a guest frees the number of its pid namespace for the next one. What is left of the first must not wait for
// the second.
func TestRemainsAreRemovedThoughTheirNamespaceNumberIsAnothers(t *testing.T) {
	dir := t.TempDir()
	d := newDriver(t, dir)
	g, _ := create(t, d, newSpec(t, dir, uniqueName()))
	spec := newSpec(t, dir, uniqueName())
	r := &record{Version: recordVersion, Name: spec.Name, Mark: d.mark, State: stateReady, NonceSHA256: hashNonce(spec.Nonce),
		PIDNamespace: g.record.PIDNamespace}
	if err := r.write(spec.Folder); err != nil {
		t.Fatal(err)
	}
	if err := eraseCheck(spec.Folder, r); err != nil {
		t.Error(err)
	}
	if !g.Alive() {
		t.Error("the other guest was ended")
	}
}
