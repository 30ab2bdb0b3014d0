package image

import (
	"bytes"
	"encoding/binary"
)

// inspectJPEG walks the segments: one baseline or progressive 8-bit frame before the first scan, and EOI at the very end.
func inspectJPEG(data []byte) (Info, error) {
	info := Info{MimeType: "image/jpeg"}
	scans := 0
	at := 2
	for range maxRecords {
		marker, next, err := jpegMarker(data, at)
		if err != nil {
			return Info{}, err
		}
		if marker == 0xd9 {
			return finishJPEG(info, scans, next == len(data))
		}
		body, end, err := jpegSegment(data, next)
		if err != nil {
			return Info{}, err
		}
		switch {
		case marker == 0xda && info.Width == 0:
			return Info{}, unavailable("the JPEG has a scan before its frame")
		case marker == 0xda:
			scans++
			end = jpegScanEnd(data, end)
		case isFrame(marker):
			if err := jpegFrame(&info, marker, body, scans); err != nil {
				return Info{}, err
			}
		case !isTable(marker):
			return Info{}, unavailable("the JPEG has a marker %#x that is not accepted", marker)
		}
		at = end
	}
	return Info{}, unavailable("the JPEG has more than %d segments", maxRecords)
}

func finishJPEG(info Info, scans int, atEnd bool) (Info, error) {
	switch {
	case scans == 0:
		return Info{}, unavailable("the JPEG has no picture data")
	case !atEnd:
		return Info{}, unavailable("bytes follow the end of the JPEG")
	}
	return info, nil
}

// jpegMarker reads a marker, which any number of fill bytes may precede.
func jpegMarker(data []byte, at int) (marker byte, next int, err error) {
	if at >= len(data) || data[at] != 0xff {
		return 0, 0, unavailable("the JPEG is cut off or has stray bytes between segments")
	}
	for at < len(data) && data[at] == 0xff {
		at++
	}
	if at == len(data) {
		return 0, 0, unavailable("the JPEG is cut off")
	}
	return data[at], at + 1, nil
}

func jpegSegment(data []byte, at int) (body []byte, end int, err error) {
	if len(data)-at < 2 {
		return nil, 0, unavailable("the JPEG is cut off")
	}
	n := int(binary.BigEndian.Uint16(data[at:]))
	if n < 2 || n > len(data)-at {
		return nil, 0, unavailable("a JPEG segment has a wrong length")
	}
	return data[at+2 : at+n], at + n, nil
}

// jpegScanEnd is the offset of the marker after the entropy-coded data that begins at at.
func jpegScanEnd(data []byte, at int) int {
	for {
		i := bytes.IndexByte(data[at:], 0xff)
		if i < 0 || at+i+1 >= len(data) {
			return len(data)
		}
		at += i
		if follow := data[at+1]; follow != 0 && (follow < 0xd0 || follow > 0xd7) {
			return at
		}
		at += 2
	}
}

// isFrame: SOF0 to SOF15 without DHT, JPG and DAC.
func isFrame(m byte) bool { return m >= 0xc0 && m <= 0xcf && m != 0xc4 && m != 0xc8 && m != 0xcc }

// isTable: DHT, DQT, DRI, APPn, COM.
func isTable(m byte) bool {
	return m == 0xc4 || m == 0xdb || m == 0xdd || m >= 0xe0 && m <= 0xef || m == 0xfe
}

func jpegFrame(info *Info, marker byte, body []byte, scans int) error {
	switch {
	case marker > 0xc2:
		return unavailable("the JPEG is neither baseline nor progressive")
	case info.Width != 0 || scans > 0:
		return unavailable("the JPEG has more than one frame")
	case len(body) < 6 || len(body) != 6+3*int(body[5]):
		return unavailable("the JPEG frame has a wrong length")
	case body[0] != 8:
		return unavailable("the JPEG has %d bits a sample, not 8", body[0])
	case body[5] != 1 && body[5] != 3 && body[5] != 4:
		return unavailable("the JPEG has %d components", body[5])
	}
	info.Height, info.Width = int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:]))
	return checkSides(info.Width, info.Height)
}
