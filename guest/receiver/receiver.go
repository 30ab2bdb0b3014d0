package receiver

import (
	"context"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Picture is one capture of the screen, as a whole PNG file.
type Picture struct {
	PNG   []byte
	Blank bool // one colour all over
}

// Capturer takes pictures of the screen.
type Capturer interface {
	Capture(ctx context.Context) (Picture, error)
}

// Options of Run. The zero value is a receiver without a display.
type Options struct {
	Display    string             // X display of CaptureX11
	Executable string             // the runtime itself, started as a drain for output that leftovers still hold; "" starts none
	Capturer   Capturer           // instead of the one the request names
	Now        func() time.Time   // nil: time.Now
	Hook       func(point string) // nil: nothing; called after each durable point, in order
}

// Run admits the request file and carries it out at most once. It returns the receipt, and the path of the receipt file
// where one exists: there is none for a request without a usable id, for one whose run is still going on, and when the disk
// refused it. The error is for a root that cannot be used at all; then nothing ran.
func Run(ctx context.Context, root, requestPath string, opt Options) (receipt protocol.Receipt, written string, err error) {
	return protocol.Receipt{}, "", failure(protocol.CodeIO, "", "the receiver is not here yet")
}

// bounded cuts text to at most limit bytes, between characters.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xc0 == 0x80 {
		limit--
	}
	return text[:limit]
}
