package image

import "encoding/binary"

// webpWalk is what the chunks so far said.
type webpWalk struct {
	extended bool
	canvas   Info
	frame    Info
	frames   int
}

// inspectWebP walks the RIFF chunks: exact lengths, no animation, one frame, which fills the canvas.
func inspectWebP(data []byte) (Info, error) {
	if len(data) < 20 || int64(binary.LittleEndian.Uint32(data[4:])) != int64(len(data)-8) || len(data)%2 != 0 {
		return Info{}, unavailable("the WebP length is wrong")
	}
	var w webpWalk
	at := 12
	for records := 0; at < len(data); records++ {
		if records == maxRecords {
			return Info{}, unavailable("the WebP has more than %d chunks", maxRecords)
		}
		if len(data)-at < 8 {
			return Info{}, unavailable("the WebP is cut off")
		}
		n := int64(binary.LittleEndian.Uint32(data[at+4:]))
		padded := n + n%2
		if padded > int64(len(data)-at-8) || (n%2 == 1 && data[at+8+int(n)] != 0) {
			return Info{}, unavailable("a WebP chunk has a wrong length")
		}
		if err := w.chunk(string(data[at:at+4]), data[at+8:at+8+int(n)], records == 0); err != nil {
			return Info{}, err
		}
		at += 8 + int(padded)
	}
	return w.finish()
}

func (w *webpWalk) finish() (Info, error) {
	switch {
	case w.frames != 1:
		return Info{}, unavailable("the WebP has %d pictures, not one", w.frames)
	case w.extended && (w.canvas.Width != w.frame.Width || w.canvas.Height != w.frame.Height):
		return Info{}, unavailable("the WebP picture does not fill its canvas")
	}
	return w.frame, nil
}

func (w *webpWalk) chunk(kind string, body []byte, first bool) error {
	switch kind {
	case "VP8X":
		return w.header(body, first)
	case "VP8 ", "VP8L":
		w.frames++
		frame, err := webpFrame(kind, body)
		w.frame = frame
		if err == nil && !first && !w.extended {
			err = unavailable("the WebP has chunks before its picture")
		}
		return err
	case "ANIM", "ANMF":
		return unavailable("animated WebP is not accepted")
	}
	if !w.extended {
		return unavailable("the WebP has a chunk %q that its form does not allow", kind)
	}
	return nil
}

func (w *webpWalk) header(body []byte, first bool) error {
	switch {
	case !first || len(body) != 10:
		return unavailable("the WebP header is misplaced or has a wrong length")
	case body[0]&0x02 != 0:
		return unavailable("animated WebP is not accepted")
	case body[0]&0xc1 != 0 || body[1]|body[2]|body[3] != 0:
		return unavailable("the WebP header has reserved bits set")
	}
	w.extended = true
	w.canvas.Width, w.canvas.Height = uint24(body[4:])+1, uint24(body[7:])+1
	return checkSides(w.canvas.Width, w.canvas.Height)
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

func webpFrame(kind string, body []byte) (Info, error) {
	info := Info{MimeType: "image/webp"}
	switch {
	case kind == "VP8 " && len(body) >= 10 && body[0]&1 == 0 && string(body[3:6]) == "\x9d\x01\x2a":
		info.Width = int(binary.LittleEndian.Uint16(body[6:]) & 0x3fff)
		info.Height = int(binary.LittleEndian.Uint16(body[8:]) & 0x3fff)
	case kind == "VP8L" && len(body) >= 5 && body[0] == 0x2f && body[4]>>5 == 0:
		bits := binary.LittleEndian.Uint32(body[1:])
		info.Width, info.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	default:
		return Info{}, unavailable("the WebP picture has a wrong header")
	}
	return info, checkSides(info.Width, info.Height)
}
