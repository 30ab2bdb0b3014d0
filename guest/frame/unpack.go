package frame

import (
	"errors"
	"fmt"
	"io"
)

// Want is one file asked for.
type Want struct {
	Path   string
	Bytes  int64  // with Known
	SHA256 string // with Known
	Known  bool   // size and hash were told before, and the archive must agree
}

// Got is one file that an archive held.
type Got struct {
	Header
	SHA256 string `json:"sha256"`
}

// Unpack reads a whole archive that must hold the files of want, in that order and nothing else, and gives each content to
// store. With present, files may be absent; without, none may. It returns what came. On an error nothing that store received
// may be used.
func Unpack(r io.Reader, want []Want, mode Mode, store func(h Header, content io.Reader) error) ([]Got, error) {
	reader, got := NewReader(r), []Got(nil)
	for {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var w Want
		if w, want, err = find(h, want, mode); err != nil {
			return nil, err
		}
		if err := store(h, reader); err != nil {
			return nil, fmt.Errorf("cannot unpack %q: %w", h.Path, err)
		}
		if _, err := io.Copy(io.Discard, reader); err != nil {
			return nil, err
		}
		if w.Known && reader.SHA256() != w.SHA256 {
			return nil, &FormatError{Path: h.Path, Why: "hash is not the one told before"}
		}
		got = append(got, Got{h, reader.SHA256()})
	}
	if len(want) > 0 && mode == All {
		return nil, &FormatError{Path: want[0].Path, Why: "missing from the archive"}
	}
	return got, nil
}

// find takes h from the head of want, skipping absent files where the mode lets it, and returns the rest.
func find(h Header, want []Want, mode Mode) (Want, []Want, error) {
	for i, w := range want {
		if w.Path == h.Path {
			if w.Known && w.Bytes != h.Bytes {
				return Want{}, nil, &FormatError{Path: h.Path, Why: "size is not the one told before"}
			}
			return w, want[i+1:], nil
		}
		if mode == All {
			break
		}
	}
	return Want{}, nil, &FormatError{Path: h.Path, Why: "not asked for here"}
}

// Mode says what a file that is not there means.
type Mode string

// Modes of an archive, as the archive verb spells them.
const (
	All     Mode = "all"     // an error
	Present Mode = "present" // it is left out
)
