package receiver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver/admission"
)

// Options of Run. The zero value is a receiver without a display.
type Options struct {
	Display    string             // X display of CaptureX11
	Executable string             // the runtime itself, started to read on where leftovers still print; "" starts none
	Capturer   Capturer           // instead of the one the request names
	Hook       func(point string) // nil: nothing; called after each durable point, in the order of points
}

// Run admits the request file and carries it out at most once. It returns the receipt, and the path of the receipt file where
// there is one: none exists for a request without usable ids, for an id that belongs to other bytes, for a run that is
// still going on, and where the disk refused it. The error is for a root that cannot be used at all; then nothing ran.
//
// The end of ctx is a cancellation: a running script is killed with all it started, and the run recorded as uncertain.
func Run(ctx context.Context, root, requestPath string, opt Options) (protocol.Receipt, string, error) {
	root = filepath.Clean(root)
	data, err := readRequest(root, requestPath)
	if err != nil {
		return unwritten("unknown", refuse(protocol.ReasonValidation, "cannot read the request: %v", err)), "", nil
	}
	ids, err := admission.Identify(data)
	if err != nil {
		return unwritten("unknown", refuse(protocol.ReasonValidation, "%v", err)), "", nil
	}
	if filepath.Clean(requestPath) != filepath.Join(root, "requests", ids.ExecutionID+".json") {
		return unwritten(ids.ExecutionID, refuse(protocol.ReasonValidation, "request is not at requests/%s.json below the guest root", ids.ExecutionID)), "", nil
	}
	r := newReceiver(root, ids, data, opt)
	for _, dir := range []string{"state/receiver/started", "state/receiver/receipts", "state/records/action", "state/records/execution",
		"state/outputs", "state/snapshots/" + ids.SessionID, lockDir} {
		if err := makeDirs(root, dir); err != nil {
			return protocol.Receipt{}, "", err
		}
	}
	receipt, written := r.answer(ctx)
	return receipt, written, nil
}

const lockDir = ".receiver-lock"

// receiver answers one request.
type receiver struct {
	opt  Options
	root string
	ids  admission.IDs
	data []byte // the request, byte for byte
	sum  string // its SHA-256
}

func newReceiver(root string, ids admission.IDs, data []byte, opt Options) *receiver {
	if opt.Hook == nil {
		opt.Hook = func(string) {}
	}
	return &receiver{opt: opt, root: root, ids: ids, data: data, sum: hexSum(data)}
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (r *receiver) state(parts ...string) string {
	return filepath.Join(append([]string{r.root, "state"}, parts...)...)
}

func (r *receiver) receiptPath(id string) string { return r.state("receiver", "receipts", id+".json") }
func (r *receiver) claimPath(id string) string   { return r.state("receiver", "started", id+".json") }

// unreadable is the verdict when the disk does not say what is known.
const unreadable admission.Verdict = "unreadable"

// answer finds the answer on disk, or makes it under the lock.
func (r *receiver) answer(ctx context.Context) (protocol.Receipt, string) {
	receipt, path, verdict := r.known(nil)
	if verdict != admission.Admit && verdict != admission.Running {
		return receipt, path
	}
	lock, before, err := acquire(filepath.Join(r.root, lockDir))
	switch {
	case errors.Is(err, errBusy) && verdict == admission.Running:
		return receipt, path
	case errors.Is(err, errBusy):
		return r.turnAway(refuse(protocol.ReasonBusy, "%v; nothing was run: try again when it has ended", errBusy))
	case err != nil:
		return r.turnAway(noStorage(err))
	}
	defer lock.release()
	return r.locked(ctx, lock, before)
}

// locked goes on under the lock: closes the books of a receiver that died, then looks again, then claims the id.
func (r *receiver) locked(ctx context.Context, lock *lock, before owner) (protocol.Receipt, string) {
	if no := crowded(before); no != nil {
		return r.turnAway(no)
	}
	journal, history, err := r.openJournal()
	if err != nil {
		damaged := (*evidence.DamagedError)(nil)
		if errors.As(err, &damaged) {
			return r.turnAway(refuse(protocol.ReasonDamaged, "%v; nothing was run", err))
		}
		return r.turnAway(noStorage(err))
	}
	defer journal.Close()
	if err := r.closeBooks(before, journal, history); err != nil {
		return r.turnAway(noStorage(fmt.Errorf("cannot close the books of the run before: %w", err)))
	}
	if receipt, path, verdict := r.known(history); verdict != admission.Admit {
		return receipt, path
	}
	if err := lock.own(r.ids.ExecutionID, r.sum); err != nil {
		return r.turnAway(noStorage(err))
	}
	r.opt.Hook(pointOwned)
	if err := r.claim(""); err != nil {
		return r.unclaimed(err)
	}
	r.opt.Hook(pointClaimed)
	run := &run{receiver: r, lock: lock, journal: journal, groups: history.Groups}
	receipt, path := run.carry(ctx)
	r.opt.Hook(pointAnswered)
	if !run.unsettled {
		// A record that stays unsettled only makes the next receiver look, and find all done.
		_ = lock.enter(phaseSettled, nil)
	}
	r.opt.Hook(pointSettled)
	return receipt, path
}

// known answers from what the disk holds under the id. With the verdict Admit there is no answer: nothing is known. Under the
// lock the journal's history tells too; without, it is nil.
func (r *receiver) known(history *admission.History) (protocol.Receipt, string, admission.Verdict) {
	known, err := r.look(history != nil)
	if err != nil {
		return r.uncertain("what is known of this execution cannot be read: %v", err), "", unreadable
	}
	verdict := admission.Judge(r.sum, known)
	receipt, path := protocol.Receipt{}, ""
	switch verdict {
	case admission.Answer:
		receipt, path = *known.Receipt, r.receiptPath(r.ids.ExecutionID)
	case admission.OtherBytes:
		receipt = unwritten(r.ids.ExecutionID, refuse(protocol.ReasonIdentity,
			"execution id %s belongs to another request; this one was not run", r.ids.ExecutionID))
	case admission.Refused:
		receipt, path = r.write(r.refused(&refusal{known.Claim.Refused, "this execution was refused before, and nothing was run"}))
	case admission.Running:
		receipt = r.uncertain("this execution was started already and will not be repeated; it may still be running")
	case admission.Lost:
		receipt = r.uncertain("this execution was started already and will not be repeated; how it ended is not known")
		if history.Answer != nil {
			receipt = *history.Answer
		}
		receipt, path = r.write(receipt)
	}
	return receipt, path, verdict
}

// look reads the claim and the receipt of the id.
func (r *receiver) look(locked bool) (admission.Known, error) {
	known := admission.Known{Locked: locked}
	var err error
	// The receipt is read after the claim: a claim without receipt must not miss one written in between.
	if known.Claim, err = load[admission.Claim](r.claimPath(r.ids.ExecutionID)); err != nil {
		return known, err
	}
	known.Receipt, err = load[protocol.Receipt](r.receiptPath(r.ids.ExecutionID))
	return known, err
}

// load reads a JSON file; nil when there is none.
func load[T any](path string) (*T, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var v T
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return &v, nil
}

// claim burns the id: fs.ErrExist when somebody else did.
func (r *receiver) claim(refused string) error {
	data, err := compact(admission.Claim{ExecutionID: r.ids.ExecutionID, RequestSHA256: r.sum, Refused: refused})
	if err != nil {
		return err
	}
	return evidence.WriteExclusive(r.claimPath(r.ids.ExecutionID), data, 0o600)
}

// unclaimed is the answer when the claim failed.
func (r *receiver) unclaimed(err error) (protocol.Receipt, string) {
	if errors.Is(err, fs.ErrExist) {
		if receipt, path, verdict := r.known(nil); verdict != admission.Admit {
			return receipt, path
		}
	}
	return r.refused(noStorage(err)), ""
}

// turnAway refuses the request without the right to change the recording: it claims the id first, so that nobody can run it
// any more, then writes the receipt.
func (r *receiver) turnAway(no *refusal) (protocol.Receipt, string) {
	if err := r.claim(no.reason); err != nil {
		return r.unclaimed(err)
	}
	return r.write(r.refused(no))
}

// write makes a receipt durable. A receipt that is there already stays, and is the answer. The path is empty where that failed.
func (r *receiver) write(receipt protocol.Receipt) (protocol.Receipt, string) {
	written, path, err := r.tryWrite(receipt)
	if err != nil {
		return receipt, ""
	}
	return written, path
}

func (r *receiver) tryWrite(receipt protocol.Receipt) (protocol.Receipt, string, error) {
	path := r.receiptPath(receipt.ExecutionID)
	data, err := compact(receipt)
	if err == nil {
		err = evidence.WriteExclusive(path, data, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		if stored, err := load[protocol.Receipt](path); err == nil && stored != nil {
			return *stored, path, nil
		}
	}
	return receipt, path, err
}

// openJournal opens the journal and reads what it says of the runs before.
func (r *receiver) openJournal() (*evidence.Journal, *admission.History, error) {
	path := r.state("journal", "events.jsonl")
	journal, err := evidence.OpenJournal(path)
	if err != nil {
		return nil, nil, err
	}
	history := &admission.History{Asked: r.ids.ExecutionID}
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		_, err = evidence.ReadJournal(f, func(l evidence.JournalLine) error { return history.Add(l.Raw, l.Hash) })
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot read the journal: %w", err), journal.Close())
	}
	return journal, history, nil
}

// readRequest reads the request file, bounded.
func readRequest(root, path string) ([]byte, error) {
	f, err := openFile(root, filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, protocol.MaxRequest+1))
}

// refusal is why nothing was dispatched.
type refusal struct{ reason, diagnostic string }

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// noStorage refuses because what must be durable before a dispatch could not be written.
func noStorage(err error) *refusal {
	return refuse(protocol.ReasonStorage, "%v; nothing was run. Where the guest's disk is full, relay_script with diagnostic: true still runs a "+
		"shell command in the guest, for example to delete files", err)
}

// maxDiagnostic bounds the text of an outcome.
const maxDiagnostic = 64 << 10

// unwritten is the answer to a request that must leave no file.
func unwritten(id string, no *refusal) protocol.Receipt {
	return protocol.Receipt{
		ExecutionID:   id,
		Outcome:       protocol.Outcome{Kind: protocol.Refused, Reason: no.reason, Diagnostic: bounded(no.diagnostic, maxDiagnostic)},
		ImageEvidence: protocol.ImageEvidence{Status: protocol.ImageCaptureUnknown, Snapshots: []protocol.Snapshot{}},
	}
}

// refused is the receipt of a request that was not admitted.
func (r *receiver) refused(no *refusal) protocol.Receipt {
	receipt := unwritten(r.ids.ExecutionID, no)
	receipt.SessionID, receipt.RequestSHA256 = r.ids.SessionID, r.sum
	// Also of a request that breaks a rule it is known whether it asked for a picture.
	if req, _ := admission.Decode(r.data, r.root); !admission.PlanOf(req.Snapshots).After {
		receipt.ImageEvidence.Status = protocol.ImageNotRequested
	}
	return receipt
}

// uncertain is the receipt of an execution that may have run.
func (r *receiver) uncertain(format string, args ...any) protocol.Receipt {
	receipt := r.refused(&refusal{})
	receipt.Outcome = protocol.Outcome{Kind: protocol.Uncertain, Diagnostic: bounded(fmt.Sprintf(format, args...), maxDiagnostic)}
	return receipt
}

// compact is v as compact JSON without HTML escapes.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// bounded cuts text to at most limit bytes, between characters.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xc0 == 0x80 {
		limit--
	}
	return text[:limit]
}

func stamp(t time.Time) string { return t.UTC().Format(evidence.TimeFormat) }
