package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

const chunk = 256 << 10

// StreamWriter sends what is written to it as data frames. It must be ended by Close or Abort.
type StreamWriter struct {
	w     io.Writer
	sum   hash.Hash
	bytes int64
}

// NewStreamWriter begins a stream on w.
func NewStreamWriter(w io.Writer) *StreamWriter { return &StreamWriter{w: w, sum: sha256.New()} }

func (s *StreamWriter) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 {
		part := p[:min(len(p), chunk)]
		if err := WriteFrame(s.w, KindData, part); err != nil {
			return done, err
		}
		s.sum.Write(part)
		s.bytes += int64(len(part))
		done += len(part)
		p = p[len(part):]
	}
	return done, nil
}

// Close ends the stream as whole.
func (s *StreamWriter) Close() error {
	return Send(s.w, KindEnd, Sum{Bytes: s.bytes, SHA256: hex.EncodeToString(s.sum.Sum(nil))})
}

// Abort ends the stream as not whole.
func (s *StreamWriter) Abort(fault Fault, cause error) error {
	return Send(s.w, KindEnd, Sum{Fault: fault, Error: cause.Error()})
}

// StreamError is what a sender said when it gave a stream up.
type StreamError struct {
	Fault   Fault
	Message string
}

func (e *StreamError) Error() string { return e.Message }

// StreamReader reads a stream. io.EOF comes only after the end was read and the length and the hash are right.
type StreamReader struct {
	r     io.Reader
	rest  []byte
	sum   hash.Hash
	bytes int64
	err   error
}

// NewStreamReader begins to read a stream from r.
func NewStreamReader(r io.Reader) *StreamReader { return &StreamReader{r: r, sum: sha256.New()} }

func (s *StreamReader) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.err = s.next()
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Drain reads to the end, so that what follows the stream can be read. nil means that the stream was whole.
func (s *StreamReader) Drain() error {
	_, err := io.Copy(io.Discard, s)
	return err
}

func (s *StreamReader) next() error {
	kind, body, err := ReadFrame(s.r)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	switch kind {
	case KindData:
		s.rest = body
		s.sum.Write(body)
		s.bytes += int64(len(body))
		return nil
	case KindEnd:
		return s.check(body)
	}
	return fmt.Errorf("unexpected frame %q in a stream", kind)
}

func (s *StreamReader) check(body []byte) error {
	var end Sum
	if err := json.Unmarshal(body, &end); err != nil {
		return err
	}
	if end.Error != "" {
		return &StreamError{Fault: end.Fault, Message: end.Error}
	}
	if got := hex.EncodeToString(s.sum.Sum(nil)); end.Bytes != s.bytes || end.SHA256 != got {
		return fmt.Errorf("stream is damaged: got %d bytes with SHA-256 %s, want %d with %s", s.bytes, got, end.Bytes, end.SHA256)
	}
	return io.EOF
}
