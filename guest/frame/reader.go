package frame

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// FormatError means that the bytes are not an archive, or not the one that was asked for. Nothing of the archive may be used.
type FormatError struct {
	Path string // of the entry at fault, if any
	Why  string
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return "archive refused: " + e.Why
	}
	return fmt.Sprintf("archive refused at %q: %s", e.Path, e.Why)
}

// Reader reads an archive entry by entry: Next, then Read to io.EOF, then Next again. Content may be trusted only after its
// io.EOF, because the hash comes behind it; callers stage it aside until Next has answered io.EOF for the whole archive.
type Reader struct {
	r      *bufio.Reader
	sum    hash.Hash
	header Header
	left   int64 // content bytes still to come; -1 when no entry is open
	digest string
	err    error
}

// NewReader returns a Reader on r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, MaxLine), left: -1}
}

// Next returns the next entry's header, after skipping (and checking) what is left of the one before. io.EOF means that the
// archive ended where an entry ended; every other end is a *FormatError.
func (r *Reader) Next() (Header, error) {
	if r.left >= 0 {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return Header{}, err
		}
	}
	if r.err != nil {
		return Header{}, r.err
	}
	line, err := r.line()
	if err != nil {
		return Header{}, r.fail(err)
	}
	var h Header
	if err := exactly(line, &h); err != nil {
		return Header{}, r.fail(&FormatError{Why: "header " + err.Error()})
	}
	if canonical, err := headerLine(h); err != nil {
		return Header{}, r.fail(&FormatError{Path: h.Path, Why: err.Error()})
	} else if !bytes.Equal(canonical, line) {
		return Header{}, r.fail(&FormatError{Path: h.Path, Why: "header is not in its one form"})
	}
	r.header, r.left, r.sum, r.digest = h, h.Bytes, sha256.New(), ""
	return h, nil
}

// Read reads the content of the entry that Next announced. It returns io.EOF only when the content was whole and its hash
// is the trailer's.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left < 0 {
		return 0, io.EOF
	}
	if r.left == 0 {
		if err := r.end(); err != nil {
			return 0, r.fail(err)
		}
		return 0, io.EOF
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.sum.Write(p[:n])
	r.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = &FormatError{Path: r.header.Path, Why: "content is cut short"}
	}
	if err != nil {
		return n, r.fail(err)
	}
	return n, nil
}

// SHA256 of the entry that was read to its io.EOF, in hex; "" before.
func (r *Reader) SHA256() string { return r.digest }

// end reads and checks the trailer.
func (r *Reader) end() error {
	line, err := r.line()
	if errors.Is(err, io.EOF) {
		err = &FormatError{Path: r.header.Path, Why: "trailer is missing"}
	}
	if err != nil {
		return err
	}
	digest := hex.EncodeToString(r.sum.Sum(nil))
	want, err := jsonLine(trailer{SHA256: digest})
	if err != nil {
		return err
	}
	if !bytes.Equal(line, want) {
		return &FormatError{Path: r.header.Path, Why: "trailer does not hold the content's hash"}
	}
	r.left, r.digest = -1, digest
	return nil
}

// line reads one whole line. io.EOF means that there was nothing at all.
func (r *Reader) line() ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	switch {
	case err == nil:
		return line, nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, &FormatError{Why: "line is longer than 64 KiB"}
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, &FormatError{Why: "last line is cut short"}
	}
	return nil, err
}

// fail makes err the answer of every later call.
func (r *Reader) fail(err error) error {
	r.err = err
	return err
}

// exactly decodes one JSON object and refuses unknown keys and anything after it.
func exactly(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New("is not the JSON it should be")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("is followed by something else")
	}
	return nil
}
