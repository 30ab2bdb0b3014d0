package background

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Record is what a running service publishes about itself.
type Record struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"` // of the process, in clock ticks since boot; 0 where the system does not tell
	BootID    string `json:"bootId"`
	Nonce     string `json:"nonce"` // /health.instance of the same process
	Port      int    `json:"port"`
	UID       int    `json:"uid"`
}

// recordName is the record's file, in the runtime folder.
const recordName = "machine-service.json"

// maxRecord bounds what is read; a larger file is no record.
const maxRecord = 4096

// Read returns the published record. One that is missing, unreadable or another user's is absent.
func Read(dir string) (Record, bool) {
	f, err := os.OpenFile(filepath.Join(dir, recordName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Record{}, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord || !ownedByUs(info) {
		return Record{}, false
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		return Record{}, false
	}
	var r Record
	if json.Unmarshal(data, &r) != nil || r.Nonce == "" || r.Port <= 0 || r.Port > 65535 || r.UID != os.Getuid() {
		return Record{}, false
	}
	return r, true
}

// Publish writes the record of this process. The file appears whole, and only its owner can read it.
func Publish(dir string, r Record) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot publish machine-service: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot publish machine-service: %w", err)
	}
	temp, err := os.CreateTemp(dir, recordName+".*") // 0600
	if err != nil {
		return fmt.Errorf("cannot publish machine-service: %w", err)
	}
	defer os.Remove(temp.Name()) // gone already when it was renamed
	_, err = temp.Write(append(data, '\n'))
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("cannot publish machine-service: %w", err)
	}
	if err := os.Rename(temp.Name(), filepath.Join(dir, recordName)); err != nil {
		return fmt.Errorf("cannot publish machine-service: %w", err)
	}
	return nil
}

// Withdraw removes the record if it still carries our nonce.
func Withdraw(dir, nonce string) error {
	if r, ok := Read(dir); !ok || r.Nonce != nonce {
		return nil
	}
	return os.Remove(filepath.Join(dir, recordName))
}
