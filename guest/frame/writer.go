package frame

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// ErrSourceChanged means that a source held fewer or more bytes than its header announced. The archive is unusable.
var ErrSourceChanged = errors.New("file changed while it was read")

// Writer writes an archive. After an error the archive is unusable and must be thrown away.
type Writer struct {
	w     io.Writer
	bytes int64
}

// NewWriter returns a Writer on w. It does not buffer; nothing has to be flushed or closed.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Bytes is the size of the archive so far.
func (w *Writer) Bytes() int64 { return w.bytes }

// Add writes one entry with the content of source, which must be exactly h.Bytes long (ErrSourceChanged), and returns its
// SHA-256 in hex.
func (w *Writer) Add(h Header, source io.Reader) (string, error) {
	line, err := headerLine(h)
	if err != nil {
		return "", err
	}
	if err := w.write(line); err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.w, sum), io.LimitReader(source, h.Bytes))
	w.bytes += n
	if err != nil {
		return "", fmt.Errorf("cannot archive %q: %w", h.Path, err)
	}
	if n != h.Bytes {
		return "", fmt.Errorf("cannot archive %q: %w", h.Path, ErrSourceChanged)
	}
	if extra, err := io.CopyN(io.Discard, source, 1); extra != 0 || !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("cannot archive %q: %w", h.Path, ErrSourceChanged)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	end, err := jsonLine(trailer{SHA256: digest})
	if err != nil {
		return "", err
	}
	return digest, w.write(end)
}

func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	w.bytes += int64(n)
	if err != nil {
		return fmt.Errorf("cannot write archive: %w", err)
	}
	return nil
}
