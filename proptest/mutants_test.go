package proptest

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is a fault that one change of a line plants.
type mutant struct {
	name string
	file string // within the module
	old  string // occurs once
	new  string
	test string // that must fail, of proptest or, after a slash, of another package
}

const (
	coreFile      = "supervisor/restart/core.go"
	factsFile     = "supervisor/restart/facts.go"
	asksFile      = "supervisor/restart/asks.go"
	reconcileFile = "supervisor/restart/reconcile.go"
	superviseFile = "actors/supervise.go"
	childrenFile  = "actors/children.go"
	cellFile      = "actors/cell.go"
	refFile       = "actors/ref.go"
	askFile       = "actors/ask.go"
	ctxFile       = "actors/ctx.go"
	timersFile    = "actors/timers.go"
	offloadFile   = "actors/offload.go"
)

var mutants = []mutant{
	{"I1: an incarnation is not counted", reconcileFile, "c.incarnations++", "c.incarnations = 1", "TestRestartCore"},
	{"I2: a start does not wait for the one before", reconcileFile, "if oneByOne && k.want && k.phase != Up {", "if oneByOne && k.want && k.phase == Down {", "TestRestartCore"},
	{"I2: starts while something is stopping", reconcileFile, "case stopping && c.orderMatters():", "case stopping && c.exiting != nil:", "TestRestartCore"},
	{"I3: stops first to last", reconcileFile, "for i := len(c.children) - 1; i >= 0; i-- {", "for i := range c.children {", "TestRestartCore"},
	{"I3: stops all at once", reconcileFile, "if c.orderMatters() {\n\t\t\treturn true\n\t\t}", "_ = now", "TestRestartCore"},
	{"I4: rest_for_one restarts elders", factsFile, "c.options.Strategy == RestForOne && younger", "c.options.Strategy == RestForOne && (younger || k.want)", "TestRestartCore"},
	{"I4: one_for_all leaves elders", factsFile, "together := c.options.Strategy == OneForAll ||", "together := c.options.Strategy == OneForAll && younger ||", "TestRestartCore"},
	{"I5: a temporary child comes back with its siblings", factsFile, "	k.recycle = false\n	if k.spec.Restart == Temporary {", "	k.recycle = false\n	if k.spec.Restart == Temporary && k.row > 0 {", "TestRestartCore"},
	{"I5: a transient child comes back after a normal end", factsFile, "k.spec.Restart == Transient && IsNormal(reason)", "k.spec.Restart == Transient && reason == nil", "TestRestartCore"},
	{"I6: one restart too many", factsFile, "len(c.history) <= c.options.Intensity.MaxRestarts", "len(c.history) <= c.options.Intensity.MaxRestarts+1", "TestRestartCore"},
	{"I6: the period does not slide", factsFile, "if now.Sub(t) < c.options.Intensity.Period {", "if !now.Before(t) {", "TestRestartCore"},
	{"I7: a child is wanted while stopping", asksFile, "for _, k := range c.children {\n\t\tk.unwant()", "for _, k := range c.children[min(1, len(c.children)):] {\n\t\tk.unwant()", "TestRestartCore"},
	{"I8: a stop has no deadline", reconcileFile, "k.phase, k.deadline = Stopping, until(now, k.spec.Shutdown)", "k.phase, k.deadline = Stopping, until(now, Infinity)", "TestRestartCore"},
	{"I9: exits while somebody lives", reconcileFile, "if k.alive() {", "if k.phase == Up {", "TestRestartCore"},
	{"I10: news of other incarnations count", coreFile, "k.incarnation == incarnation && k.alive()", "k.alive()", "TestRestartCore"},
	{"I12: a start has no deadline and a failed one no successor", factsFile, "k.phase, k.deadline = Waiting, now.Add(wait)", "k.phase, k.deadline = Waiting, time.Time{}", "TestRestartCore"},
	{"the backoff is not waited for", factsFile, "if wait > 0 {", "if wait > time.Hour {", "TestRestartCore"},
	{"a row of restarts never ends", factsFile, "if stayed {", "if stayed && k.row > 99 {", "TestRestartCore"},
	{"all_significant acts like any", factsFile, "if k.spec.Significant && k.want {\n\t\t\t\treturn", "if k.spec.Significant && k.want && k.restarts > 99 {\n\t\t\t\treturn", "TestRestartCore"},
	{"a removed child is kept", reconcileFile, "(k.forget || k.spec.Restart", "(k.spec.Restart", "TestRestartCore"},
	{"a second child of the same id is taken in", asksFile, "if c.find(spec.ID) != nil {", "if c.find(spec.ID) != nil && c.ready && !c.began {", "TestRestartCore"},
	{"a failed start that was asked for is tried again", factsFile, "case k.asked:", "case k.asked && k.row > 0:", "TestRestartCore"},
	{"a brutal kill is a stop", reconcileFile, "if k.spec.Shutdown == BrutalKill {", "if k.spec.Shutdown == BrutalKill && k.row > 9 {", "TestRestartCore"},
	{"a child is not asked to stop", superviseFile, "r.s.living[id].Tell(Stop{reason})", "_ = reason", "TestSupervisedTree"},
	{"a child that was asked for is answered before it is up", childrenFile, "child.Phase == restart.Up:", "child.Phase >= restart.Starting && len(s.initial) > 99:", "TestSupervisedTree"},
	{"a Goexit is not noticed", cellFile, "		c.end(reason, msg)\n	}()", "		if !c.lost {\n			c.end(reason, msg)\n		}\n	}()", "TestSupervisedTree"},
	{"questions behind a Goexit are forgotten", cellFile, "	c.life.unhandled.failAll(", "	_ = append([]error{}, ", "actors/TestAfterAGoexitNothingIsLeftBehind"},
	{"a panic is a normal end", cellFile, "			err = &PanicError{v, debug.Stack()}", "			err = errors.Join(ErrNormal, &PanicError{v, debug.Stack()})", "TestSupervisedTree"},
	{"A2: an ask does not watch its target", askFile, "case <-to.Done():\n", "case <-make(chan int):\n", "actors/TestAskEndsWithItsTarget"},
	{"A1: an answer that nobody waits for blocks", askFile, "	default:\n	}\n}", "	}\n}", "actors/TestOnlyTheFirstAnswerCounts"},
	{"I11: a watcher that gave up is told", ctxFile, "delete(c.cell.watched, other.life)\n	other", "other", "actors/TestADownThatIsOnItsWayIsNotSeenAfterUnwatch"},
	{"the door stays open behind the end", refFile, "	if l.closed {\n		l.mu.RUnlock()", "	if l.closed && l.pending.Load() > 99 {\n		l.mu.RUnlock()", "actors/TestEveryFailerBehindTheEndIsFailedOnce"},
	{"a timer's tick has no generation", timersFile, "if t.armed[m.key].generation != m.generation {", "if m.generation == 0 {", "actors/TestATickThatHasRunOutIsStaleOnceCancelled"},
	{"offloaded work that is lost reports success", offloadFile, "err := ErrGoexit // unless", "var err error // unless", "actors/TestOffloadedWorkReportsExactlyOnceWhateverHappens"},
	{"a killed child goes on", superviseFile, "r.s.living[id].life.abandon()", "_ = r", "actors/TestTheDeathOfASupervisorEndsItsChildren"},
	{"an abandoned child handles what it still has", cellFile, "if c.life.ctx.Err() != nil {", "if c.life.ctx == nil {", "actors/TestAnAbandonedChildCannotDisturbItsSuccessor"},
	{"a supervisor is up before its children", superviseFile, "c.cell.late = true", "c.cell.late = false", "actors/TestASupervisorIsUpWhenItsChildrenAre"},
	{"the wake-up of a supervisor is not set", superviseFile, "r.s.c.After(wake{}, after, wake{})", "_ = after", "actors/TestAChildThatIgnoresItsStopIsAbandonedOnTime"},
}

// Every fault planted into a copy of the code is caught, within the default number of cases.
func TestMutants(t *testing.T) {
	if !*mutantsFlag && !strings.Contains(flag.Lookup("test.run").Value.String(), "Mutants") {
		t.Skip("compiles every mutant, which takes about a minute: go test ./proptest -run Mutants")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(mutants, castMutants) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			if out, caught := m.run(t, root); !caught {
				t.Errorf("survived %s:\n%s", m.test, out)
				return
			}
			t.Logf("caught by %s in %v", m.test, time.Since(began).Round(time.Millisecond))
		})
	}
}

// run builds the tests with the fault in, and says whether the one that is to catch it failed.
func (m mutant) run(t *testing.T, root string) (output string, caught bool) {
	dir, test, elsewhere := strings.Cut(m.test, "/")
	if !elsewhere {
		dir, test = "proptest", m.test
	}
	binary := filepath.Join(t.TempDir(), "mutant.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", m.overlay(t, root), "-o", binary, "./"+dir)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the mutant: %v\n%s", err, out)
	}
	args := []string{"-test.run", "^" + test + "$"}
	if dir == "proptest" {
		args = append(args, "-seed", "1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, binary, args...)
	run.Dir = filepath.Join(root, dir)
	out, err := run.CombinedOutput()
	return string(out), err != nil && strings.Contains(string(out), "--- FAIL: "+test)
}

// overlay writes the changed copy, and the file that makes the go command read it in place of the original.
func (m mutant) overlay(t *testing.T, root string) string {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%q occurs %d times in %s, want once", m.old, n, m.file)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, changed, []byte(strings.Replace(string(source), m.old, m.new, 1)))
	write(t, overlay, replace)
	return overlay
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
