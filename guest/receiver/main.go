package receiver

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/guest/frame"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver/x11"
)

// verbReceive is invoke with the root taken from the request's place: <root>/requests/<executionId>.json.
const verbReceive = "receive"

// verbDrain reads its stdin to the end and drops it: see leftovers.
const verbDrain = "drain"

// Main is the guest runtime: args[0] is a verb of package protocol. It prints one answer line on stdout and returns the
// exit code: 0 for an answer, 1 for a failure that the answer names. A run that was refused or is uncertain is an answer.
func Main(args []string, stdout io.Writer) int {
	if len(args) == 1 && args[0] == verbDrain {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	answer, err := perform(args)
	code := 0
	if err != nil {
		answer, code = failureOf(err), 1
	}
	line, err := protocol.Answer(answer)
	if err != nil {
		return 1
	}
	if _, err := stdout.Write(line); err != nil {
		return 1
	}
	return code
}

// arity is how many arguments each verb takes; archive takes at least so many.
var arity = map[string]int{
	protocol.VerbHello: 0, protocol.VerbPrepare: 2, protocol.VerbMkdir: 2, protocol.VerbSize: 2, protocol.VerbScan: 3,
	protocol.VerbFact: 2, protocol.VerbArchive: 4, protocol.VerbRemove: 2, protocol.VerbInvoke: 2,
	protocol.VerbImageFact: 3, protocol.VerbWindow: 1, protocol.VerbIdle: 2, verbReceive: 1,
}

func perform(args []string) (any, error) {
	if len(args) == 0 {
		return nil, failure(protocol.CodeInvalid, "", "no verb given")
	}
	verb, args := args[0], args[1:]
	want, known := arity[verb]
	if !known {
		return nil, failure(protocol.CodeInvalid, "", "verb %q is not known", verb)
	}
	if len(args) < want || (len(args) > want && verb != protocol.VerbArchive) {
		return nil, failure(protocol.CodeInvalid, "", "%s takes %d arguments and got %d", verb, want, len(args))
	}
	for i := range args {
		// Names in an archive are relative and stay as they are.
		if filepath.IsAbs(args[i]) && i < 3 {
			args[i] = filepath.Clean(args[i])
		}
	}
	type nothing struct{}
	switch verb {
	case protocol.VerbHello:
		return hello(displayName())
	case protocol.VerbPrepare:
		return nothing{}, prepare(args[0], args[1])
	case protocol.VerbMkdir:
		return nothing{}, makeDir(args[0], args[1])
	case protocol.VerbSize:
		return measure(args[0], args[1])
	case protocol.VerbScan:
		return scan(args[0], args[1], args[2])
	case protocol.VerbFact:
		return factOf(args[0], args[1])
	case protocol.VerbArchive:
		return archive(args[0], args[1], args[2], frame.Mode(args[3]), args[4:])
	case protocol.VerbRemove:
		return nothing{}, removeFile(args[0], args[1])
	case protocol.VerbImageFact:
		return imageFact(args[0], args[1], args[2])
	case protocol.VerbWindow:
		return nothing{}, x11.Window(displayName(), args[0])
	case protocol.VerbIdle:
		return idle(args[0], args[1])
	case verbReceive:
		return invoke(filepath.Dir(filepath.Dir(args[0])), args[0])
	}
	return invoke(args[0], args[1])
}

// invoke runs the receiver. A signal to end is a cancellation that reached the guest: the script is killed and the run recorded.
func invoke(root, request string) (protocol.Ack, error) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return protocol.Ack{}, failure(protocol.CodeIO, "", "cannot find the runtime's own file: %v", err)
	}
	receipt, written, err := Run(ctx, root, request, Options{Display: displayName(), Executable: self})
	if err != nil {
		return protocol.Ack{}, err
	}
	ack := protocol.Ack{
		ExecutionID: receipt.ExecutionID, Outcome: receipt.Outcome.Kind, Reason: receipt.Outcome.Reason,
		Diagnostic: bounded(receipt.Outcome.Diagnostic, 1<<10), Receipt: written,
	}
	return ack, nil
}

// displayName is the X display as scripts see it. The environment of the guest's session is a fact about the guest, not a
// setting of the relay's; this is the one place that looks at it.
func displayName() string { return os.Getenv("DISPLAY") }
