package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Only a verb that may have much to read gets much time.
func TestVerbsGetTheTimeTheyNeed(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		verb  string
		bytes int64
		want  time.Duration
	}{
		{protocol.VerbHello, 30 << 20, verbShort},
		{protocol.VerbPrepare, 0, verbShort},
		{protocol.VerbMkdir, 0, verbShort},
		{protocol.VerbSize, 0, verbShort},
		{protocol.VerbRemove, 0, verbShort},
		{protocol.VerbFact, 1 << 20, verbShort},
		{protocol.VerbFact, gib, 120*time.Second + 1024*verbPerMiB},
		{protocol.VerbScan, 0, 120 * time.Second},
		{protocol.VerbScan, gib, 120*time.Second + 1024*verbPerMiB},
		{protocol.VerbArchive, 2 * gib, 120*time.Second + 2048*verbPerMiB},
	} {
		if got := verbTime(test.verb, test.bytes); got != test.want {
			t.Errorf("%s of %d bytes gets %v, want %v", test.verb, test.bytes, got, test.want)
		}
	}
}

// limited records how much time each verb is given, and lets none of them have more than a moment of it.
type limited struct {
	machine.API
	limits []time.Duration
}

func (l *limited) Exec(ctx context.Context, name string, req machine.ExecRequest) (machine.ExecResult, error) {
	l.limits = append(l.limits, req.Timeout)
	req.Timeout = time.Second
	return l.API.Exec(ctx, name, req)
}

// A guest whose runtime was replaced by a program that never ends costs each call a short time only, and the text says what happened
// and what can be done.
func TestReplacedRuntimeIsNamedSoon(t *testing.T) {
	for _, test := range []struct{ name, program, want string }{
		{"never ends", "#!/bin/sh\necho y\nexec sleep 1000\n", "no end within"},
		{"prints something else", "#!/bin/sh\necho something else\n", "no answer line"},
		{"silent", "#!/bin/sh\nexit 3\n", "exit 3"},
		{"no program", "nonsense", "exit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			g := b.declaring(Declaration{"out", "out"})
			b.produce(g, "out", "a")
			b.replace(g, test.program)
			slow := &limited{API: b.wire}
			g.s.opt.API = slow
			value, _ := b.run(g, shell("true"))
			if value.Outcome.Kind != protocol.Refused {
				t.Errorf("outcome %+v, want refused: nothing ran", value.Outcome)
			}
			_, extracting := g.Extract(t.Context(), ExtractInput{Names: []string{"out"}})
			_, finishing := g.Finish(t.Context())
			for call, text := range map[string]string{"script": value.Outcome.Diagnostic, "extract": errorText(extracting), "finish": errorText(finishing)} {
				for _, part := range []string{test.want, "may have been removed or replaced", "relay_release", "diagnostic: true"} {
					if !strings.Contains(text, part) {
						t.Errorf("%s says %q, want %q in it", call, text, part)
					}
				}
			}
			for _, limit := range slow.limits {
				if limit > verbShort {
					t.Errorf("a verb was given %v, want at most %v", limit, verbShort)
				}
			}
			if g.Gone() {
				t.Fatal("the machine was given up")
			}
			result, err := g.Release(t.Context())
			if err != nil || !result.Value.(*FinishResult).Released {
				t.Errorf("release: %v", err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sparse makes a file that has bytes without taking room.
func (b *bench) sparse(g *Guest, rel string, bytes int64) {
	b.Helper()
	b.produce(g, rel, "")
	if err := os.Truncate(filepath.Join(g.rec().workspace(), rel), bytes); err != nil {
		b.Skipf("the file system of %s takes no sparse file of %d bytes: %v", g.rec().workspace(), bytes, err)
	}
}

// What cannot be pulled is refused by its size: nothing of it is hashed or pulled.
func TestOutputThatCannotComeIsRefusedAtOnce(t *testing.T) {
	const huge, vast = 100 << 30, 1 << 42
	for _, test := range []struct {
		name string
		make func(b *bench, g *Guest)
		want []string
	}{
		{"one file", func(b *bench, g *Guest) { b.sparse(g, "out", huge) },
			[]string{"larger than a transfer may be", "107374182400 bytes", "17179869184", "90194313216 too many"}},
		{"in a folder", func(b *bench, g *Guest) { b.produce(g, "out/a", "a"); b.sparse(g, "out/huge", huge) },
			[]string{"larger than a transfer may be", "107374182400 bytes"}},
		{"many files", func(b *bench, g *Guest) {
			for _, name := range strings.Split(strings.Repeat("x", 300), "") {
				b.sparse(g, "out/"+name+newUUID(), machine.MaxTransfer)
			}
		}, []string{"not enough room", "5153960755200 bytes needed", "free", "short"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			g := b.declaring(Declaration{"out", "out"}, Declaration{"small", "small"})
			test.make(b, g)
			b.produce(g, "small", "small")
			b.run(g, shell("true"))
			if free := freeSpace(b.opt.StateDir, vast); free == nil && test.name == "many files" {
				t.Skip("this disk has room for it")
			}
			before := len(b.wire.execs)
			pulls := b.api.Calls("pull")
			_, extracting := g.Extract(t.Context(), ExtractInput{Names: []string{"out"}})
			_, finishing := g.Finish(t.Context())
			for call, err := range map[string]error{"extract": extracting, "finish": finishing} {
				for _, part := range test.want {
					if !strings.Contains(errorText(err), part) {
						t.Errorf("%s says %q, want %q in it", call, errorText(err), part)
					}
				}
			}
			for _, argv := range b.wire.execs[before:] {
				if slices.Contains(argv, protocol.VerbScan) || slices.Contains(argv, protocol.VerbFact) || slices.Contains(argv, protocol.VerbArchive) {
					t.Errorf("the guest was made to read: %v", argv)
				}
			}
			if b.api.Calls("pull") != pulls || g.Gone() {
				t.Error("something was pulled, or the machine given up")
			}
			// A release leaves it behind, says so, and brings what can come.
			result, err := g.Release(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			value := result.Value.(*FinishResult)
			if value.Delivered == nil || len(value.IncompleteExtractions) != 1 || !strings.Contains(value.IncompleteExtractions[0].Error, test.want[0]) {
				t.Errorf("release %+v (%s), want one incomplete output", value.Delivered, value.DeliveryError)
			}
			if came, _ := filepath.Glob(filepath.Join(value.Output, "extractions", "small", "*")); len(came) != 1 {
				t.Errorf("the other output: %v, want it in the package", came)
			}
		})
	}
}

// An archive carries no more than a transfer may; what is more comes in another one.
func TestArchivesStayBelowTheTransferBound(t *testing.T) {
	file := func(path string, bytes int64) protocol.Fact { return protocol.Fact{Path: path, Bytes: bytes} }
	for _, test := range []struct {
		name  string
		facts []protocol.Fact
		want  int
	}{
		{"small ones together", []protocol.Fact{file("a", 1), file("b", 2)}, 2},
		{"too much together", []protocol.Fact{file("a", archiveBudget-1), file("b", 2)}, 1},
		{"one large", []protocol.Fact{file("a", machine.MaxTransfer), file("b", 1)}, 1},
		{"long names", []protocol.Fact{file(strings.Repeat("a", archivePathBudget-2), 1), file("bb", 1)}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := len(archiveChunk(test.facts)); got != test.want {
				t.Errorf("%d files, want %d", got, test.want)
			}
		})
	}
}

// A full guest disk at the push of a run does not leave the caller without a way out.
func TestFullGuestDiskShowsTheWayOut(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"push", &machine.Error{Op: machine.OpPush, Status: 409, Code: machine.CodeTransferFailed, Message: "the disk of the guest is full"}, true},
		{"verb", &protocol.Failure{Code: protocol.CodeSpace}, true},
		{"other", errors.New("connection reset"), false},
	} {
		if got := strings.Contains(fullDiskHint(test.err), "diagnostic: true"); got != test.want {
			t.Errorf("%s: shown %v, want %v", test.name, got, test.want)
		}
	}
}
