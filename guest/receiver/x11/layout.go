package x11

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/jezek/xgb/xproto"
)

// layout says how the server lays pixels out in memory.
type layout struct {
	width, height int
	stride        int // bytes of a row
	size          int // bytes of a pixel: 2, 3 or 4
	order         binary.ByteOrder
	red           channel
	green         channel
	blue          channel
}

// channel is one colour's place in a pixel.
type channel struct {
	mask  uint32
	shift int
	top   uint32 // largest value
}

func newChannel(mask uint32) channel {
	shift := bits.TrailingZeros32(mask)
	return channel{mask: mask, shift: shift, top: mask >> shift}
}

// level is the channel of pixel on a scale to 255.
func (c channel) level(pixel uint32) byte {
	v := pixel & c.mask >> c.shift
	if c.top == 0xff {
		return byte(v)
	}
	return byte((v*255 + c.top/2) / c.top)
}

// layoutOf reads the layout of screen, or says why its pixels cannot be read without loss.
func layoutOf(setup *xproto.SetupInfo, screen *xproto.ScreenInfo) (layout, error) {
	l := layout{width: int(screen.WidthInPixels), height: int(screen.HeightInPixels), order: binary.LittleEndian}
	if setup.ImageByteOrder == xproto.ImageOrderMSBFirst {
		l.order = binary.BigEndian
	}
	for _, format := range setup.PixmapFormats {
		if format.Depth == screen.RootDepth {
			l.size = int(format.BitsPerPixel) / 8
			pad := int(format.ScanlinePad)
			l.stride = (l.width*int(format.BitsPerPixel) + pad - 1) / pad * pad / 8
		}
	}
	visual, found := visualOf(screen)
	switch {
	case l.size < 2 || l.size > 4 || l.width == 0 || l.height == 0:
		return layout{}, fmt.Errorf("a screen of %dx%d with depth %d cannot be read", l.width, l.height, screen.RootDepth)
	case !found || (visual.Class != xproto.VisualClassTrueColor && visual.Class != xproto.VisualClassDirectColor),
		visual.RedMask == 0, visual.GreenMask == 0, visual.BlueMask == 0,
		max(bits.OnesCount32(visual.RedMask), bits.OnesCount32(visual.GreenMask), bits.OnesCount32(visual.BlueMask)) > 8:
		return layout{}, fmt.Errorf("a screen of depth %d without 8-bit true colours cannot be read", screen.RootDepth)
	}
	l.red, l.green, l.blue = newChannel(visual.RedMask), newChannel(visual.GreenMask), newChannel(visual.BlueMask)
	return l, nil
}

func visualOf(screen *xproto.ScreenInfo) (xproto.VisualInfo, bool) {
	for _, depth := range screen.AllowedDepths {
		for _, visual := range depth.Visuals {
			if visual.VisualId == screen.RootVisual {
				return visual, true
			}
		}
	}
	return xproto.VisualInfo{}, false
}

// row writes one row of pixels as red, green and blue bytes to out, which holds 3*width.
func (l layout) row(out, data []byte) {
	if l.usual() {
		for i, o := 0, 0; o < len(out); i, o = i+4, o+3 {
			out[o], out[o+1], out[o+2] = data[i+2], data[i+1], data[i]
		}
		return
	}
	for x := range l.width {
		p := l.pixel(data[x*l.size:])
		out[3*x], out[3*x+1], out[3*x+2] = l.red.level(p), l.green.level(p), l.blue.level(p)
	}
}

// usual is the layout of nearly every server: blue, green, red and a byte unused.
func (l layout) usual() bool {
	return l.size == 4 && l.order == binary.ByteOrder(binary.LittleEndian) &&
		l.red.mask == 0xff0000 && l.green.mask == 0xff00 && l.blue.mask == 0xff
}

func (l layout) pixel(data []byte) uint32 {
	switch l.size {
	case 2:
		return uint32(l.order.Uint16(data))
	case 4:
		return l.order.Uint32(data)
	}
	if l.order == binary.ByteOrder(binary.BigEndian) {
		return uint32(data[0])<<16 | uint32(data[1])<<8 | uint32(data[2])
	}
	return uint32(data[2])<<16 | uint32(data[1])<<8 | uint32(data[0])
}
