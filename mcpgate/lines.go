package mcpgate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds one message. Code of 1 MiB may be six times as long in JSON, with every character escaped.
const maxLine = 16 << 20

// keptOfLong is how much of a line beyond the bound is kept, to find the id that its answer needs.
const keptOfLong = 4 << 10

var byteOrderMark = []byte("\xef\xbb\xbf")

// line is one line of input without white space around it. A long one was beyond the bound: data is its beginning only.
type line struct {
	data []byte
	long bool
}

// lineReader cuts a stream into lines. No content of a line ends it: only the stream's own end or error does.
type lineReader struct {
	in  *bufio.Reader
	max int
}

func newLineReader(in io.Reader, limit int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), max: limit}
}

// next returns the next line that is not blank. A last line without a newline counts. The error is io.EOF or the stream's.
func (r *lineReader) next() (line, error) {
	for {
		raw, long, err := r.read()
		if err != nil && (len(raw) == 0 || !errors.Is(err, io.EOF)) {
			return line{}, err
		}
		raw = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(raw), byteOrderMark))
		if len(raw) > 0 {
			return line{data: raw, long: long}, nil
		}
		if err != nil {
			return line{}, err
		}
	}
}

// read returns the bytes up to the next newline, or the first of them when they are more than the bound.
func (r *lineReader) read() (raw []byte, long bool, err error) {
	for {
		chunk, err := r.in.ReadSlice('\n')
		if !long {
			raw = append(raw, chunk...)
		}
		if len(bytes.TrimSuffix(raw, []byte("\n"))) > r.max {
			long = true
			raw = bytes.Clone(raw[:min(len(raw), keptOfLong)])
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return raw, long, err
		}
	}
}
