package receiver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver/admission"
)

// run is one claimed execution on its way to a receipt.
type run struct {
	*receiver
	lock    *lock
	journal *evidence.Journal
	groups  admission.Groups

	req       protocol.Request
	plan      admission.Plan
	capturer  Capturer
	argv      []string
	actionID  string
	begun     bool // action-start is in the journal
	grouped   bool // a failure from here on breaks the open group
	taken     []admission.Captured
	untaken   error // why a capture failed
	faults    []error
	room      reserve
	unsettled bool // processes of the script could not be ended: the next receiver must look again
}

// finalMargin is how long before the host gives up the receiver does.
const finalMargin = 30 * time.Second

// carry takes the run from its claim to its receipt.
func (r *run) carry(ctx context.Context) (protocol.Receipt, string) {
	r.actionID = newID("action-", time.Now())
	var invalid error
	r.req, invalid = admission.Decode(r.data, r.root)
	r.plan = admission.PlanOf(r.req.Snapshots)
	if no := r.route(); no != nil {
		return r.write(r.refused(no))
	}
	r.opt.Hook(pointRouted)
	if invalid != nil {
		return r.refuse(refuse(protocol.ReasonValidation, "%v", invalid))
	}
	r.capturer = capturerFor(r.req, r.root, r.opt)
	limit := time.Duration(r.req.TimeoutMs+r.plan.WaitMs+protocol.DispatchMarginMs)*time.Millisecond - finalMargin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the whole run took too long"))
	defer cancel()
	for _, stage := range []func(context.Context) *refusal{r.prepare, r.admit} {
		no := stage(ctx)
		if ctx.Err() != nil {
			no = refuse(protocol.ReasonCancelled, "the run was called off before its dispatch: %s; nothing was run", causeText(context.Cause(ctx)))
		}
		if no != nil {
			return r.refuse(no)
		}
	}
	result, no := r.dispatch(ctx)
	if no != nil {
		return r.refuse(no)
	}
	r.opt.Hook(pointEnded)
	r.photographAfter(ctx, result)
	return r.retain(result)
}

// route journals the reason, which comes before everything that is done for it, also before a refusal.
func (r *run) route() *refusal {
	step := r.req.Step
	line := r.event("annotation", statePending)
	line.AnnotationType, line.Because, line.Step, line.TimeoutMs = "routing-decision", r.req.Because, &step, r.req.TimeoutMs
	line.Snapshots = &r.req.Snapshots
	if err := r.append(line); err != nil {
		return noStorage(err)
	}
	return nil
}

// prepare checks all that can be checked without the screen: group, script, interpreter, folder, room on disk.
func (r *run) prepare(ctx context.Context) *refusal {
	if err := r.groups.Check(r.ids, r.req.Snapshots.Group); err != nil {
		return refuse(protocol.ReasonGroup, "%v", err)
	}
	r.grouped = true
	if no := r.verifyScript(); no != nil {
		return no
	}
	var err error
	if r.argv, err = arguments(ctx, r.req.Language, r.req.Script.Path); err != nil {
		return refuse(protocol.ReasonSpawn, "%v; nothing was run", err)
	}
	if info, err := os.Stat(r.req.Cwd); err != nil || !info.IsDir() {
		return refuse(protocol.ReasonSpawn, "the script's folder %s is not there; nothing was run", r.req.Cwd)
	}
	if r.room, err = newReserve(filepath.Join(r.root, lockDir, "reserve")); err != nil {
		return noStorage(err)
	}
	line := r.event("execution-start", stateAdmitted)
	line.Argv, line.Cwd, line.TimeoutMs, line.Group = r.argv, r.req.Cwd, r.req.TimeoutMs, r.req.Snapshots.Group
	step, s := r.req.Step, r.req.Script
	line.Step = &step
	line.ScriptIdentity = &scriptIdentity{SHA256: s.SHA256, Bytes: s.Bytes, Language: r.req.Language, RemotePath: s.Path, Origin: s.Origin, Name: s.Name}
	if err := r.append(line); err != nil {
		return noStorage(err)
	}
	r.opt.Hook(pointVerified)
	r.groups = r.groups.Begin(r.ids, r.req.Snapshots.Group)
	r.writeGroups()
	return nil
}

// verifyScript checks that the pushed file is the one announced.
func (r *run) verifyScript() *refusal {
	s := r.req.Script
	fact, err := factOf(r.root, filepath.Clean(s.Path))
	switch {
	case err != nil:
		return refuse(protocol.ReasonIdentity, "cannot read the script: %v; nothing was run", err)
	case fact.Bytes != s.Bytes || fact.SHA256 != s.SHA256:
		return refuse(protocol.ReasonIdentity, "the script is not the one announced: %d bytes with SHA-256 %s; nothing was run", fact.Bytes, fact.SHA256)
	}
	return nil
}

// admit begins the action and takes the pictures that must come before it. Without them nothing is dispatched.
func (r *run) admit(ctx context.Context) *refusal {
	if r.plan.Probe {
		if _, err := take(ctx, r.capturer); err != nil {
			return refuse(protocol.ReasonCapture, "capture does not work any more: %v; nothing was run", err)
		}
	}
	line := r.action("action-start", stateAdmitted)
	line.StepID, line.Title, line.InputMode, line.SnapshotPlan = r.req.Step.ID, r.req.Step.Title, r.inputMode(), &r.plan
	if err := r.append(line); err != nil {
		return noStorage(err)
	}
	r.begun = true
	if err := r.writeAction(stateAdmitted, nil, ""); err != nil {
		return noStorage(err)
	}
	r.opt.Hook(pointBegun)
	if r.plan.Before {
		if err := r.photograph(ctx, admission.PhaseBefore, nil); err != nil {
			r.untaken = err
			return refuse(protocol.ReasonCapture, "the picture before the run could not be taken: %v; nothing was run", err)
		}
	}
	return nil
}

// dispatch runs the script, once.
func (r *run) dispatch(ctx context.Context) (*ended, *refusal) {
	if err := r.lock.enter(phaseDispatch, nil); err != nil {
		return nil, noStorage(err)
	}
	r.opt.Hook(pointDispatch)
	e := &ended{stdout: r.stream("stdout"), stderr: r.stream("stderr")}
	c := command{
		argv: r.argv, cwd: r.req.Cwd, timeout: time.Duration(r.req.TimeoutMs) * time.Millisecond,
		stdout: e.stdout, stderr: e.stderr, drain: r.opt.Executable,
		started: func(script identity) error {
			err := r.lock.enter(phaseDispatch, &script)
			r.opt.Hook(pointStarted)
			return err
		},
	}
	var err error
	e.result, err = c.dispatch(ctx)
	if err != nil {
		return nil, refuse(protocol.ReasonSpawn, "%v; nothing was run", err)
	}
	e.cause = context.Cause(ctx)
	r.unsettled = e.gone != nil && !*e.gone
	return e, nil
}

func (r *run) stream(name string) *stream {
	file := r.ids.ExecutionID + "." + name
	return newStream(r.state("outputs", file), "outputs/"+file)
}

// photographAfter waits as long as the plan says, from the script's end, and takes the picture after it. A failure is a gap
// in the evidence, and no more.
func (r *run) photographAfter(ctx context.Context, e *ended) {
	if !r.plan.After {
		return
	}
	if e.cancelled {
		r.untaken = errors.New("the run was called off")
		return
	}
	wait := time.NewTimer(time.Until(e.ended.Add(time.Duration(r.plan.WaitMs) * time.Millisecond)))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		r.untaken = fmt.Errorf("the run was called off: %w", context.Cause(ctx))
		return
	}
	waited := time.Since(e.ended).Milliseconds()
	if r.untaken = r.photograph(ctx, admission.PhaseAfter, &waited); r.untaken == nil {
		return
	}
	line := r.action("capture-status", stateIncomplete)
	line.Diagnostic = bounded(r.untaken.Error(), maxDiagnostic)
	r.note(r.append(line))
}

// photograph takes one picture and stores it: intent, picture, line, in this order, each durable.
func (r *run) photograph(ctx context.Context, role string, waited *int64) error {
	begun := time.Now()
	name := pictureName(r.journal.Lines()+1, begun, role, r.ids.ExecutionID)
	intent := r.action("capture-intent", statePending)
	intent.FileName, intent.Role = name, role
	if err := r.append(intent); err != nil {
		return err
	}
	r.opt.Hook(pointIntended)
	picture, err := take(ctx, r.capturer)
	if err != nil {
		return err
	}
	taken := time.Now()
	if err := storePicture(r.state("snapshots", r.ids.SessionID), name, picture.PNG); err != nil {
		return err
	}
	r.opt.Hook(pointPhotograph)
	captured := admission.Captured{
		FileName: name, SHA256: hexSum(picture.PNG), Bytes: int64(len(picture.PNG)), MimeType: "image/png",
		StartedAtMs: begun.UnixMilli(), CompletedAtMs: taken.UnixMilli(), CapturedAt: stamp(begun), Role: role,
		ActualWaitMs: waited, Width: picture.Width, Height: picture.Height, Blank: picture.Blank,
	}
	if role == admission.PhaseAfter {
		captured.DeclaredAfterIntervalMs = &r.plan.WaitMs
	}
	line := r.action("snapshot-captured", stateRecorded)
	line.Snapshot, line.Group = &captured, r.req.Snapshots.Group
	if err := r.append(line); err != nil {
		return err
	}
	r.taken = append(r.taken, captured)
	r.opt.Hook(pointCaptured)
	return nil
}

// storePicture makes a picture durable under its name. A process that dies leaves at most a file that ends in .part, which
// readers know for a capture cut short.
func storePicture(dir, name string, data []byte) error {
	part := filepath.Join(dir, "."+name+".part")
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cannot store the picture: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = evidence.PublishExclusive(part, filepath.Join(dir, name))
	}
	if err != nil {
		return fmt.Errorf("cannot store the picture: %w", errors.Join(err, os.Remove(part)))
	}
	return nil
}

// event begins a line about this execution.
func (r *run) event(kind, state string) event {
	return event{Kind: kind, IDs: r.ids, State: state}
}

// action begins a line about this execution's action.
func (r *run) action(kind, state string) event {
	e := r.event(kind, state)
	e.ActionID = r.actionID
	return e
}

// append journals a line, durably.
func (r *run) append(e event) error {
	_, err := r.journal.Append(e, evidence.Durable)
	return err
}

// note keeps a fault of the evidence that came after the dispatch.
func (r *run) note(err error) {
	if err != nil {
		r.faults = append(r.faults, err)
	}
}

func (r *run) inputMode() string {
	if r.req.Step.InputMode == "" {
		return "ordinary"
	}
	return r.req.Step.InputMode
}

// pictureName sorts by time and carries the seq of the line that describes the picture.
func pictureName(seq int, at time.Time, role, executionID string) string {
	slug := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(executionID))
	return fmt.Sprintf("a%06d-%s-%s-%s.png", seq, at.UTC().Format("20060102T150405.000Z"), role, slug[:min(40, len(slug))])
}

// newID is prefix and a suffix that sorts by time: nine base-36 digits of milliseconds, then eight random ones.
func newID(prefix string, now time.Time) string {
	ms := strconv.FormatInt(now.UnixMilli(), 36)
	return prefix + strings.Repeat("0", max(0, 9-len(ms))) + ms + strings.ToLower(rand.Text()[:8])
}
