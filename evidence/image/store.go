package image

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
)

// Extension of an original's file name with its dot, or "" for a type that is no picture of ours.
func Extension(mimeType string) string {
	switch mimeType {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	case "image/webp":
		return ".webp"
	}
	return ""
}

// Store is the folder host/images of a recording: one folder per picture, with its original and a receipt per delivery.
// An original is published once and never replaced. Safe for several processes.
type Store struct{ dir string }

// OpenStore names the store in dir, which is made with the first original.
func OpenStore(dir string) Store { return Store{dir: dir} }

// Path is where the original of id belongs.
func (s Store) Path(id string, d Descriptor) string {
	return filepath.Join(s.dir, id, "original"+Extension(d.MimeType))
}

// Find returns the path of the original after checking its hash. Not there: fs.ErrNotExist. Other bytes: IntegrityFailed,
// and the file stays as it is.
func (s Store) Find(id string, d Descriptor) (string, error) {
	path := s.Path(id, d)
	return path, CheckFile(path, d)
}

// Publish copies the file from into the store under id and returns its path. The copy is checked against the descriptor
// before it gets its name; when another one was published meanwhile, that one must have the same bytes.
func (s Store) Publish(id string, d Descriptor, from string) (string, error) {
	if !ValidID(id) || Extension(d.MimeType) == "" {
		return "", integrity("%q with type %q cannot be stored", id, d.MimeType)
	}
	path := s.Path(id, d)
	if err := evidence.MakeDirs(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("cannot store %s: %w", id, err)
	}
	if err := PublishFile(from, path, d); err != nil {
		return "", err
	}
	return path, nil
}

// Delivery is one answer that carried a picture, or one download that brought it.
type Delivery struct {
	Image        Reference     `json:"image"`
	Presentation *Presentation `json:"presentation,omitempty"`
	At           string        `json:"at"`
	Status       string        `json:"status"` // Attached or Downloaded
}

// Reference is a picture's identity as answers state it.
type Reference struct {
	ImageID string `json:"imageId"`
	Descriptor
	OriginalPath string `json:"originalPath,omitempty"`
	RetrievedAt  string `json:"retrievedAt,omitempty"`
}

// RecordDelivery writes a delivery receipt of its own beside the original, durably.
func (s Store) RecordDelivery(id string, status string, ref Reference, p *Presentation, at time.Time) error {
	if !ValidID(id) {
		return integrity("%q is no image id", id)
	}
	dir := filepath.Join(s.dir, id)
	if err := evidence.MakeDirs(dir, 0o700); err != nil {
		return fmt.Errorf("cannot record delivery of %s: %w", id, err)
	}
	data, err := evidence.MarshalRecord(Delivery{Image: ref, Presentation: p, At: at.UTC().Format(evidence.TimeFormat), Status: status})
	if err != nil {
		return err
	}
	return evidence.WriteExclusive(filepath.Join(dir, "delivery-"+randomName()+".json"), data, 0o600)
}

// PublishFile copies from to path, exclusively and durably, when from has exactly the bytes the descriptor names. A file at
// path already is fine with the same bytes, and IntegrityFailed with others. The folder of path must exist.
func PublishFile(from, path string, d Descriptor) error {
	if err := CheckFile(path, d); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), ".relay-image-"+randomName())
	err := copyExclusive(from, temp)
	if err == nil {
		err = CheckFile(temp, d)
	}
	if err == nil {
		err = evidence.PublishExclusive(temp, path)
	}
	if err == nil {
		return nil
	}
	if undo := os.Remove(temp); undo != nil && !errors.Is(undo, fs.ErrNotExist) {
		err = errors.Join(err, undo)
	}
	if errors.Is(err, fs.ErrExist) {
		return CheckFile(path, d)
	}
	return err
}

func copyExclusive(from, to string) error {
	in, _, err := openRegular(from, MaxOriginal)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, io.LimitReader(in, MaxOriginal+1))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close(), in.Close())
}

func randomName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
