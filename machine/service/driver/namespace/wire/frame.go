package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Kind says what a frame's body is.
type Kind byte

const (
	KindRequest Kind = 'Q' // Request as JSON, the first frame of a connection
	KindAnswer  Kind = 'A' // Answer as JSON
	KindData    Kind = 'D' // bytes of a stream
	KindEnd     Kind = 'E' // end of a stream: its Sum as JSON
	KindKill    Kind = 'K' // kill the command of this connection; no body
)

// MaxBody bounds the body of a frame, in bytes.
const MaxBody = 4 << 20

const headerLength = 5

// WriteFrame writes one frame with one call of Write.
func WriteFrame(w io.Writer, kind Kind, body []byte) error {
	if len(body) > MaxBody {
		return fmt.Errorf("cannot send a frame of %d bytes: at most %d", len(body), MaxBody)
	}
	frame := make([]byte, headerLength, headerLength+len(body))
	frame[0] = byte(kind)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(body)))
	_, err := w.Write(append(frame, body...))
	return err
}

// ReadFrame reads one frame. io.EOF means that the peer closed before a frame began, io.ErrUnexpectedEOF that it closed
// within one.
func ReadFrame(r io.Reader) (Kind, []byte, error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n > MaxBody {
		return 0, nil, fmt.Errorf("cannot take a frame of %d bytes: at most %d", n, MaxBody)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return Kind(header[0]), body, nil
}

// Send writes v as the JSON body of one frame.
func Send(w io.Writer, kind Kind, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFrame(w, kind, body)
}

// Receive reads one frame, which must be of the kind, into v.
func Receive(r io.Reader, kind Kind, v any) error {
	got, body, err := ReadFrame(r)
	if err != nil {
		return err
	}
	if got != kind {
		return fmt.Errorf("unexpected frame %q, want %q", got, kind)
	}
	return json.Unmarshal(body, v)
}
