package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"image"
	"image/png"
	"slices"
)

// Bounds of a preview: what a model is shown at most.
const (
	MaxPreviewSide   = 2000
	MaxPreviewBase64 = 4 << 20
)

// Policy is the rule a preview was made by. It travels in the delivery receipt.
type Policy struct {
	Version          int      `json:"version"`
	Processor        string   `json:"processor"`
	MaxWidth         int      `json:"maxWidth"`
	MaxHeight        int      `json:"maxHeight"`
	MaxBase64        int      `json:"maxBase64"`
	MaxOriginalBytes int64    `json:"maxOriginalBytes"`
	MaxPixels        int      `json:"maxPixels"`
	MaxSide          int      `json:"maxSide"`
	MaxRecords       int      `json:"maxRecords"`
	Types            []string `json:"types"`
	ResampledTypes   []string `json:"resampledTypes"`
	Animation        string   `json:"animation"`
	Orientation      string   `json:"orientation"`
}

func policy() Policy {
	return Policy{
		Version: 1, Processor: "mcp-relay area average, premultiplied",
		MaxWidth: MaxPreviewSide, MaxHeight: MaxPreviewSide, MaxBase64: MaxPreviewBase64,
		MaxOriginalBytes: MaxOriginal, MaxPixels: MaxPixels, MaxSide: MaxSide, MaxRecords: maxRecords,
		Types: []string{"image/png", "image/jpeg", "image/webp"}, ResampledTypes: []string{"image/png"},
		Animation: "rejected", Orientation: "as stored",
	}
}

// Presentation is the picture that is shown, and how it came from the original. SHA256 and Bytes are of Data.
type Presentation struct {
	Data           []byte `json:"-"`
	MimeType       string `json:"mimeType"`
	OriginalWidth  int    `json:"originalWidth"`
	OriginalHeight int    `json:"originalHeight"`
	Width          int    `json:"width"`
	Height         int    `json:"height"`
	SHA256         string `json:"sha256"`
	Bytes          int    `json:"bytes"`
	Transformed    bool   `json:"transformed"`
	Policy         Policy `json:"policy"`
}

// Preview makes a picture fit to be shown. One within the bounds passes byte for byte; a larger PNG is scaled down by area
// averaging; a larger JPEG or WebP is PresentationUnavailable, as is whatever Inspect refuses and a PNG whose pixels cannot
// be decoded. Memory stays near the size of the result, except for an interlaced PNG: four bytes a pixel. data is not kept.
func Preview(data []byte) (Presentation, error) {
	info, err := Inspect(data)
	if err != nil {
		return Presentation{}, err
	}
	fits := info.Width <= MaxPreviewSide && info.Height <= MaxPreviewSide && fitsBase64(len(data))
	if info.MimeType == "image/png" {
		return previewPNG(data, info, fits)
	}
	if !fits {
		return Presentation{}, unavailable("the picture is %d x %d and %d bytes, over the bounds, and only PNG is scaled down",
			info.Width, info.Height, len(data))
	}
	return present(data, info, info.Width, info.Height, false), nil
}

func previewPNG(data []byte, info Info, fits bool) (Presentation, error) {
	if fits {
		if err := eachRow(data, func([]byte) {}); err != nil {
			return Presentation{}, err
		}
		return present(data, info, info.Width, info.Height, false), nil
	}
	width, height := fitSides(info.Width, info.Height)
	for {
		scaled, err := scalePNG(data, info, width, height)
		if err != nil {
			return Presentation{}, err
		}
		if fitsBase64(len(scaled)) {
			return present(scaled, info, width, height, true), nil
		}
		width, height = max(1, width*3/4), max(1, height*3/4)
	}
}

// scalePNG decodes the PNG row by row into an averager of the wanted size and encodes the result.
func scalePNG(data []byte, info Info, width, height int) ([]byte, error) {
	avg := newAverager(info.Width, info.Height, width, height)
	if err := eachRow(data, avg.row); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := png.Encode(&out, avg.out); err != nil {
		return nil, &Error{Status: PresentationUnavailable, Why: "the preview cannot be encoded", Err: err}
	}
	return out.Bytes(), nil
}

func present(data []byte, info Info, width, height int, transformed bool) Presentation {
	sum := sha256.Sum256(data)
	return Presentation{
		Data: slices.Clone(data), MimeType: info.MimeType,
		OriginalWidth: info.Width, OriginalHeight: info.Height, Width: width, Height: height,
		SHA256: hex.EncodeToString(sum[:]), Bytes: len(data), Transformed: transformed, Policy: policy(),
	}
}

func fitsBase64(n int) bool { return base64.StdEncoding.EncodedLen(n) <= MaxPreviewBase64 }

// fitSides keeps the proportion: first the width to its bound, then the height.
func fitSides(width, height int) (int, int) {
	if width > MaxPreviewSide {
		width, height = MaxPreviewSide, max(1, height*MaxPreviewSide/width)
	}
	if height > MaxPreviewSide {
		width, height = max(1, width*MaxPreviewSide/height), MaxPreviewSide
	}
	return width, height
}

// averager scales down by area averaging: every source pixel counts by how much of it an output pixel covers. Colours are
// weighted by their opacity, so that the colour of a transparent pixel never shows at an edge.
type averager struct {
	out         *image.NRGBA
	columns     []share
	rows        []share
	line        []float64 // one source row, scaled to the output width: r, g, b weighted by alpha, and alpha
	sums, carry []float64 // of the output row in work and of the one after it
	y, outY     int
}

// share is how one source pixel is split over output pixels: part of it to at, rest to the one after.
type share struct {
	at         int
	part, rest float64
}

func newAverager(width, height, outWidth, outHeight int) *averager {
	n := 4 * (outWidth + 1)
	return &averager{
		out:     image.NewNRGBA(image.Rect(0, 0, outWidth, outHeight)),
		columns: shares(width, outWidth), rows: shares(height, outHeight),
		line: make([]float64, n), sums: make([]float64, n), carry: make([]float64, n),
	}
}

// shares splits n source pixels over m <= n output pixels; the shares of each output pixel add up to 1.
func shares(n, m int) []share {
	all := make([]share, n)
	for i := range all {
		from, to := i*m, (i+1)*m // in units of 1/n output pixel
		at := from / n
		part := min(to, (at+1)*n) - from
		all[i] = share{at: at, part: float64(part) / float64(n), rest: float64(m-part) / float64(n)}
	}
	return all
}

// row takes the next source row, as R, G, B, A bytes without premultiplication.
func (a *averager) row(rgba []byte) {
	clear(a.line)
	for x, c := range a.columns {
		alpha := float64(rgba[4*x+3])
		r, g, b := float64(rgba[4*x])*alpha, float64(rgba[4*x+1])*alpha, float64(rgba[4*x+2])*alpha
		into := a.line[4*c.at:]
		into[0] += r * c.part
		into[1] += g * c.part
		into[2] += b * c.part
		into[3] += alpha * c.part
		if c.rest > 0 {
			into = into[4:]
			into[0] += r * c.rest
			into[1] += g * c.rest
			into[2] += b * c.rest
			into[3] += alpha * c.rest
		}
	}
	s := a.rows[a.y]
	for i, v := range a.line {
		a.sums[i] += v * s.part
		a.carry[i] += v * s.rest
	}
	a.y++
	if a.y == len(a.rows) || a.rows[a.y].at != a.outY {
		a.flush()
	}
}

// flush writes the output row that is complete.
func (a *averager) flush() {
	row := a.out.Pix[a.outY*a.out.Stride:]
	for x := range a.out.Rect.Dx() {
		s := a.sums[4*x : 4*x+4]
		alpha := s[3]
		if alpha <= 0 {
			continue
		}
		for i := range 3 {
			row[4*x+i] = clampByte(s[i] / alpha)
		}
		row[4*x+3] = clampByte(alpha)
	}
	a.sums, a.carry = a.carry, a.sums
	clear(a.carry)
	a.outY++
}

func clampByte(v float64) byte { return byte(min(255, v+0.5)) }
