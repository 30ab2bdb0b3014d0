package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
)

// Kinds of events.
const (
	eventAcquireIntent        = "acquire-intent"
	eventAcquireRefused       = "acquire-refused"
	eventGuestReadiness       = "guest-readiness"
	eventStage                = "stage"
	eventStageLost            = "stage-lost"
	eventRuntimeRepaired      = "runtime-repaired"
	eventExtract              = "extract"
	eventExtractionIncomplete = "extraction-incomplete"
	eventWorkspaceIncomplete  = "workspace-incomplete"
	eventStateReused          = "state-reused"
	eventArchiveFallback      = "archive-fallback"
	eventTransferRetry        = "transfer-retry"
	eventExecutionFailed      = "execution-failed"
	eventOperationFailed      = "operation-failed"
	eventFinish               = "finish"
	eventRelease              = "release"
	eventReleaseError         = "release-error"

	// For Note, by whoever runs the lease clock.
	EventHeartbeatUncertain = "heartbeat-uncertain"
	EventRenewalStopped     = "renewal-stopped"
	EventRenewalPaused      = "renewal-paused"
	EventFinalRenewalFailed = "final-renewal-failed"
)

// Event is one fact about a guest, as it stands in the evidence.
type Event struct {
	Guest   string         `json:"-"`
	Kind    string         `json:"kind"`
	Because string         `json:"because,omitempty"`
	At      string         `json:"at"`
	Details map[string]any `json:"details,omitempty"`
}

// Note writes an event durably and tells it.
func (g *Guest) Note(kind, because string, details map[string]any) error {
	return g.log(kind, because, details)
}

// log writes an event durably, into the folder that may still change, and tells it.
func (g *Guest) log(kind, because string, details map[string]any) error {
	at := g.now()
	event := Event{Guest: g.name, Kind: kind, Because: because, At: isoTime(at), Details: details}
	g.eventMu.RLock()
	err := writeEvent(g.eventDir(), at, event)
	g.eventMu.RUnlock()
	if err != nil {
		return fmt.Errorf("cannot write the event %s: %w", kind, err)
	}
	if g.s.opt.Emit != nil {
		g.s.opt.Emit(event)
	}
	return nil
}

// eventDir is where events go now: the state folder until a machine is ours, so that a refused acquisition leaves no
// evidence folder; the evidence folder; and beside it from the beginning of its seal. The caller holds eventMu.
func (g *Guest) eventDir() string {
	r := g.rec()
	switch {
	case r.Lease == nil:
		return filepath.Join(g.dir, "events")
	case g.sealing || r.Delivered != nil || exists(r.host("manifest.json")):
		return r.HostRoot + ".lifecycle-events"
	}
	return r.host("host", "events")
}

// setSealing sends events beside the evidence folder from here on, or back into it. It waits for those being written.
func (g *Guest) setSealing(on bool) {
	g.eventMu.Lock()
	defer g.eventMu.Unlock()
	g.sealing = on
}

func writeEvent(dir string, at time.Time, event Event) error {
	if err := evidence.MakeDirs(dir, 0o700); err != nil {
		return err
	}
	data, err := evidence.MarshalRecord(event)
	if err != nil {
		return err
	}
	return evidence.WriteExclusive(filepath.Join(dir, fmt.Sprintf("%d-%s.json", at.UnixMilli(), newUUID())), data, 0o600)
}

// importEvents moves what was written before a machine was ours into the evidence. It may be repeated.
func (g *Guest) importEvents() error {
	from, to := filepath.Join(g.dir, "events"), g.rec().host("host", "events")
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot move the first events into the evidence: %w", err)
	}
	if err := evidence.MakeDirs(to, 0o700); err != nil {
		return fmt.Errorf("cannot make the evidence folder: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".json") {
			continue // a temporary file of a writer that died
		}
		source := filepath.Join(from, entry.Name())
		data, err := os.ReadFile(source)
		if err == nil {
			err = evidence.WriteExclusive(filepath.Join(to, entry.Name()), data, 0o600)
		}
		if errors.Is(err, fs.ErrExist) {
			err = nil // moved before, by a process that died before it removed the source
		}
		if err == nil {
			err = os.Remove(source)
		}
		if err != nil {
			return fmt.Errorf("cannot move the first events into the evidence: %w", err)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
