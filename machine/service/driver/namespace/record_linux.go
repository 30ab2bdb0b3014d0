package namespace

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/proc"
)

// Files in a machine's folder.
const (
	recordFile = "machine.json"
	socketFile = "init.sock"
	logFile    = "init.log" // what init says when it fails
)

// state is how far a machine had come when its record was last written.
type state string

const (
	stateIntent  state = "intent"  // control groups may exist; no process does anything without the driver that made it
	stateStarted state = "started" // Init is known and building the guest
	stateReady   state = "ready"   // the guest has answered
)

// record is all that is needed to find a machine again, to prove that it is the one, and to remove it.
type record struct {
	Version   int    `json:"version"`
	Name      string `json:"name"`
	Mark      string `json:"mark"`
	State     state  `json:"state"`
	Isolation string `json:"isolation"`
	Slot      *int   `json:"slot,omitempty"`

	NonceSHA256  string         `json:"nonceSha256"`
	Cgroups      []string       `json:"cgroups"`
	Init         *proc.Identity `json:"init,omitempty"`
	PIDNamespace uint64         `json:"pidNamespace,omitempty"` // inode

	CreatedAt time.Time      `json:"createdAt"`
	Facts     map[string]any `json:"facts,omitempty"`
}

const recordVersion = 1

func hashNonce(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	return hex.EncodeToString(sum[:])
}

// write makes the record durable: it is there after a crash, as it was or as it is now.
func (r *record) write(folder string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(folder, recordFile+".new")
	if err := writeSynced(temp, append(data, '\n')); err != nil {
		return fmt.Errorf("cannot write the machine's record: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(folder, recordFile)); err != nil {
		return err
	}
	return syncDir(folder)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// readRecord returns fs.ErrNotExist when the folder has none.
func readRecord(folder string) (*record, error) {
	data, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", filepath.Join(folder, recordFile), err)
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("cannot read %s: version %d is not known", filepath.Join(folder, recordFile), r.Version)
	}
	return &r, nil
}

// removeFiles empties the folder of what the driver put there.
func removeFiles(folder string) error {
	var errs []error
	for _, name := range []string{socketFile, logFile, recordFile + ".new", recordFile} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
