package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

var (
	sha256Hex    = regexp.MustCompile(`^[a-f0-9]{64}$`)
	snapshotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*\.png$`)
)

// collect turns the end of the receiver's command into a verdict: the acknowledgement, and then the receipt file.
func (g *Guest) collect(ctx context.Context, r run, result machine.ExecResult) verdict {
	var ack protocol.Ack
	if err := protocol.ParseAnswer(result.Output, &ack); err != nil {
		return verdict{outcome: uncertain("the receiver ended with exit %d and no usable acknowledgement (%v): %s", result.Code, err, clip(result.Output, 4000))}
	}
	switch {
	case result.Code != 0 || ack.ExecutionID != r.request.ExecutionID:
		return verdict{outcome: uncertain("the receiver ended with exit %d and acknowledged %q: %s", result.Code, ack.ExecutionID, ack.Diagnostic)}
	case ack.Receipt == "" && ack.Outcome == protocol.Refused:
		return verdict{outcome: protocol.Outcome{Kind: protocol.Refused, Reason: ack.Reason, Diagnostic: firstOf(ack.Diagnostic, "the receiver refused the request")}}
	case ack.Receipt == "":
		return verdict{outcome: uncertain("the receiver wrote no receipt: %s", ack.Diagnostic)}
	}
	receipt, err := g.pullReceipt(ctx, r)
	if err != nil {
		return verdict{outcome: uncertain("the receiver says %s, and its receipt cannot be used: %v", ack.Outcome, err)}
	}
	return verdict{outcome: receipt.Outcome, receipt: receipt}
}

// pullReceipt keeps the receiver's own bytes before it judges them.
func (g *Guest) pullReceipt(ctx context.Context, r run) (*protocol.Receipt, error) {
	rec, id := g.rec(), r.request.ExecutionID
	original := rec.host("host", "receiver-receipts", id+".json")
	if _, err := g.pull(ctx, rec.guest("state/receiver/receipts/"+id+".json"), original); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(original)
	if err != nil {
		return nil, err
	}
	receipt, err := receiptJSON(data)
	if err != nil {
		return nil, fmt.Errorf("it is not a receipt: %w", err)
	}
	if err := checkReceipt(receipt, r.request); err != nil {
		return nil, err
	}
	sent, err := hashFile(r.sent)
	if err != nil {
		return nil, err
	}
	if receipt.RequestSHA256 != "" && receipt.RequestSHA256 != sent.SHA256 {
		return nil, errors.New("it answers another request under the same execution id")
	}
	return &receipt, nil
}

// checkReceipt says why a receipt is not the answer to a request.
func checkReceipt(c protocol.Receipt, request protocol.Request) error {
	if c.ExecutionID != request.ExecutionID {
		return fmt.Errorf("it is of execution %q", c.ExecutionID)
	}
	if c.SessionID != "" && c.SessionID != request.SessionID {
		return fmt.Errorf("it is of recording %q", c.SessionID)
	}
	switch c.Outcome.Kind {
	case protocol.Completed:
		if c.Outcome.ExitStatus == nil || (c.Outcome.ExitStatus.Code == nil) == (c.Outcome.ExitStatus.Signal == nil) {
			return errors.New("it says completed without one exit status")
		}
	case protocol.Refused, protocol.Uncertain:
		if c.Outcome.Diagnostic == "" {
			return fmt.Errorf("it says %s without a diagnostic", c.Outcome.Kind)
		}
	default:
		return fmt.Errorf("its outcome %q is unknown", c.Outcome.Kind)
	}
	return checkImageEvidence(c.ImageEvidence, request)
}

// checkImageEvidence applies the rules of the captures of one run, before any field of them is used as a path.
func checkImageEvidence(e protocol.ImageEvidence, request protocol.Request) error {
	plan := request.Snapshots
	if len(e.Snapshots) > 2 {
		return fmt.Errorf("it names %d captures", len(e.Snapshots))
	}
	phases := make(map[string]bool)
	for _, s := range e.Snapshots {
		if err := checkSnapshot(s, request); err != nil {
			return fmt.Errorf("its %s capture is not of this run: %w", s.Phase, err)
		}
		if phases[s.Phase] || s.ActionID != e.Snapshots[0].ActionID {
			return errors.New("its captures contradict each other")
		}
		phases[s.Phase] = true
	}
	switch {
	case (e.Status == protocol.ImageNotRequested) != !wantsAfter(plan):
		return fmt.Errorf("its image status %q contradicts the plan", e.Status)
	case (e.Status == protocol.ImageAvailable) != phases["after"]:
		return fmt.Errorf("its image status %q contradicts its captures", e.Status)
	case e.Status != protocol.ImageAvailable && e.Status != protocol.ImageNotRequested && e.Status != protocol.ImageCaptureFailed && e.Status != protocol.ImageCaptureUnknown:
		return fmt.Errorf("its image status %q is unknown", e.Status)
	}
	return nil
}

func checkSnapshot(s protocol.Snapshot, request protocol.Request) error {
	plan, group := request.Snapshots, ""
	if plan.Group != nil {
		group = plan.Group.GroupID
	}
	switch {
	case s.SessionID != request.SessionID || s.AttemptID != request.AttemptID || s.ExecutionID != request.ExecutionID || s.StepID != request.Step.ID || s.GroupID != group:
		return errors.New("its identities differ")
	case !safeID.MatchString(s.ActionID):
		return errors.New("its action id is unusable")
	case s.Phase == "before" && !wantsBefore(plan), s.Phase == "after" && !wantsAfter(plan), s.Phase != "before" && s.Phase != "after":
		return errors.New("the plan did not ask for it")
	case !sha256Hex.MatchString(s.SHA256) || s.Bytes < 1 || s.Bytes > protocol.MaxSnapshot || s.MimeType != "image/png":
		return errors.New("its hash, size or type is unusable")
	case len(s.FileName) > 255 || !snapshotName.MatchString(s.FileName):
		return errors.New("its file name is unusable")
	case !strictTime(s.CapturedAt):
		return errors.New("its time is unusable")
	case s.Phase == "before" && s.DeclaredAfterIntervalMs != nil:
		return errors.New("a before-capture has no interval")
	case s.Phase == "after" && (s.DeclaredAfterIntervalMs == nil || *s.DeclaredAfterIntervalMs != waitOf(plan)):
		return errors.New("its interval is not the plan's")
	}
	return nil
}

func strictTime(text string) bool {
	_, err := time.Parse("2006-01-02T15:04:05.000Z", text)
	return err == nil
}
