package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
)

// maxEntry bounds a catalogue entry, in bytes.
const maxEntry = 64 << 10

// Entry is what the catalogue keeps of a picture: enough to prove whose it is and to find its bytes again.
type Entry struct {
	ImageID    string            `json:"imageId"`
	Owner      string            `json:"owner"`
	Enclosure  string            `json:"enclosure"`
	Backend    map[string]string `json:"backend"`
	Descriptor Descriptor        `json:"descriptor"`
	FileName   string            `json:"fileName,omitempty"`  // of a display picture: its name in the guest
	Recording  string            `json:"recording,omitempty"` // host folder of the recording it belongs to
	Remote     string            `json:"remote,omitempty"`    // where the guest has it, relative to the guest root
}

// Binding of the entry's owner, guest and backend.
func (e Entry) Binding() string { return Binding(e.Owner, e.Enclosure, e.Backend) }

// Catalogue is a folder of entries, one file per picture, each written once. Safe for several processes.
type Catalogue struct{ dir string }

// Open names the catalogue in dir, which is made with the first entry.
func Open(dir string) Catalogue { return Catalogue{dir: dir} }

// Register writes the entry, durably, and returns its image id, which it derives. An equal entry that is there already is
// fine; another one under the same id is IntegrityFailed and is left as it is.
func (c Catalogue) Register(e Entry) (string, error) {
	e.ImageID = ID(e.Binding(), e.Descriptor, e.FileName)
	if err := e.check(e.ImageID); err != nil {
		return "", err
	}
	if err := evidence.MakeDirs(c.dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot register %s: %w", e.ImageID, err)
	}
	data := append(canonical(e), '\n')
	err := evidence.WriteExclusive(c.path(e.ImageID), data, 0o600)
	if err == nil {
		return e.ImageID, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("cannot register %s: %w", e.ImageID, err)
	}
	there, err := c.read(e.ImageID)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(canonical(there), canonical(e)) {
		return "", integrity("the catalogue holds another entry for %s", e.ImageID)
	}
	return e.ImageID, nil
}

// Load returns the entry of id, checked anew, for a caller that proves itself by binding. An unknown id and one that belongs
// to somebody else are both UnauthorizedReference; an entry that does not agree with its own id is IntegrityFailed.
func (c Catalogue) Load(binding, id string) (Entry, error) {
	if !ValidID(id) {
		return Entry{}, &Error{Status: UnauthorizedReference, Why: "no picture has that id"}
	}
	e, err := c.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, &Error{Status: UnauthorizedReference, Why: "no picture has that id"}
	}
	if err != nil {
		return Entry{}, err
	}
	if e.Binding() != binding {
		return Entry{}, &Error{Status: UnauthorizedReference, Why: "the picture belongs to another session, guest or backend"}
	}
	return e, nil
}

// All returns every entry, in order of id. One that cannot be trusted fails the whole, naming its file.
func (c Catalogue) All() ([]Entry, error) {
	found, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the image catalogue: %w", err)
	}
	var all []Entry
	for _, f := range found {
		id, isEntry := strings.CutSuffix(f.Name(), ".json")
		if !isEntry {
			continue // what an interrupted write left
		}
		if !ValidID(id) {
			return nil, integrity("%s is no catalogue entry", filepath.Join(c.dir, f.Name()))
		}
		e, err := c.read(id)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func (c Catalogue) path(id string) string { return filepath.Join(c.dir, id+".json") }

func (c Catalogue) read(id string) (Entry, error) {
	path := c.path(id)
	data, err := readRegular(path, maxEntry)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, err
	}
	if err != nil {
		return Entry{}, &Error{Status: IntegrityFailed, Why: "the catalogue entry cannot be read", Err: err}
	}
	var e Entry
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil || dec.More() {
		return Entry{}, &Error{Status: IntegrityFailed, Why: path + " is not a catalogue entry", Err: err}
	}
	if err := e.check(id); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// check holds the entry against the id it is filed under and against itself.
func (e Entry) check(id string) error {
	d := e.Descriptor
	switch {
	case e.ImageID != id || ID(e.Binding(), d, e.FileName) != id:
		return integrity("the catalogue entry of %s describes another picture", id)
	case d.Enclosure != e.Enclosure:
		return integrity("the catalogue entry of %s names two guests", id)
	case !validHash(d.SHA256) || d.Bytes < 1 || d.Bytes > MaxOriginal:
		return integrity("the catalogue entry of %s has no valid hash or size", id)
	case Extension(d.MimeType) == "":
		return integrity("the catalogue entry of %s has an unknown type %q", id, d.MimeType)
	case d.Source == Display && (e.FileName == "" || d.ExecutionID == "" || d.Name != ""):
		return integrity("the catalogue entry of %s is no display picture", id)
	case d.Source == Application && (e.FileName != "" || d.Name == "" || d.ExecutionID != ""):
		return integrity("the catalogue entry of %s is no application picture", id)
	case d.Source != Display && d.Source != Application:
		return integrity("the catalogue entry of %s has an unknown source %q", id, d.Source)
	case e.Remote != "" && evidence.SafePath(e.Remote) != nil:
		return integrity("the catalogue entry of %s has an unsafe remote path", id)
	case e.Remote != "" && d.Source == Display && e.Remote != "state/snapshots/"+d.SessionID+"/"+e.FileName:
		return integrity("the catalogue entry of %s names another file than its snapshot", id)
	}
	return nil
}
