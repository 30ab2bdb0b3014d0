package guest

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

func (b *bench) declaring(list ...Declaration) *Guest {
	b.Helper()
	in := b.input()
	in.Extractions = list
	return b.staged(in)
}

// T170: only what was declared is extracted, each time to a fresh place, hashed on both sides.
func TestExtractBringsDeclaredOutputs(t *testing.T) {
	b := newBench(t)
	g := b.declaring(Declaration{"out/report.txt", "report"}, Declaration{"dir", "dir"})
	b.produce(g, "out/report.txt", "report")
	b.produce(g, "dir/a", "a")
	b.produce(g, "dir/deep/b", "b")
	var places []string
	for range 2 {
		result, err := g.Extract(t.Context(), ExtractInput{Names: []string{"report", "dir"}})
		if err != nil {
			t.Fatal(err)
		}
		list := result.Value.([]Extraction)
		if len(list) != 2 || list[0].Facts[0].Path != "" || len(list[1].Facts) != 2 {
			t.Fatalf("extractions %+v", list)
		}
		if b.read(list[0].Destination) != "report" || b.read(filepath.Join(list[1].Destination, "deep/b")) != "b" {
			t.Error("other bytes arrived")
		}
		places = append(places, list[0].Destination)
	}
	if places[0] == places[1] {
		t.Error("the second extraction took the first one's place")
	}
	if records, _ := filepath.Glob(g.rec().host("host", "extractions", "*.json")); len(records) != 2 {
		t.Errorf("records %v, want one per call", records)
	}
	result, err := g.Extract(t.Context(), ExtractInput{Names: []string{}})
	if err != nil || len(result.Value.([]Extraction)) != 0 {
		t.Errorf("empty extraction: %v, %v", result.Value, err)
	}
	pulls := b.api.Calls("pull")
	_, err = g.Extract(t.Context(), ExtractInput{Names: []string{"report", "other"}})
	wantRefused(t, err, "not declared")
	if b.api.Calls("pull") != pulls {
		t.Error("something was pulled")
	}
}

// T161, T170, D25: what cannot be proved or carried is an error, nothing of it stays, and the machine is kept.
func TestExtractRefusesWhatItCannotProve(t *testing.T) {
	corrupt := func(b *bench, part string) {
		b.wire.onPull = func(remote, local string, next func() error) error {
			err := next()
			if strings.Contains(remote, part) {
				err = errors.Join(err, os.WriteFile(local, []byte("corrupt"), 0o600))
			}
			return err
		}
	}
	for _, test := range []struct {
		name string
		make func(b *bench, g *Guest)
		want string
	}{
		{"symlink", func(b *bench, g *Guest) {
			if err := os.Symlink("/etc/hostname", filepath.Join(g.rec().workspace(), "out")); err != nil {
				b.Fatal(err)
			}
		}, "symlink"},
		{"symlink inside", func(b *bench, g *Guest) {
			b.produce(g, "out/a", "a")
			if err := os.Symlink("/etc/hostname", filepath.Join(g.rec().workspace(), "out/link")); err != nil {
				b.Fatal(err)
			}
		}, "symlink"},
		{"name that cannot be sealed", func(b *bench, g *Guest) { b.produce(g, "out/what?", "a") }, "rename it"},
		{"never produced", func(*bench, *Guest) {}, "missing"},
		{"corrupt file", func(b *bench, g *Guest) { b.produce(g, "out", "a"); corrupt(b, "/out") }, "checksum mismatch"},
		{"corrupt list", func(b *bench, g *Guest) { b.produce(g, "out/a", "a"); corrupt(b, ".inventory-") }, "checksum mismatch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			g := b.declaring(Declaration{"out", "out"})
			test.make(b, g)
			_, err := g.Extract(t.Context(), ExtractInput{Names: []string{"out"}})
			if test.want == "missing" {
				if !missing(err) {
					t.Errorf("error %v, want a missing source", err)
				}
			} else {
				wantError(t, err, test.want)
			}
			if found, _ := filepath.Glob(g.rec().host("extractions", "out", "*")); len(found) > 0 || g.Gone() {
				t.Errorf("extractions %v, gone %v", found, g.Gone())
			}
			b.empty(g.rec().HostRoot + ".finalization-attempts")
			b.empty(g.temp())
		})
	}
}

// AD-10: an archive that fails is replaced by its files, one by one.
func TestArchiveFallsBackToFiles(t *testing.T) {
	b := newBench(t)
	g := b.declaring(Declaration{"dir", "dir"})
	b.produce(g, "dir/a", "a")
	b.produce(g, "dir/b", "b")
	b.wire.onPull = func(remote, _ string, next func() error) error {
		if strings.Contains(remote, ".archive-") {
			return serviceError(409, machine.CodeTransferFailed, "too large for me")
		}
		return next()
	}
	result, err := g.Extract(t.Context(), ExtractInput{Names: []string{"dir"}})
	if err != nil || len(result.Value.([]Extraction)[0].Facts) != 2 {
		t.Fatalf("extraction %+v, %v", result.Value, err)
	}
	if !slices.Contains(b.kinds(), eventArchiveFallback) {
		t.Error("the fallback is not an event")
	}
	for _, pattern := range []string{".archive-*", ".inventory-*"} {
		if left, _ := filepath.Glob(g.rec().guest(pattern)); len(left) > 0 {
			t.Errorf("left in the guest: %v", left)
		}
	}
}

// T163: the text names what is needed, what is free, and what is missing.
func TestFreeSpaceNamesWhatIsShort(t *testing.T) {
	wantError(t, freeSpace(t.TempDir(), math.MaxInt64), "short")
	if err := freeSpace(t.TempDir(), 1); err != nil {
		t.Error(err)
	}
}

// T106, T160: finish delivers what there is, lists what was never produced, and destroys the machine once.
func TestFinishDeliversAndDestroys(t *testing.T) {
	b := newBench(t)
	g := b.declaring(Declaration{"report.txt", "report"}, Declaration{"never", "never"})
	b.run(g, shell("echo hello; echo data > report.txt"))
	result := b.finish(g)
	if !result.Released || !result.DeliveryVerified || result.Execution != evidence.Passed || result.Snapshots != evidence.Complete {
		t.Errorf("result %+v %+v", result, result.Delivery)
	}
	if len(result.IncompleteExtractions) != 1 || result.IncompleteExtractions[0].Name != "never" {
		t.Errorf("incomplete %+v", result.IncompleteExtractions)
	}
	if !g.Gone() || b.api.Calls("release") != 1 {
		t.Errorf("gone %v after %d releases", g.Gone(), b.api.Calls("release"))
	}
	report, err := evidence.Verify(t.Context(), g.rec().HostRoot)
	if err != nil || !report.OK {
		t.Errorf("verification %+v, %v", report, err)
	}
	if outputs, _ := filepath.Glob(g.rec().host("extractions", "report", "*")); len(outputs) != 1 || b.read(outputs[0]) != "data\n" {
		t.Errorf("outputs %v", outputs)
	}
	var fact Lifecycle
	b.decode(g.rec().HostRoot+".lifecycle.json", &fact)
	if fact.Reason != "finished" || fact.Delivered == nil || !fact.Released {
		t.Errorf("lifecycle %+v", fact)
	}
	if list, _ := b.session.Records(); len(list) != 0 {
		t.Errorf("records %v, want none", list)
	}
	if events, _ := os.ReadDir(g.rec().host("host", "events")); len(events) == 0 {
		t.Error("no events in the package")
	}
}

// T164: when only the destruction fails, a later finish repeats only that; in between the guest takes no work.
func TestFinishRepeatsOnlyTheDestruction(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.run(g, shell("true"))
	for range releaseAttempts {
		b.api.Fail("release", serviceError(409, machine.CodeTeardownIncomplete, "still tearing down"))
	}
	_, err := g.Finish(t.Context())
	wantError(t, err, "still tearing down")
	if g.Gone() || g.Status().State != StateReleaseFailed || b.api.Calls("release") != releaseAttempts {
		t.Fatalf("status %+v after %d releases", g.Status(), b.api.Calls("release"))
	}
	manifest, pulls := b.read(g.rec().host("manifest.json")), b.api.Calls("pull")
	_, err = g.Script(t.Context(), shell("true"))
	wantRefused(t, err, "sealed")
	_, err = g.Stage(t.Context(), StageInput{})
	wantRefused(t, err, "sealed")
	_, err = g.Extract(t.Context(), ExtractInput{})
	wantRefused(t, err, "sealed")
	image, err := g.Image(t.Context(), ImageInput{Target: ImageTarget{Source: "display"}})
	if err != nil || image.Delivery.Status != "stale-reference" || !image.Failed {
		t.Errorf("image %+v, %v", image.Delivery, err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.newSession().Open(t.Context(), g.Name())
	if err != nil {
		t.Fatal(err)
	}
	result := b.finish(again)
	if !result.Released || b.api.Calls("pull") != pulls || b.read(g.rec().host("manifest.json")) != manifest {
		t.Errorf("second finish pulled %d times; want the sealed package as it was", b.api.Calls("pull")-pulls)
	}
	if later, _ := filepath.Glob(g.rec().HostRoot + ".lifecycle-events/*.json"); len(later) < 2 {
		t.Errorf("events after the seal: %v", later)
	}
	if report, err := evidence.Verify(t.Context(), g.rec().HostRoot); err != nil || !report.OK {
		t.Errorf("verification %+v, %v", report, err)
	}
}

// T165: the service's word alone is no destruction.
func TestDestructionNeedsTheWitness(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.api.Remain(g.rec().Lease.Name)
	_, err := g.Release(t.Context())
	wantError(t, err, "still exists")
	if g.Gone() || g.rec().Released {
		t.Error("the guest was given up")
	}
}

// A host that dies after the seal and before its record finds the package sealed: it is verified, not rebuilt.
func TestFinishTakesUpASealedPackage(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.run(g, shell("true"))
	for range releaseAttempts {
		b.api.Fail("release", serviceError(409, machine.CodeTeardownIncomplete, "no"))
	}
	if _, err := g.Finish(t.Context()); err == nil {
		t.Fatal("the release did not fail")
	}
	manifest := b.read(g.rec().host("manifest.json"))
	if err := g.update(func(r *Record) { r.Delivered = nil }); err != nil {
		t.Fatal(err)
	}
	result := b.finish(g)
	if !result.DeliveryVerified || b.read(g.rec().host("manifest.json")) != manifest {
		t.Error("the package was rebuilt")
	}
}

// 9.2: there is nothing to package before staging; release ends such a guest.
func TestUnstagedGuestIsReleasedNotFinished(t *testing.T) {
	b := newBench(t)
	g := b.acquire(b.input())
	_, err := g.Finish(t.Context())
	wantRefused(t, err, "relay_release")
	result, err := g.Release(t.Context())
	if err != nil || !g.Gone() {
		t.Fatalf("gone %v, %v", g.Gone(), err)
	}
	if value := result.Value.(*FinishResult); !value.Released || value.Delivered != nil {
		t.Errorf("result %+v", value)
	}
	_, err = g.Release(t.Context())
	wantRefused(t, err, "gone")
}

// T166: a release keeps what was produced, also after a failed run.
func TestReleaseKeepsEvidence(t *testing.T) {
	b := newBench(t)
	g := b.declaring(Declaration{"out", "out"})
	value, result := b.run(g, shell("echo kept > out; exit 7"))
	if !result.Failed || exitCode(value.Outcome) != 7 {
		t.Fatalf("outcome %+v, want exit 7", value.Outcome)
	}
	released, err := g.Release(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fin := released.Value.(*FinishResult)
	if fin.Delivered == nil || fin.Execution != evidence.Failed || fin.DeliveryError != "" {
		t.Errorf("result %+v", fin)
	}
	if outputs, _ := filepath.Glob(g.rec().host("extractions", "out", "*")); len(outputs) != 1 || b.read(outputs[0]) != "kept\n" {
		t.Errorf("outputs %v", outputs)
	}
}

// T167: an event log that cannot be written fails a run's bookkeeping, never the destruction.
func TestReleaseDestroysWithoutAnEventLog(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	events := g.rec().host("host", "events")
	if err := errors.Join(os.RemoveAll(events), os.WriteFile(events, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Probe(t.Context()); err == nil {
		t.Error("an operation went on without its event")
	}
	result, err := g.Release(t.Context())
	if err != nil || !g.Gone() || b.api.Calls("release") != 1 {
		t.Fatalf("gone %v, %v", g.Gone(), err)
	}
	if result.Value.(*FinishResult).DeliveryError == "" {
		t.Error("the lost delivery is not reported")
	}
	if !exists(g.rec().HostRoot + ".delivery-error.json") {
		t.Error("the lost delivery is not recorded")
	}
}

// A release without time for the evidence destroys at once and says so.
func TestReleaseWithoutTimeDestroysAtOnce(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pulls := b.api.Calls("pull")
	result, err := g.Release(ctx)
	if err != nil || !g.Gone() || b.api.Calls("pull") != pulls {
		t.Fatalf("gone %v, %v", g.Gone(), err)
	}
	wantError(t, errors.New(result.Value.(*FinishResult).DeliveryError), "no time left")
}

// T55: a machine that is not to be seen yet is not forgotten; once it is, it can be released.
func TestReleaseOfALostAcquisition(t *testing.T) {
	b := newBench(t)
	g := b.create(b.input())
	b.api.Fail("acquire", serviceError(500, machine.CodeInternal, "who knows"))
	if _, err := g.Acquire(t.Context()); err == nil {
		t.Fatal("the acquisition did not fail")
	}
	_, err := g.Release(t.Context())
	wantError(t, err, "it may still come")
	if g.Gone() {
		t.Fatal("the guest was forgotten")
	}
	if _, err := b.api.Acquire(t.Context(), g.acquireRequest()); err != nil { // it turns up
		t.Fatal(err)
	}
	if _, err := g.Release(t.Context()); err != nil || !g.Gone() || b.api.Calls("release") != 1 {
		t.Errorf("gone %v after %d releases, %v", g.Gone(), b.api.Calls("release"), err)
	}
}

// T116, T109 with the real receiver: how a script ends is told as it was.
func TestRealReceiverTellsHowAScriptEnded(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	short := int64(300)
	slow := shell("echo begun; sleep 30")
	slow.TimeoutMs = &short
	b.write("file.sh", "echo from a file; pwd")
	for _, test := range []struct {
		name   string
		in     Script
		kind   string
		failed bool
		stdout string
	}{
		{"ok", shell("echo hello"), protocol.Completed, false, "hello\n"},
		{"exit 7", shell("exit 7"), protocol.Completed, true, ""},
		{"signal", shell("kill -9 $$"), protocol.Completed, true, ""},
		{"timeout", slow, protocol.Uncertain, true, "begun\n"},
		{"file", Script{Language: protocol.Shell, LocalPath: "file.sh"}, protocol.Completed, false, "from a file\n" + g.rec().workspace() + "\n"},
		{"empty", shell(""), protocol.Completed, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			value, result := b.run(g, test.in)
			if value.Outcome.Kind != test.kind || result.Failed != test.failed {
				t.Errorf("outcome %+v, failed %v; want %s, %v", value.Outcome, result.Failed, test.kind, test.failed)
			}
			if value.Stdout == nil || *value.Stdout != test.stdout {
				t.Errorf("stdout %v, want %q", value.Stdout, test.stdout)
			}
		})
	}
	if result := b.finish(g); result.Execution != evidence.Failed {
		t.Errorf("execution %s, want failed", result.Execution)
	}
}

// A renewal's event that comes during the seal or after it lands beside the package, never in it.
func TestEventsBesideTheSealStayOutOfThePackage(t *testing.T) {
	b := newBench(t)
	g := b.staged(b.input())
	b.run(g, shell("true"))
	for range releaseAttempts {
		b.api.Fail("release", serviceError(409, machine.CodeTeardownIncomplete, "no"))
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := g.Note(EventHeartbeatUncertain, "", nil); err != nil {
				done <- err
				return
			}
		}
	}()
	_, err := g.Finish(t.Context())
	close(stop)
	wantError(t, err, "the evidence is delivered and verified")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if report, err := evidence.Verify(t.Context(), g.rec().HostRoot); err != nil || !report.OK {
		t.Errorf("verification %+v, %v", report.Problems, err)
	}
}
