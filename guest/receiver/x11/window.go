package x11

import (
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// Colours of the demonstration window, as 0xRRGGBB.
const (
	windowGround = 0x20304a
	windowText   = 0xffffff
)

var windowBands = []uint32{0xe4572e, 0xf3a712, 0xa8c686, 0x669bbc}

// Window opens a plain window with coloured bands and a line of text on display, and keeps it until the display goes. It is
// for a first look at a guest: it needs no program of the image. The text is cut to 80 bytes.
func Window(display, text string) error {
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		return fmt.Errorf("cannot reach the display %q: %w", display, err)
	}
	defer conn.Close()
	w, err := openWindow(conn)
	if err != nil {
		return err
	}
	for {
		ev, xerr := conn.WaitForEvent()
		if ev == nil && xerr == nil {
			return nil // the display has gone, and the window with it
		}
		if _, ok := ev.(xproto.ExposeEvent); ok {
			w.draw(conn, text)
		}
	}
}

type window struct {
	id            xproto.Window
	gc            xproto.Gcontext
	width, height uint16
	font          bool
}

func openWindow(conn *xgb.Conn) (*window, error) {
	screen := xproto.Setup(conn).DefaultScreen(conn)
	w := &window{width: screen.WidthInPixels / 2, height: screen.HeightInPixels / 2}
	var err error
	if w.id, err = xproto.NewWindowId(conn); err != nil {
		return nil, fmt.Errorf("cannot make a window: %w", err)
	}
	err = xproto.CreateWindowChecked(conn, screen.RootDepth, w.id, screen.Root,
		int16(screen.WidthInPixels/4), int16(screen.HeightInPixels/4), w.width, w.height, 0,
		xproto.WindowClassInputOutput, screen.RootVisual, xproto.CwBackPixel|xproto.CwEventMask,
		[]uint32{windowGround, xproto.EventMaskExposure}).Check()
	if err != nil {
		return nil, fmt.Errorf("cannot make a window: %w", err)
	}
	if w.gc, err = xproto.NewGcontextId(conn); err != nil {
		return nil, fmt.Errorf("cannot draw: %w", err)
	}
	mask, values := uint32(xproto.GcForeground|xproto.GcBackground), []uint32{windowText, windowGround}
	// A server without fonts still shows the bands.
	if font, ferr := xproto.NewFontId(conn); ferr == nil && xproto.OpenFontChecked(conn, font, uint16(len("fixed")), "fixed").Check() == nil {
		w.font = true
		mask |= xproto.GcFont
		values = append(values, uint32(font))
	}
	if err := xproto.CreateGCChecked(conn, w.gc, xproto.Drawable(w.id), mask, values).Check(); err != nil {
		return nil, fmt.Errorf("cannot draw: %w", err)
	}
	if err := xproto.MapWindowChecked(conn, w.id).Check(); err != nil {
		return nil, fmt.Errorf("cannot show the window: %w", err)
	}
	return w, nil
}

func (w *window) draw(conn *xgb.Conn, text string) {
	band := w.height / uint16(2*len(windowBands))
	for i, colour := range windowBands {
		xproto.ChangeGC(conn, w.gc, xproto.GcForeground, []uint32{colour})
		xproto.PolyFillRectangle(conn, xproto.Drawable(w.id), w.gc,
			[]xproto.Rectangle{{X: 0, Y: int16(w.height/2 + uint16(i)*band), Width: w.width, Height: band}})
	}
	if !w.font {
		return
	}
	if len(text) > 80 {
		text = text[:80]
	}
	xproto.ChangeGC(conn, w.gc, xproto.GcForeground, []uint32{windowText})
	xproto.ImageText8(conn, byte(len(text)), xproto.Drawable(w.id), w.gc, 40, int16(w.height/4), text)
}
