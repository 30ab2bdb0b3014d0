package image

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

func TestPreviewWithinBoundsPassesByteForByte(t *testing.T) {
	for name, data := range map[string][]byte{
		"png": encodePNG(t, plain(2000, 10)), "jpeg": encodeJPEG(t, 20, 10), "webp": riff(vp8(8, 6)), "interlaced": interlaced(t, plain(13, 11)),
	} {
		p, err := Preview(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Transformed || !bytes.Equal(p.Data, data) || p.Bytes != len(data) || p.Width != p.OriginalWidth {
			t.Errorf("%s was changed: %+v", name, p.Transformed)
		}
		data[0] ^= 1
		if bytes.Equal(p.Data, data) {
			t.Errorf("%s: the preview shares the caller's bytes", name)
		}
	}
}

func TestPreviewScalesDown(t *testing.T) {
	tests := []struct {
		name                       string
		width, height, wantW, want int
	}{
		{"wide and high", 2400, 2100, 2000, 1750},
		{"one column", 1, 2500, 1, 2000},
		{"one row", 2500, 1, 2000, 1},
		{"high", 1000, 4000, 500, 2000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			img := image.NewNRGBA(image.Rect(0, 0, tt.width, tt.height))
			for i := range img.Pix {
				img.Pix[i] = 255
			}
			p, err := Preview(encodePNG(t, img))
			if err != nil {
				t.Fatal(err)
			}
			info, err := Inspect(p.Data)
			if err != nil || info.Width != tt.wantW || info.Height != tt.want || p.Width != tt.wantW || p.OriginalWidth != tt.width || !p.Transformed {
				t.Errorf("preview is %+v of %+v, %v, want %d x %d", info, p, err, tt.wantW, tt.want)
			}
			if colour := p.Data[25]; colour != 2 {
				t.Errorf("colour type %d, want RGB for an opaque picture", colour)
			}
			if c := color.NRGBAModel.Convert(decode(t, p.Data).At(0, 0)); c != (color.NRGBA{255, 255, 255, 255}) {
				t.Errorf("white became %v", c)
			}
		})
	}
}

func TestPreviewShrinksUntilItsTextFits(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 1300, 1300))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32())
		if i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	data := encodePNG(t, img)
	p, err := Preview(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := base64.StdEncoding.EncodedLen(len(p.Data)); n > MaxPreviewBase64 || p.Width != 975 || p.Height != 975 {
		t.Errorf("the preview is %d x %d and %d bytes of text", p.Width, p.Height, n)
	}
}

func TestPreviewOfOtherTypesOverTheBounds(t *testing.T) {
	for name, data := range map[string][]byte{"jpeg": encodeJPEG(t, 2001, 10), "webp": riff(vp8(2001, 6))} {
		var e *Error
		if _, err := Preview(data); !errors.As(err, &e) || e.Status != PresentationUnavailable {
			t.Errorf("%s: %v, want presentation-unavailable", name, err)
		}
	}
}

// TestAveragingDoesNotBleedTransparentColours: half of each pixel is opaque red, half transparent green.
func TestAveragingDoesNotBleedTransparentColours(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 4000, 2))
	for x := range 4000 {
		c := color.NRGBA{255, 0, 0, 255}
		if x%2 == 1 {
			c = color.NRGBA{0, 255, 0, 0}
		}
		img.SetNRGBA(x, 0, c)
		img.SetNRGBA(x, 1, c)
	}
	p, err := Preview(encodePNG(t, img))
	if err != nil {
		t.Fatal(err)
	}
	if c := color.NRGBAModel.Convert(decode(t, p.Data).At(7, 0)); c != (color.NRGBA{255, 0, 0, 128}) {
		t.Errorf("averaged to %v, want half-transparent red", c)
	}
}

func decode(t testing.TB, data []byte) image.Image {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestRowsEqualTheStandardDecoder compares our row decoder with the one of the standard library over colour types, depths,
// transparency and sizes, plain and interlaced.
func TestRowsEqualTheStandardDecoder(t *testing.T) {
	legal := map[byte][]byte{0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
	r := rand.New(rand.NewPCG(3, 4))
	for colour, depths := range legal {
		for _, depth := range depths {
			for _, interlace := range []byte{0, 1} {
				for _, clear := range []bool{false, true} {
					data := randomPNG(r, 1+r.IntN(19), 1+r.IntN(19), depth, colour, interlace, clear)
					if _, err := Inspect(data); err != nil {
						t.Fatalf("colour %d depth %d: %v", colour, depth, err)
					}
					compareRows(t, data, decode(t, data))
				}
			}
		}
	}
}

func compareRows(t *testing.T, data []byte, want image.Image) {
	t.Helper()
	y := 0
	err := eachRow(data, func(rgba []byte) {
		for x := range len(rgba) / 4 {
			c := color.NRGBA64Model.Convert(want.At(x, y)).(color.NRGBA64)
			w := []byte{byte(c.R >> 8), byte(c.G >> 8), byte(c.B >> 8), byte(c.A >> 8)}
			got := rgba[4*x : 4*x+4]
			if got[3] != w[3] || got[3] != 0 && !near(got, w) {
				t.Errorf("pixel %d,%d is %v, want %v (header % x)", x, y, got, w, data[16:29])
			}
		}
		y++
	})
	if err != nil || y != want.Bounds().Dy() {
		t.Errorf("%d rows, %v, want %d", y, err, want.Bounds().Dy())
	}
}

// near allows for the standard library's premultiplied colours, whose way back rounds.
func near(a, b []byte) bool {
	for i := range 3 {
		if d := int(a[i]) - int(b[i]); d < -1 || d > 1 {
			return false
		}
	}
	return true
}

// randomPNG renders random pixels with random filters.
func randomPNG(r *rand.Rand, width, height int, depth, colour, interlace byte, clear bool) []byte {
	d := pngRows{depth: depth, colour: colour}
	var raw []byte
	pass := func(w, h int) {
		for range h {
			if w > 0 {
				raw = append(raw, byte(r.IntN(5)))
				for range (w*d.bits() + 7) / 8 {
					raw = append(raw, byte(r.Uint32()))
				}
			}
		}
	}
	if interlace == 0 {
		pass(width, height)
	} else {
		for _, p := range [][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} {
			pass((width-p[0]+p[2]-1)/p[2], (height-p[1]+p[3]-1)/p[3])
		}
	}
	chunks := [][]byte{[]byte(pngSignature), chunk("IHDR", header(uint32(width), uint32(height), depth, colour, interlace))}
	if colour == 3 {
		palette := make([]byte, 3<<depth)
		for i := range palette {
			palette[i] = byte(r.Uint32())
		}
		chunks = append(chunks, chunk("PLTE", palette))
	}
	if n := map[byte]int{0: 2, 2: 6, 3: 1}[colour]; clear && n > 0 {
		chunks = append(chunks, chunk("tRNS", make([]byte, n)))
	}
	return slices.Concat(append(chunks, chunk("IDAT", deflate(raw)), chunk("IEND", nil))...)
}

func deflate(raw []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(raw) // a buffer takes everything
	_ = z.Close()
	return out.Bytes()
}

// interlaced renders img as an interlaced PNG.
func interlaced(t testing.TB, img *image.NRGBA) []byte {
	t.Helper()
	b := img.Bounds()
	return randomPNG(rand.New(rand.NewPCG(5, 6)), b.Dx(), b.Dy(), 8, 6, 1, false)
}

func TestPreviewScalesInterlaced(t *testing.T) {
	p, err := Preview(randomPNG(rand.New(rand.NewPCG(7, 8)), 2100, 20, 8, 2, 1, false))
	if err != nil || p.Width != 2000 || p.Height != 19 {
		t.Errorf("preview is %d x %d, %v", p.Width, p.Height, err)
	}
}

// TestDamagedPixelsAreRefused: the container is sound, what it holds is not.
func TestDamagedPixelsAreRefused(t *testing.T) {
	grey := func(raw []byte) []byte {
		return slices.Concat([]byte(pngSignature), chunk("IHDR", header(2, 2, 8, 0, 0)), chunk("IDAT", raw), chunk("IEND", nil))
	}
	whole := deflate([]byte{0, 1, 2, 0, 3, 4})
	sum := slices.Clone(whole)
	sum[len(sum)-1] ^= 1
	tests := []struct {
		name string
		data []byte
	}{
		{"no stream", grey([]byte("xx"))},
		{"a row short", grey(deflate([]byte{0, 1, 2}))},
		{"a byte long", grey(deflate([]byte{0, 1, 2, 0, 3, 4, 5}))},
		{"cut stream", grey(whole[:len(whole)-4])},
		{"wrong sum", grey(sum)},
		{"unknown filter", grey(deflate([]byte{9, 1, 2, 0, 3, 4}))},
		{"colour beyond the palette", slices.Concat([]byte(pngSignature), chunk("IHDR", header(1, 1, 8, 3, 0)),
			chunk("PLTE", make([]byte, 3)), chunk("IDAT", deflate([]byte{0, 1})), chunk("IEND", nil))},
	}
	if _, err := Preview(grey(whole)); err != nil {
		t.Fatalf("the sound one: %v", err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Inspect(tt.data); err != nil {
				t.Fatalf("the container itself is refused: %v", err)
			}
			var e *Error
			if _, err := Preview(tt.data); !errors.As(err, &e) || e.Status != PresentationUnavailable {
				t.Errorf("Preview = %v, want presentation-unavailable", err)
			}
		})
	}
}

// TestScalingMemoryIsBounded: a picture of 12 megapixels, whose raster alone would take 48 MB.
func TestScalingMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes 12 megapixels")
	}
	data := encodePNG(t, image.NewGray(image.Rect(0, 0, 4000, 3000)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Preview(data); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 36 {
		t.Errorf("%d MiB allocated", mb)
	}
}
