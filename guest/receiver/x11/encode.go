package x11

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zlib"
)

const (
	signature = "\x89PNG\r\n\x1a\n"
	filterUp  = 2 // each row as the difference to the row above: screens are mostly flat
	zlibLevel = 6
)

// encode makes the PNG file: 8-bit RGB, one IDAT.
func encode(data []byte, l layout) (Shot, error) {
	var packed bytes.Buffer
	z, err := zlib.NewWriterLevel(&packed, zlibLevel)
	if err != nil {
		return Shot{}, fmt.Errorf("cannot compress the picture: %w", err)
	}
	blank, err := rows(z, data, l)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return Shot{}, fmt.Errorf("cannot compress the picture: %w", err)
	}
	header := binary.BigEndian.AppendUint32(nil, uint32(l.width))
	header = binary.BigEndian.AppendUint32(header, uint32(l.height))
	header = append(header, 8, 2, 0, 0, 0) // bits, RGB, deflate, filters of the standard, not interlaced

	file := []byte(signature)
	file = appendChunk(file, "IHDR", header)
	file = appendChunk(file, "IDAT", packed.Bytes())
	file = appendChunk(file, "IEND", nil)
	return Shot{PNG: file, Width: l.width, Height: l.height, Blank: blank}, nil
}

// rows writes the filtered rows and says whether all pixels are equal.
func rows(z *zlib.Writer, data []byte, l layout) (blank bool, err error) {
	above, row, line := make([]byte, 3*l.width), make([]byte, 3*l.width), make([]byte, 1+3*l.width)
	line[0], blank = filterUp, true
	for y := range l.height {
		l.row(row, data[y*l.stride:])
		if y == 0 {
			blank = bytes.Equal(row[3:], row[:len(row)-3]) // equal to itself one pixel on: one colour
		} else if blank {
			blank = bytes.Equal(row, above)
		}
		for i, v := range row {
			line[i+1] = v - above[i]
		}
		if _, err := z.Write(line); err != nil {
			return false, err
		}
		above, row = row, above
	}
	return blank, nil
}

func appendChunk(file []byte, kind string, data []byte) []byte {
	file = binary.BigEndian.AppendUint32(file, uint32(len(data)))
	start := len(file)
	file = append(append(file, kind...), data...)
	return binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(file[start:]))
}
