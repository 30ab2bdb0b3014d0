package receiver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// stream takes one output stream of a script: it keeps the first and the last StreamKept bytes in memory, and the first
// StreamFileMax in a file, which survives the death of the receiver. It never refuses bytes, so that a script is never held
// up or killed for what it prints. Use from one goroutine.
type stream struct {
	path  string // of the file
	name  string // of the file, relative to state/
	head  []byte
	tail  []byte // at most 2*StreamKept; the last StreamKept count
	total int64
	saved int64
	sum   hash.Hash
	file  *os.File
	fault error // of the file; what follows it is not saved
}

func newStream(path, name string) *stream {
	return &stream{path: path, name: name, sum: sha256.New()}
}

// Write never fails.
func (s *stream) Write(p []byte) (int, error) {
	n := len(p)
	s.total += int64(n)
	s.save(p)
	room := min(protocol.StreamKept-len(s.head), n)
	s.head = append(s.head, p[:room]...)
	s.keep(p[room:])
	return n, nil
}

func (s *stream) keep(p []byte) {
	if len(p) > protocol.StreamKept {
		p = p[len(p)-protocol.StreamKept:]
	}
	if len(s.tail)+len(p) > 2*protocol.StreamKept {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-protocol.StreamKept:]...)
	}
	s.tail = append(s.tail, p...)
}

func (s *stream) save(p []byte) {
	p = p[:min(int64(len(p)), protocol.StreamFileMax-s.saved)]
	if s.fault != nil || len(p) == 0 {
		return
	}
	if s.file == nil {
		s.file, s.fault = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if s.fault != nil {
			return
		}
	}
	n, err := s.file.Write(p)
	s.sum.Write(p[:n])
	s.saved += int64(n)
	s.fault = err
}

// finish ends the stream: the text for the receipt, and what there is beyond it, or nil when the text is the whole. The file
// is durable, or gone when nobody needs it. The error says why the file lacks bytes it should have.
func (s *stream) finish() (string, *protocol.Stream, error) {
	text, omitted, whole := s.text()
	if whole {
		return text, nil, s.discard()
	}
	beyond := &protocol.Stream{Bytes: s.total, Omitted: omitted}
	if s.file == nil {
		return text, beyond, s.problem()
	}
	err := s.file.Sync()
	if s.fault == nil {
		s.fault = err
	}
	for _, err := range []error{s.file.Close(), syncDir(filepath.Dir(s.path))} {
		if s.fault == nil {
			s.fault = err
		}
	}
	beyond.Path, beyond.Saved, beyond.SHA256 = s.name, s.saved, hex.EncodeToString(s.sum.Sum(nil))
	return text, beyond, s.problem()
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *stream) problem() error {
	if s.fault == nil {
		return nil
	}
	return fmt.Errorf("cannot save the whole of %s: %w", s.name, s.fault)
}

// discard removes the file of a stream that fits its text. A full disk does not matter then.
func (s *stream) discard() error {
	if s.file == nil {
		return nil
	}
	if err := errors.Join(s.file.Close(), os.Remove(s.path)); err != nil {
		return fmt.Errorf("cannot remove %s: %w", s.name, err)
	}
	return nil
}

// text is the stream as a receipt shows it. It is whole when the very bytes can be had back from it.
func (s *stream) text() (text string, omitted int64, whole bool) {
	tail := s.tail[max(0, len(s.tail)-protocol.StreamKept):]
	omitted = s.total - int64(len(s.head)+len(tail))
	if omitted == 0 {
		all := string(s.head) + string(tail)
		return strings.ToValidUTF8(all, "\uFFFD"), 0, utf8.ValidString(all)
	}
	head := wholeStart(s.head)
	end := wholeEnd(tail)
	omitted += int64(len(s.head) - len(head) + len(tail) - len(end))
	note := fmt.Sprintf("\n[... %d bytes left out ...]\n", omitted)
	return strings.ToValidUTF8(string(head)+note+string(end), "\uFFFD"), omitted, false
}

// wholeStart drops a character that is cut off at the end of b.
func wholeStart(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

// wholeEnd drops the rest of a character that was cut off at the start of b.
func wholeEnd(b []byte) []byte {
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
