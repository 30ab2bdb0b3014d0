package image

import (
	"encoding/binary"
	"hash/crc32"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// pngChunk is one record of a PNG: its type, its data, and the offset of the byte after it.
type pngChunk struct {
	kind string
	data []byte
	next int
}

// readChunk reads the chunk at offset at and checks its checksum.
func readChunk(data []byte, at int) (pngChunk, error) {
	if len(data)-at < 12 {
		return pngChunk{}, unavailable("the PNG is cut off")
	}
	n := binary.BigEndian.Uint32(data[at:])
	if n > 1<<31-1 || int64(n) > int64(len(data)-at-12) {
		return pngChunk{}, unavailable("the PNG is cut off")
	}
	end := at + 8 + int(n)
	if crc32.ChecksumIEEE(data[at+4:end]) != binary.BigEndian.Uint32(data[end:]) {
		return pngChunk{}, unavailable("a PNG chunk has a wrong checksum")
	}
	return pngChunk{kind: string(data[at+4 : at+8]), data: data[at+8 : end], next: end + 4}, nil
}

// pngWalk is what the chunks so far allow.
type pngWalk struct {
	info    Info
	colour  byte
	palette bool
	idat    int // 0 none yet, 1 in the run, 2 the run is over
	pixels  int // bytes of IDAT data
	end     bool
}

func inspectPNG(data []byte) (Info, error) {
	var w pngWalk
	at := len(pngSignature)
	for records := 0; !w.end; records++ {
		if records == maxRecords {
			return Info{}, unavailable("the PNG has more than %d chunks", maxRecords)
		}
		c, err := readChunk(data, at)
		if err != nil {
			return Info{}, err
		}
		if (records == 0) != (c.kind == "IHDR") {
			return Info{}, unavailable("the PNG header is not the first chunk, or not the only one")
		}
		if err := w.chunk(c); err != nil {
			return Info{}, err
		}
		at = c.next
	}
	switch {
	case at != len(data):
		return Info{}, unavailable("bytes follow the end of the PNG")
	case w.pixels == 0:
		return Info{}, unavailable("the PNG has no pixel data")
	case w.colour == 3 && !w.palette:
		return Info{}, unavailable("the PNG needs a palette and has none")
	}
	return w.info, nil
}

func (w *pngWalk) chunk(c pngChunk) error {
	if w.idat == 1 && c.kind != "IDAT" {
		w.idat = 2
	}
	switch c.kind {
	case "IHDR":
		return w.header(c.data)
	case "PLTE":
		if w.palette || w.idat != 0 || w.colour == 0 || w.colour == 4 || len(c.data) == 0 || len(c.data)%3 != 0 || len(c.data) > 768 {
			return unavailable("the PNG palette is wrong or misplaced")
		}
		w.palette = true
	case "IDAT":
		if w.idat == 2 {
			return unavailable("the PNG pixel data is not in one piece")
		}
		w.idat, w.pixels = 1, w.pixels+len(c.data)
	case "IEND":
		if len(c.data) != 0 {
			return unavailable("the PNG end chunk is not empty")
		}
		w.end = true
	case "acTL", "fcTL", "fdAT":
		return unavailable("animated PNG is not accepted")
	case "tRNS":
		return w.transparency(c.data)
	default:
		return checkAncillary(c.kind)
	}
	return nil
}

// transparency holds tRNS to the place and length its colour type gives it.
func (w *pngWalk) transparency(data []byte) error {
	legal := map[byte]bool{0: len(data) == 2, 2: len(data) == 6, 3: w.palette && len(data) >= 1 && len(data) <= 256}
	if w.idat != 0 || !legal[w.colour] {
		return unavailable("the PNG transparency is wrong or misplaced")
	}
	return nil
}

// checkAncillary accepts any chunk that a reader may ignore. Compressed text and profiles are never inflated.
func checkAncillary(kind string) error {
	for _, c := range []byte(kind) {
		if c < 'A' || c > 'z' || (c > 'Z' && c < 'a') {
			return unavailable("a PNG chunk has an illegal type")
		}
	}
	if kind[0]&0x20 == 0 {
		return unavailable("the PNG has an unknown critical chunk %s", kind)
	}
	return nil
}

func (w *pngWalk) header(data []byte) error {
	if len(data) != 13 {
		return unavailable("the PNG header has %d bytes, not 13", len(data))
	}
	width, height := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
	depth, colour := data[8], data[9]
	legal := map[byte]string{0: "\x01\x02\x04\x08\x10", 2: "\x08\x10", 3: "\x01\x02\x04\x08", 4: "\x08\x10", 6: "\x08\x10"}
	ok := false
	for _, d := range []byte(legal[colour]) {
		ok = ok || d == depth
	}
	switch {
	case !ok:
		return unavailable("the PNG has an illegal depth %d for colour type %d", depth, colour)
	case data[10] != 0 || data[11] != 0 || data[12] > 1:
		return unavailable("the PNG has an unknown compression, filter or interlace method")
	case width > MaxSide || height > MaxSide:
		return unavailable("the PNG is %d x %d, over %d a side", width, height, MaxSide)
	}
	w.colour = colour
	w.info = Info{MimeType: "image/png", Width: int(width), Height: int(height)}
	return checkSides(w.info.Width, w.info.Height)
}
