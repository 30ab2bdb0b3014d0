package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"slices"
	"testing"
)

// chunk renders one PNG chunk.
func chunk(kind string, data []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	out = append(append(out, kind...), data...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:]))
}

// insert puts chunks after the PNG header, before everything else.
func insert(data []byte, chunks ...[]byte) []byte {
	return slices.Insert(slices.Clone(data), len(pngSignature)+25, slices.Concat(chunks...)...)
}

// beforeEnd puts chunks before IEND.
func beforeEnd(data []byte, chunks ...[]byte) []byte {
	return slices.Insert(slices.Clone(data), len(data)-12, slices.Concat(chunks...)...)
}

// header makes a PNG header for dimensions that no test could afford.
func header(width, height uint32, depth, colour, interlace byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, width)
	b = binary.BigEndian.AppendUint32(b, height)
	return append(b, depth, colour, 0, 0, interlace)
}

func encodePNG(t testing.TB, img image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func plain(width, height int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = byte(i * 7)
		if i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	return img
}

func encodeJPEG(t testing.TB, width, height int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := jpeg.Encode(&out, plain(width, height), nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// riff renders a WebP of chunks.
func riff(chunks ...[]byte) []byte {
	body := append([]byte("WEBP"), slices.Concat(chunks...)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func riffChunk(kind string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(kind), uint32(len(data)))
	out = append(out, data...)
	if len(data)%2 == 1 {
		out = append(out, 0)
	}
	return out
}

// vp8l is the head of a lossless frame; its pixels are never decoded.
func vp8l(width, height int) []byte {
	bits := uint32(width-1) | uint32(height-1)<<14
	return riffChunk("VP8L", append(binary.LittleEndian.AppendUint32([]byte{0x2f}, bits), 0, 0, 0))
}

func vp8(width, height int) []byte {
	b := []byte{0, 0, 0, 0x9d, 1, 0x2a}
	b = binary.LittleEndian.AppendUint16(b, uint16(width))
	b = binary.LittleEndian.AppendUint16(b, uint16(height))
	return riffChunk("VP8 ", append(b, 0, 0))
}

func vp8x(flags byte, width, height int) []byte {
	w, h := width-1, height-1
	return riffChunk("VP8X", []byte{flags, 0, 0, 0, byte(w), byte(w >> 8), byte(w >> 16), byte(h), byte(h >> 8), byte(h >> 16)})
}

func TestInspectAccepts(t *testing.T) {
	small := encodePNG(t, plain(3, 2))
	tests := []struct {
		name string
		data []byte
		want Info
	}{
		{"PNG", small, Info{"image/png", 3, 2}},
		{"PNG with profile and texts", insert(small, chunk("iCCP", []byte("x\x00\x00junk")), chunk("iTXt", []byte("k")), chunk("zTXt", []byte("k\x00\x00"))), Info{"image/png", 3, 2}},
		{"JPEG", encodeJPEG(t, 20, 10), Info{"image/jpeg", 20, 10}},
		{"JPEG with a comment", slices.Insert(encodeJPEG(t, 20, 10), 2, 0xff, 0xfe, 0, 4, 'h', 'i'), Info{"image/jpeg", 20, 10}},
		{"WebP lossy", riff(vp8(8, 6)), Info{"image/webp", 8, 6}},
		{"WebP lossless", riff(vp8l(8, 6)), Info{"image/webp", 8, 6}},
		{"WebP extended", riff(vp8x(0x10, 8, 6), riffChunk("ALPH", []byte{1}), vp8(8, 6), riffChunk("EXIF", []byte("xx"))), Info{"image/webp", 8, 6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := Inspect(tt.data); err != nil || got != tt.want {
				t.Errorf("Inspect = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestInspectRefuses(t *testing.T) {
	small := encodePNG(t, plain(3, 2))
	photo := encodeJPEG(t, 20, 10)
	flood := insert(small, slices.Repeat(chunk("tEXt", nil), maxRecords))
	pngOf := func(chunks ...[]byte) []byte { return append([]byte(pngSignature), slices.Concat(chunks...)...) }
	flipped := slices.Clone(small)
	flipped[len(flipped)-20] ^= 1
	idat := chunk("IDAT", []byte("x"))
	end := chunk("IEND", nil)
	tests := []struct {
		name string
		data []byte
	}{
		{"nothing", nil},
		{"text", []byte("hello, this is no picture")},
		{"GIF", []byte("GIF89a.............")},
		{"bytes after the PNG", append(slices.Clone(small), 0)},
		{"PNG checksum", flipped},
		{"PNG record flood", flood},
		{"animated PNG", insert(small, chunk("acTL", make([]byte, 8)))},
		{"PNG frame data", beforeEnd(small, chunk("fdAT", nil))},
		{"unknown critical chunk", insert(small, chunk("ABCD", nil))},
		{"illegal chunk type", insert(small, chunk("a1cd", nil))},
		{"second header", insert(small, chunk("IHDR", header(3, 2, 8, 2, 0)))},
		{"header not first", pngOf(chunk("tEXt", nil), chunk("IHDR", header(1, 1, 8, 0, 0)), idat, end)},
		{"pixel data in two pieces", beforeEnd(small, chunk("tEXt", nil), idat)},
		{"no pixel data", pngOf(chunk("IHDR", header(1, 1, 8, 0, 0)), end)},
		{"no palette", pngOf(chunk("IHDR", header(1, 1, 8, 3, 0)), idat, end)},
		{"palette after pixels", pngOf(chunk("IHDR", header(1, 1, 8, 3, 0)), idat, chunk("PLTE", make([]byte, 3)), end)},
		{"palette of a grey picture", pngOf(chunk("IHDR", header(1, 1, 8, 0, 0)), chunk("PLTE", make([]byte, 3)), idat, end)},
		{"transparency of a colour with alpha", pngOf(chunk("IHDR", header(1, 1, 8, 6, 0)), chunk("tRNS", make([]byte, 6)), idat, end)},
		{"depth that a colour type has not", pngOf(chunk("IHDR", header(1, 1, 4, 2, 0)), idat, end)},
		{"unknown interlace", pngOf(chunk("IHDR", header(1, 1, 8, 0, 2)), idat, end)},
		{"side too long", pngOf(chunk("IHDR", header(MaxSide+1, 1, 8, 0, 0)), idat, end)},
		{"too many pixels", pngOf(chunk("IHDR", header(8000, 8000, 8, 0, 0)), idat, end)},
		{"dimension bomb", pngOf(chunk("IHDR", header(1<<31, 1<<31, 8, 0, 0)), idat, end)},
		{"no pixels at all", pngOf(chunk("IHDR", header(0, 1, 8, 0, 0)), idat, end)},
		{"end with content", pngOf(chunk("IHDR", header(1, 1, 8, 0, 0)), idat, chunk("IEND", []byte{0}))},
		{"bytes after the JPEG", append(slices.Clone(photo), 0)},
		{"JPEG without its end", photo[:len(photo)-2]},
		{"JPEG without a frame", []byte{0xff, 0xd8, 0xff, 0xda, 0, 2, 0xff, 0xd9}},
		{"JPEG of nothing", []byte{0xff, 0xd8, 0xff, 0xd9}},
		{"arithmetic JPEG", bytes.Replace(photo, []byte{0xff, 0xc0}, []byte{0xff, 0xc9}, 1)},
		{"12-bit JPEG", bytes.Replace(photo, []byte{0xff, 0xc0, 0, 17, 8}, []byte{0xff, 0xc0, 0, 17, 12}, 1)},
		{"JPEG that names its lines later", slices.Insert(slices.Clone(photo), 2, 0xff, 0xdc, 0, 4, 0, 1)},
		{"animated WebP", riff(vp8x(2, 8, 6), riffChunk("ANIM", make([]byte, 6)))},
		{"WebP frame of an animation", riff(vp8x(0, 8, 6), riffChunk("ANMF", make([]byte, 16)))},
		{"WebP with reserved bits", riff(vp8x(0x80, 8, 6), vp8(8, 6))},
		{"WebP that leaves its canvas", riff(vp8x(0, 8, 6), vp8(8, 5))},
		{"WebP of two pictures", riff(vp8x(0, 8, 6), vp8(8, 6), vp8(8, 6))},
		{"WebP of none", riff(vp8x(0, 8, 6), riffChunk("EXIF", []byte("xx")))},
		{"simple WebP with more chunks", riff(vp8(8, 6), riffChunk("EXIF", []byte("xx")))},
		{"WebP with a wrong length", append(riff(vp8(8, 6)), 0, 0)},
		{"WebP with a broken frame", riff(riffChunk("VP8L", []byte{1, 2, 3, 4, 5, 6}))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info, err := Inspect(tt.data)
			var e *Error
			if !errors.As(err, &e) || e.Status != PresentationUnavailable {
				t.Errorf("Inspect = %+v, %v, want presentation-unavailable", info, err)
			}
		})
	}
}

// TestEveryTruncationIsRefused cuts each format at each byte.
func TestEveryTruncationIsRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"png": encodePNG(t, plain(5, 4)), "jpeg": encodeJPEG(t, 8, 8), "webp": riff(vp8x(0, 8, 6), vp8(8, 6)),
	} {
		for n := range data {
			if _, err := Inspect(data[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes was accepted", name, n, len(data))
			}
		}
	}
}

// FuzzInspect: no bytes make it panic, and what it accepts as PNG can be written chunk by chunk to the same bytes.
func FuzzInspect(f *testing.F) {
	f.Add(encodePNG(f, plain(3, 2)))
	f.Add(encodePNG(f, image.NewPaletted(image.Rect(0, 0, 3, 3), color.Palette{color.Black, color.Transparent})))
	f.Add(encodeJPEG(f, 8, 8))
	f.Add(riff(vp8x(0, 8, 6), vp8(8, 6)))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := Inspect(data)
		if err != nil || info.MimeType != "image/png" {
			return
		}
		again := []byte(pngSignature)
		for at := len(pngSignature); at < len(data); {
			c, err := readChunk(data, at)
			if err != nil {
				t.Fatal(err)
			}
			again, at = append(again, chunk(c.kind, c.data)...), c.next
		}
		if !bytes.Equal(again, data) {
			t.Error("the chunks of an accepted PNG do not make the same file")
		}
		if info.Width*info.Height <= 1<<16 {
			_, _ = Preview(data)
		}
	})
}
