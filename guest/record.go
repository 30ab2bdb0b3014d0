package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// recordFile is the ownership record's name; its content is one JSON object, or null once the guest is gone.
const recordFile = "lease.json"

// Record is the ownership record of one guest: what must survive this process. It is durable before a machine is
// allocated, and holds no natural language of the caller.
type Record struct {
	Guest               string              `json:"guest"`
	Backend             map[string]string   `json:"backend"`
	Purpose             string              `json:"purpose"`
	Task                string              `json:"task"`
	Image               string              `json:"image"`
	Env                 string              `json:"env,omitempty"`
	Network             string              `json:"network"`
	VNC                 *bool               `json:"vnc,omitempty"`
	Project             string              `json:"project"`
	StartedAt           string              `json:"startedAt"` // the lease clock's start: when the acquisition was sent
	GuestRoot           string              `json:"guestRoot"`
	HostRoot            string              `json:"hostRoot"`
	TTLHours            float64             `json:"ttlHours"`
	Extractions         []Declaration       `json:"extractions"`
	FullWorkspace       bool                `json:"fullWorkspace"`
	Lease               *machine.Lease      `json:"lease,omitempty"`
	AcquisitionInFlight bool                `json:"acquisitionInFlight,omitempty"`
	AcquireInstance     string              `json:"acquireInstance,omitempty"` // the process that it was sent to, where the service says
	AcquireFolder       string              `json:"acquireFolder,omitempty"`
	Active              bool                `json:"active,omitempty"` // the lease is being renewed
	GuestState          string              `json:"guestState,omitempty"`
	ExpiresAt           float64             `json:"expiresAt,omitempty"` // unix seconds, last confirmed
	Staged              bool                `json:"staged"`
	Node                string              `json:"node,omitempty"`
	CuaDriver           string              `json:"cuaDriver,omitempty"`
	SessionID           string              `json:"sessionId,omitempty"` // the recording
	Capture             *protocol.Snapshots `json:"capture,omitempty"`   // how runs are captured, decided at staging
	RunSeq              int                 `json:"runSeq,omitempty"`
	LastError           string              `json:"lastError,omitempty"`
	Delivered           *Delivered          `json:"delivered,omitempty"`
	ReleaseFailed       bool                `json:"releaseFailed,omitempty"`
	Released            bool                `json:"released,omitempty"`
	PreviousEvidence    []PreviousEvidence  `json:"previousEvidence,omitempty"`
}

// Delivered is the sealed package, as finish answers it. It is durable before the machine is destroyed.
type Delivered struct {
	evidence.Delivery
	IncompleteExtractions []IncompleteExtraction `json:"incompleteExtractions,omitempty"`
}

// IncompleteExtraction is a declared output that the guest never produced.
type IncompleteExtraction struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Error string `json:"error"`
}

// PreviousEvidence is an earlier recording of the same guest.
type PreviousEvidence struct {
	Path       string `json:"path"`
	SessionID  string `json:"sessionId"`
	GuestState string `json:"guestState"`
}

// errNoRecord means that the record says null: the guest is gone.
var errNoRecord = errors.New("the guest is gone")

// loadRecord reads a record. errNoRecord when it is null, fs.ErrNotExist when there is none.
func loadRecord(dir string) (Record, error) {
	path := filepath.Join(dir, recordFile)
	info, err := os.Lstat(path)
	if err != nil {
		return Record{}, fmt.Errorf("cannot read the ownership record: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Record{}, fmt.Errorf("cannot read the ownership record: %s is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("cannot read the ownership record: %w", err)
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return Record{}, errNoRecord
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("cannot read the ownership record %s: %w", path, err)
	}
	if r.Purpose == "" || r.GuestRoot == "" || !filepath.IsAbs(r.HostRoot) || !guestName.MatchString(r.Guest) {
		return Record{}, fmt.Errorf("cannot use the ownership record %s: it lacks the guest's identity", path)
	}
	return r, nil
}

// saveRecord makes the record durable.
func saveRecord(dir string, r Record) error {
	if err := evidence.WriteRecord(filepath.Join(dir, recordFile), r); err != nil {
		return fmt.Errorf("cannot save the ownership record: %w", err)
	}
	return nil
}

// clearRecord makes the record null, durably: the guest is gone and its folder stays as the tombstone of its name.
func clearRecord(dir string) error {
	if err := evidence.WriteFileDurable(filepath.Join(dir, recordFile), []byte("null\n"), 0o600); err != nil {
		return fmt.Errorf("cannot clear the ownership record: %w", err)
	}
	return nil
}

// hasRecord says whether dir holds a record that is not null; a broken one counts, because it may own a machine.
func hasRecord(dir string) bool {
	_, err := loadRecord(dir)
	return !errors.Is(err, errNoRecord) && !errors.Is(err, fs.ErrNotExist)
}
