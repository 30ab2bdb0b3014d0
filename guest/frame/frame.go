package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxLine bounds a header or trailer line, its newline included.
const MaxLine = 64 << 10

// trailerSize is the length of every trailer line: {"sha256":"..."} with 64 hex digits and a newline.
const trailerSize = int64(len(`{"sha256":""}`) + 64 + 1)

// Header announces one file.
type Header struct {
	Path  string `json:"path"` // relative, "/" between its parts
	Bytes int64  `json:"bytes"`
}

type trailer struct {
	SHA256 string `json:"sha256"`
}

// CheckPath says why path may not stand in an archive, or nil: it must be UTF-8, relative, without empty, "." or ".."
// parts, backslashes and NUL.
func CheckPath(path string) error {
	switch {
	case path == "":
		return errors.New("empty path")
	case !utf8.ValidString(path):
		return fmt.Errorf("path %q is not UTF-8", path)
	case strings.ContainsAny(path, "\\\x00"):
		return fmt.Errorf("path %q holds a backslash or NUL", path)
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("path %q is not a plain relative path", path)
		}
	}
	return nil
}

// Size is the exact number of bytes that one file takes in an archive.
func Size(h Header) (int64, error) {
	line, err := headerLine(h)
	if err != nil {
		return 0, err
	}
	return int64(len(line)) + h.Bytes + trailerSize, nil
}

func headerLine(h Header) ([]byte, error) {
	if err := CheckPath(h.Path); err != nil {
		return nil, err
	}
	if h.Bytes < 0 {
		return nil, fmt.Errorf("path %q has a negative size", h.Path)
	}
	line, err := jsonLine(h)
	if err == nil && len(line) > MaxLine {
		err = fmt.Errorf("path of %d bytes is too long for an archive", len(h.Path))
	}
	return line, err
}

// jsonLine is v in compact JSON as it stands in an archive: no HTML escapes, a newline at the end.
func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("cannot encode archive line: %w", err)
	}
	return b.Bytes(), nil
}
