package x11

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// ErrNoDisplay means that there is no display to photograph: none was named, or no X server answers there.
var ErrNoDisplay = errors.New("no X display")

// Shot is one photograph.
type Shot struct {
	PNG           []byte
	Width, Height int
	Blank         bool // every pixel has the same colour
}

// quiet keeps xgb's package-wide logger off stderr, which belongs to the caller.
var quiet = sync.OnceFunc(func() { xgb.Logger.SetOutput(io.Discard) })

// Capture photographs display, as DISPLAY spells it. It returns when ctx ends, whatever the X server does.
func Capture(ctx context.Context, display string) (Shot, error) {
	if display == "" {
		return Shot{}, fmt.Errorf("cannot capture the screen: %w is set for this session", ErrNoDisplay)
	}
	quiet()
	type answer struct {
		shot Shot
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		shot, err := capture(ctx, display)
		done <- answer{shot, err}
	}()
	select {
	case a := <-done:
		if a.err != nil {
			return Shot{}, fmt.Errorf("cannot capture display %s: %w", display, a.err)
		}
		return a.shot, nil
	case <-ctx.Done():
		return Shot{}, fmt.Errorf("cannot capture display %s: the X server did not answer in time: %w", display, context.Cause(ctx))
	}
}

// capture does the work; closing the connection when ctx ends unblocks it.
func capture(ctx context.Context, display string) (Shot, error) {
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		return Shot{}, fmt.Errorf("%w: %w", ErrNoDisplay, err)
	}
	closing := sync.OnceFunc(conn.Close)
	defer closing()
	defer context.AfterFunc(ctx, closing)()

	setup := xproto.Setup(conn)
	if conn.DefaultScreen >= len(setup.Roots) {
		return Shot{}, fmt.Errorf("%w: the X server has no screen %d", ErrNoDisplay, conn.DefaultScreen)
	}
	screen := setup.DefaultScreen(conn)
	layout, err := layoutOf(setup, screen)
	if err != nil {
		return Shot{}, err
	}
	data, release, err := fetch(conn, screen, layout)
	if err != nil {
		return Shot{}, err
	}
	defer release()
	return encode(data, layout)
}

// fetch reads the root window's pixels, by shared memory where the server and this process share any, else over the socket.
// The data is valid until release.
func fetch(conn *xgb.Conn, screen *xproto.ScreenInfo, l layout) (data []byte, release func(), err error) {
	if data, release, err := fetchShared(conn, screen.Root, l); err == nil {
		return data, release, nil
	}
	reply, err := xproto.GetImage(conn, xproto.ImageFormatZPixmap, xproto.Drawable(screen.Root),
		0, 0, uint16(l.width), uint16(l.height), allPlanes).Reply()
	if err != nil {
		return nil, nil, fmt.Errorf("the X server did not give the picture: %w", err)
	}
	if len(reply.Data) < l.stride*l.height {
		return nil, nil, fmt.Errorf("the X server gave %d bytes where a picture has %d", len(reply.Data), l.stride*l.height)
	}
	return reply.Data, func() {}, nil
}

const allPlanes = 0xffffffff
