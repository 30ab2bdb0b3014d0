package image

// Limits on a picture that is to be shown.
const (
	MaxPixels  = 40_000_000
	MaxSide    = 32_768
	maxRecords = 10_000 // chunks or segments of a container
)

// Info is what the container says, checked.
type Info struct {
	MimeType string
	Width    int
	Height   int
}

// Inspect checks that data is a whole PNG, JPEG or WebP with one still picture, without decoding a pixel: order, length and
// checksum of every record, the end mark at the very end, and dimensions within MaxSide and MaxPixels. Any fault is a
// *Error with PresentationUnavailable.
func Inspect(data []byte) (Info, error) {
	if len(data) == 0 || len(data) > MaxOriginal {
		return Info{}, unavailable("the picture has %d bytes, outside 1 to %d", len(data), MaxOriginal)
	}
	info, err := inspectContainer(data)
	if err != nil {
		return Info{}, err
	}
	return info, checkSides(info.Width, info.Height)
}

func inspectContainer(data []byte) (Info, error) {
	switch Sniff(data) {
	case "image/png":
		return inspectPNG(data)
	case "image/jpeg":
		return inspectJPEG(data)
	case "image/webp":
		return inspectWebP(data)
	}
	return Info{}, unavailable("the picture is neither PNG nor JPEG nor WebP")
}

// Sniff names the type that the first bytes promise: PNG, JPEG, WebP, GIF, or "" for anything else. 12 bytes are enough.
func Sniff(data []byte) string {
	has := func(at int, magic string) bool {
		return len(data) >= at+len(magic) && string(data[at:at+len(magic)]) == magic
	}
	switch {
	case has(0, pngSignature):
		return "image/png"
	case has(0, "\xff\xd8\xff"):
		return "image/jpeg"
	case has(0, "RIFF") && has(8, "WEBP"):
		return "image/webp"
	case has(0, "GIF87a"), has(0, "GIF89a"):
		return "image/gif"
	}
	return ""
}

func checkSides(width, height int) error {
	if width < 1 || height < 1 || width > MaxSide || height > MaxSide || int64(width)*int64(height) > MaxPixels {
		return unavailable("the picture is %d x %d, over %d a side or %d pixels", width, height, MaxSide, MaxPixels)
	}
	return nil
}
