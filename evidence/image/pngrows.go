package image

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
)

// eachRow decodes a PNG that Inspect accepted and hands out its rows, top to bottom, as R, G, B, A bytes without
// premultiplication; 16-bit samples keep their high byte. The row is reused. Pixel data that is short, long or damaged is a
// *Error with PresentationUnavailable, perhaps after rows were handed out.
func eachRow(data []byte, row func(rgba []byte)) error {
	d := newPNGRows(data)
	z, err := zlib.NewReader(d.in)
	if err != nil {
		return badPixels(err)
	}
	d.pixels = z
	if d.interlaced {
		err = d.adam7(row)
	} else {
		err = d.pass(d.width, d.height, func(_ int, rgba []byte) { row(rgba) })
	}
	if err != nil {
		return badPixels(err)
	}
	if n, err := io.ReadFull(z, make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return badPixels(errors.Join(errors.New("it does not end after the last row"), err))
	}
	return nil
}

func badPixels(err error) error {
	return &Error{Status: PresentationUnavailable, Why: "the PNG pixel data is damaged", Err: err}
}

// pngRows decodes the pixels of one PNG.
type pngRows struct {
	width, height int
	depth, colour byte
	interlaced    bool
	palette       []byte
	clear         []byte // tRNS
	in            *idatReader
	pixels        io.Reader
}

func newPNGRows(data []byte) *pngRows {
	d := &pngRows{in: &idatReader{data: data, at: len(pngSignature)}}
	for at := len(pngSignature); at+8 < len(data); {
		n := int(binary.BigEndian.Uint32(data[at:]))
		body := data[at+8 : at+8+n]
		switch string(data[at+4 : at+8]) {
		case "IHDR":
			d.width, d.height = int(binary.BigEndian.Uint32(body)), int(binary.BigEndian.Uint32(body[4:]))
			d.depth, d.colour, d.interlaced = body[8], body[9], body[12] == 1
		case "PLTE":
			d.palette = body
		case "tRNS":
			d.clear = body
		}
		at += 12 + n
	}
	return d
}

// bits of one pixel in the file.
func (d *pngRows) bits() int {
	samples := map[byte]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
	return samples[d.colour] * int(d.depth)
}

// pass decodes height rows of width pixels, which is the whole picture or one pass of an interlaced one.
func (d *pngRows) pass(width, height int, row func(y int, rgba []byte)) error {
	if width == 0 || height == 0 {
		return nil
	}
	n, unit := (width*d.bits()+7)/8, max(1, d.bits()/8)
	line, above := make([]byte, n+1), make([]byte, n+1)
	rgba := make([]byte, 4*width)
	for y := range height {
		if _, err := io.ReadFull(d.pixels, line); err != nil {
			return err
		}
		if err := unfilter(line[0], line[1:], above[1:], unit); err != nil {
			return err
		}
		if err := d.expand(rgba, line[1:]); err != nil {
			return err
		}
		row(y, rgba)
		line, above = above, line
	}
	return nil
}

// adam7 decodes the seven passes into a raster and hands out its rows.
func (d *pngRows) adam7(row func(rgba []byte)) error {
	raster := make([]byte, 4*d.width*d.height)
	for _, p := range [...]struct{ x, y, dx, dy int }{
		{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2},
	} {
		width, height := (d.width-p.x+p.dx-1)/p.dx, (d.height-p.y+p.dy-1)/p.dy
		err := d.pass(width, height, func(y int, rgba []byte) {
			to := 4 * ((p.y+y*p.dy)*d.width + p.x)
			for ; len(rgba) > 0; rgba, to = rgba[4:], to+4*p.dx {
				copy(raster[to:to+4], rgba)
			}
		})
		if err != nil {
			return err
		}
	}
	for y := range d.height {
		row(raster[4*d.width*y : 4*d.width*(y+1)])
	}
	return nil
}

// unfilter undoes a row's filter in place; above is the unfiltered row before it, zeros for the first of a pass.
func unfilter(kind byte, line, above []byte, unit int) error {
	for i := range line {
		var left, corner byte
		if i >= unit {
			left, corner = line[i-unit], above[i-unit]
		}
		switch kind {
		case 0:
			return nil
		case 1:
			line[i] += left
		case 2:
			line[i] += above[i]
		case 3:
			line[i] += byte((int(left) + int(above[i])) / 2)
		case 4:
			line[i] += paeth(left, above[i], corner)
		default:
			return errors.New("a row has an unknown filter")
		}
	}
	return nil
}

func paeth(left, above, corner byte) byte {
	p := int(left) + int(above) - int(corner)
	dl, da, dc := abs(p-int(left)), abs(p-int(above)), abs(p-int(corner))
	switch {
	case dl <= da && dl <= dc:
		return left
	case da <= dc:
		return above
	}
	return corner
}

func abs(n int) int { return max(n, -n) }

// expand turns an unfiltered row into R, G, B, A bytes.
func (d *pngRows) expand(rgba, line []byte) error {
	switch d.colour {
	case 0:
		d.expandGrey(rgba, line)
	case 2:
		d.expandRGB(rgba, line)
	case 3:
		return d.expandPalette(rgba, line)
	case 4:
		step := int(d.depth) / 8
		for x := 0; x < len(rgba); x, line = x+4, line[2*step:] {
			rgba[x], rgba[x+1], rgba[x+2], rgba[x+3] = line[0], line[0], line[0], line[step]
		}
	case 6:
		step := int(d.depth) / 8
		for x := 0; x < len(rgba); x, line = x+4, line[4*step:] {
			rgba[x], rgba[x+1], rgba[x+2], rgba[x+3] = line[0], line[step], line[2*step], line[3*step]
		}
	}
	return nil
}

func (d *pngRows) expandGrey(rgba, line []byte) {
	for x := 0; x < len(rgba); x += 4 {
		var sample uint16
		var v byte
		switch {
		case d.depth == 16:
			sample = binary.BigEndian.Uint16(line[x/2:])
			v = byte(sample >> 8)
		default:
			sample = uint16(d.packed(line, x/4))
			v = byte(int(sample) * 255 / (1<<d.depth - 1))
		}
		rgba[x], rgba[x+1], rgba[x+2], rgba[x+3] = v, v, v, 255
		if len(d.clear) == 2 && sample == binary.BigEndian.Uint16(d.clear) {
			rgba[x+3] = 0
		}
	}
}

func (d *pngRows) expandRGB(rgba, line []byte) {
	step := int(d.depth) / 8
	for x := 0; x < len(rgba); x, line = x+4, line[3*step:] {
		rgba[x], rgba[x+1], rgba[x+2], rgba[x+3] = line[0], line[step], line[2*step], 255
		if len(d.clear) == 6 && d.isClear(line[:3*step]) {
			rgba[x+3] = 0
		}
	}
}

// isClear compares an RGB pixel with the colour that tRNS makes transparent, which has 16 bits a sample at every depth.
func (d *pngRows) isClear(pixel []byte) bool {
	if d.depth == 16 {
		return bytes.Equal(pixel, d.clear)
	}
	for i, v := range pixel {
		if d.clear[2*i] != 0 || d.clear[2*i+1] != v {
			return false
		}
	}
	return true
}

func (d *pngRows) expandPalette(rgba, line []byte) error {
	for x := 0; x < len(rgba); x += 4 {
		i := int(d.packed(line, x/4))
		if 3*i+3 > len(d.palette) {
			return errors.New("a pixel has a colour the palette does not hold")
		}
		copy(rgba[x:], d.palette[3*i:3*i+3])
		rgba[x+3] = 255
		if i < len(d.clear) {
			rgba[x+3] = d.clear[i]
		}
	}
	return nil
}

// packed reads the sample of at most 8 bits at pixel x.
func (d *pngRows) packed(line []byte, x int) byte {
	if d.depth == 8 {
		return line[x]
	}
	bit := x * int(d.depth)
	return line[bit/8] >> (8 - int(d.depth) - bit%8) & (1<<d.depth - 1)
}

// idatReader reads the IDAT data of a checked PNG as one stream. It reads no byte ahead.
type idatReader struct {
	data []byte
	at   int // of the next chunk
	rest []byte
}

func (r *idatReader) fill() error {
	for len(r.rest) == 0 {
		if r.at+8 > len(r.data) {
			return io.EOF
		}
		n := int(binary.BigEndian.Uint32(r.data[r.at:]))
		if string(r.data[r.at+4:r.at+8]) == "IDAT" {
			r.rest = r.data[r.at+8 : r.at+8+n]
		}
		r.at += 12 + n
	}
	return nil
}

func (r *idatReader) Read(p []byte) (int, error) {
	if err := r.fill(); err != nil {
		return 0, err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *idatReader) ReadByte() (byte, error) {
	if err := r.fill(); err != nil {
		return 0, err
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b, nil
}
