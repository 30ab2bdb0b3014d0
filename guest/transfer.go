package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Limits of the guest runtime's verbs and of transfers.
const (
	verbShort        = 15 * time.Second       // of a verb that looks at one thing or reads few bytes
	verbShortBytes   = 64 << 20               // which verbShort is enough for, with time to spare
	verbTimeout      = 120 * time.Second      // of a verb that reads many files or many bytes
	verbPerMiB       = 125 * time.Millisecond // hashing at 8 MiB/s
	transferAttempts = 3
	transferWait     = 250 * time.Millisecond // times the attempt
)

// errChanged means that a source was not the same after its transfer.
var errChanged = errors.New("the source changed while it was transferred")

// verb runs one verb of the guest runtime, once, and decodes its answer. bytes is what it has to read, as far as that is known. A failure
// that the runtime reports is a *protocol.Failure, and no answer at all a *runtimeError.
func (g *Guest) verb(ctx context.Context, bytes int64, answer any, args ...string) error {
	return g.verbWithin(ctx, verbTime(args[0], bytes), answer, args...)
}

func (g *Guest) verbWithin(ctx context.Context, limit time.Duration, answer any, args ...string) error {
	name, err := g.machineName()
	if err != nil {
		return err
	}
	argv := append([]string{g.rec().guest(protocol.RuntimeName)}, args...)
	result, err := g.s.opt.API.Exec(ctx, name, machine.ExecRequest{Argv: argv, Timeout: limit})
	if answer := timedOut(err); answer != nil {
		return &runtimeError{verb: args[0], saw: fmt.Sprintf("no end within %v", limit), output: answer.Output, cause: err}
	}
	if err != nil {
		return fmt.Errorf("cannot run %s in the guest: %w", args[0], err)
	}
	if err := protocol.ParseAnswer(result.Output, answer); err != nil {
		if errors.Is(err, protocol.ErrNoAnswer) {
			return &runtimeError{verb: args[0], saw: fmt.Sprintf("exit %d and no answer", result.Code), output: result.Output, cause: err}
		}
		return fmt.Errorf("the guest's %s failed (exit %d): %w", args[0], result.Code, err)
	}
	if result.Code != 0 {
		return fmt.Errorf("the guest's %s ended with exit %d", args[0], result.Code)
	}
	return nil
}

// verbTime is how long a verb may take. Only those that may have much to read get much time: a guest whose runtime was replaced by a
// program that never ends must not hold every call.
func verbTime(verb string, bytes int64) time.Duration {
	if verb != protocol.VerbScan && verb != protocol.VerbArchive && bytes <= verbShortBytes {
		return verbShort
	}
	return verbTimeout + time.Duration(bytes/(1<<20))*verbPerMiB
}

// runtimeError means that the program in the runtime's place does not answer as the runtime does.
type runtimeError struct {
	verb, saw string
	output    string
	cause     error
}

func (e *runtimeError) Error() string {
	text := fmt.Sprintf("the guest's runtime does not answer as it should and may have been removed or replaced: %s gave %s (%v)", e.verb, e.saw, e.cause)
	if output := strings.TrimSpace(clip(e.output, maxRuntimeOutput)); output != "" {
		text += fmt.Sprintf(", and its output ends with %q", output)
	}
	return text + "; relay_script with diagnostic: true runs a shell command without the runtime to look at the guest, relay_stage pushes a runtime that is gone or " +
		"altered again, and relay_release gives the guest up"
}

func (e *runtimeError) Unwrap() error { return e.cause }

// maxRuntimeOutput is how much of what came instead of an answer is shown, bytes.
const maxRuntimeOutput = 200

// retry runs one transfer up to three times, again only when the failure is of the connection or the service. Every retry is
// an event; one that cannot be written ends the transfer with both errors.
func (g *Guest) retry(ctx context.Context, what string, transfer func() error) error {
	attempt := 0
	waits := backoff.WithContext(&linearWait{}, ctx)
	operation := func() error {
		attempt++
		err := transfer()
		if err == nil || ctx.Err() != nil || attempt == transferAttempts || !machine.Transient(err) {
			return permanent(err)
		}
		if logged := g.log(eventTransferRetry, "", map[string]any{"transfer": what, "attempt": attempt, "error": err.Error()}); logged != nil {
			return permanent(errors.Join(err, logged))
		}
		return err
	}
	return backoff.Retry(operation, waits)
}

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}

// linearWait waits 250 ms after the first attempt, 500 ms after the second, and so on.
type linearWait struct{ n time.Duration }

func (w *linearWait) NextBackOff() time.Duration { w.n++; return w.n * transferWait }
func (w *linearWait) Reset()                     { w.n = 0 }

// copyIn pushes a host file as it is; the parents of remote must exist. It proves nothing.
func (g *Guest) copyIn(ctx context.Context, local, remote string) error {
	name, err := g.machineName()
	if err != nil {
		return err
	}
	err = g.retry(ctx, "push "+remote, func() error { return g.s.opt.API.Push(ctx, name, local, remote) })
	if err != nil {
		return fmt.Errorf("cannot push %s to the guest: %w", remote, err)
	}
	return nil
}

// push brings one host file to remote, below the guest root, and proves that it arrived as fact says and that the host file is
// still that.
func (g *Guest) push(ctx context.Context, local, remote string, fact protocol.Fact) error {
	root := g.rec().GuestRoot
	if err := g.verb(ctx, 0, &struct{}{}, protocol.VerbPrepare, root, remote); err != nil {
		return err
	}
	if err := g.copyIn(ctx, local, remote); err != nil {
		return err
	}
	after, err := hashFile(local)
	if err != nil || !same(after, fact) {
		return errors.Join(fmt.Errorf("cannot push %s: %w", local, errChanged), err)
	}
	arrived, err := g.fact(ctx, remote, fact.Bytes)
	if err != nil {
		return err
	}
	if !same(arrived, fact) {
		return fmt.Errorf("checksum mismatch after the push of %s: sent %s (%d bytes), the guest has %s (%d bytes)", remote, fact.SHA256, fact.Bytes, arrived.SHA256, arrived.Bytes)
	}
	return nil
}

func (g *Guest) fact(ctx context.Context, remote string, bytes int64) (protocol.Fact, error) {
	var fact protocol.Fact
	err := g.verb(ctx, bytes, &fact, protocol.VerbFact, g.rec().GuestRoot, remote)
	return fact, err
}

// pull brings one guest file to local, which must not exist. Its fact is taken before and after and must match what came.
func (g *Guest) pull(ctx context.Context, remote, local string) (protocol.Fact, error) {
	before, err := g.fact(ctx, remote, 0)
	if err != nil {
		return protocol.Fact{}, err
	}
	return before, g.pullKnown(ctx, remote, local, before)
}

// pullKnown is pull of a file whose fact is known already.
func (g *Guest) pullKnown(ctx context.Context, remote, local string, want protocol.Fact) error {
	partial, err := g.pullTemp(ctx, remote)
	if err != nil {
		return err
	}
	defer os.Remove(partial)
	got, err := hashFile(partial)
	if err != nil {
		return fmt.Errorf("cannot check the pulled %s: %w", remote, err)
	}
	if !same(got, want) {
		return fmt.Errorf("checksum mismatch after the pull of %s: the guest has %s (%d bytes), here came %s (%d bytes)", remote, want.SHA256, want.Bytes, got.SHA256, got.Bytes)
	}
	after, err := g.fact(ctx, remote, want.Bytes)
	if err != nil {
		return err
	}
	if !same(after, want) {
		return fmt.Errorf("cannot pull %s: %w", remote, errChanged)
	}
	return publish(partial, local)
}

// pullTemp copies a guest file to a fresh private file, unchecked; the caller removes it.
func (g *Guest) pullTemp(ctx context.Context, remote string) (string, error) {
	name, err := g.machineName()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(g.temp(), 0o700); err != nil {
		return "", fmt.Errorf("cannot make the transfer folder: %w", err)
	}
	partial := filepath.Join(g.temp(), newUUID())
	err = g.retry(ctx, "pull "+remote, func() error { return g.s.opt.API.Pull(ctx, name, remote, partial) })
	if err != nil {
		return "", errors.Join(fmt.Errorf("cannot pull %s from the guest: %w", remote, err), removeIfThere(partial))
	}
	return partial, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func sortFacts(facts []protocol.Fact) {
	sort.Slice(facts, func(i, j int) bool { return facts[i].Path < facts[j].Path })
}

// missing says that the guest reported the source itself, or a parent of it, as not existing.
func missing(err error) bool {
	var failure *protocol.Failure
	return errors.As(err, &failure) && failure.Code == protocol.CodeMissing
}

// timedOut is the service's answer when a command ran out of time, or nil.
func timedOut(err error) *machine.Error {
	var answer *machine.Error
	if errors.As(err, &answer) && answer.Code == machine.CodeExecTimeout {
		return answer
	}
	return nil
}
