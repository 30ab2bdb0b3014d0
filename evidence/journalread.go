package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DamagedError says which line of a journal is bad, counted from 1, and why.
type DamagedError struct {
	Line int
	Why  string
}

func (e *DamagedError) Error() string { return fmt.Sprintf("line %d is damaged: %s", e.Line, e.Why) }

// JournalLine is one line as it stands in the file.
type JournalLine struct {
	Number int    // from 1
	Hash   string // SHA-256 of Raw
	Raw    []byte // without the newline; valid until the next line is read
}

// JournalRead sums up a journal that was read to its end.
type JournalRead struct {
	Lines   int
	Bytes   int64
	Head    string // hash of the last line, 64 zeros without one
	Chained bool   // the lines carry prev and were checked by it; older recordings have none
}

// ReadJournal reads a journal, calling each for every line once that line itself is known to be whole. A bad line ends it
// with a *DamagedError: one that is not a JSON object, unfinished, out of order, or that does not continue the line before.
// Lines cut from the very end leave a journal that reads well: what still knows their hash (receipts, a manifest) must be
// asked. A journal without a chain, as older recordings have, may hold blank lines and an unterminated last one; nothing
// but its JSON can be checked. An error of each ends the reading and is returned as it is.
func ReadJournal(r io.Reader, each func(JournalLine) error) (JournalRead, error) {
	in := &lineReader{in: bufio.NewReaderSize(r, 64<<10)}
	check := chainCheck{prev: noLine}
	read := JournalRead{Head: noLine}
	for {
		raw, whole, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return read, err
		}
		line := JournalLine{Number: in.number, Hash: hashLine(raw), Raw: raw}
		keep, err := check.line(line, whole)
		if err == nil && keep {
			err = each(line)
			read.Head = line.Hash
		}
		if err != nil {
			return read, err
		}
		read.Lines, read.Bytes = in.number, in.bytes
	}
	read.Chained = check.chained
	return read, check.end()
}

// chainCheck is what is known of the lines before.
type chainCheck struct {
	prev    string
	seq     int64
	started bool
	chained bool
	suspect *DamagedError // a break whose culprit the next line decides
}

// line judges one line; keep is false for a line that says nothing.
func (c *chainCheck) line(l JournalLine, whole bool) (keep bool, err error) {
	if len(bytes.TrimSpace(l.Raw)) == 0 && !c.chained && whole {
		return false, nil
	}
	var f chainFields
	if fault := decodeLine(l.Raw, &f); fault != "" {
		return false, c.first(&DamagedError{l.Number, fault})
	}
	if !c.started {
		c.started, c.chained = true, f.Prev != nil
	}
	if c.chained {
		err = c.link(l, f, whole)
	} else if f.Prev != nil {
		err = &DamagedError{l.Number, "it carries a hash chain that the lines before it do not have"}
	}
	return err == nil && c.suspect == nil, err
}

// decodeLine reads the chain fields, and says what is wrong with the line itself.
func decodeLine(raw []byte, f *chainFields) string {
	if first := bytes.TrimSpace(raw); len(first) == 0 || first[0] != '{' || !json.Valid(raw) {
		return "it is not a JSON object"
	}
	if err := json.Unmarshal(raw, f); err != nil {
		return "its seq, writtenAt or prev has the wrong type"
	}
	return ""
}

// link checks that the line continues the chain. Where only the hash is wrong, either this line's prev or the line before
// was changed: the next line, which vouches for this one or does not, decides.
func (c *chainCheck) link(l JournalLine, f chainFields, whole bool) error {
	switch {
	case !whole:
		return c.first(&DamagedError{l.Number, "it is unfinished: the last write to the journal was cut off"})
	case f.Prev == nil || f.Seq == nil || f.WrittenAt == nil:
		return c.first(&DamagedError{l.Number, "its seq, writtenAt or prev is missing"})
	case c.suspect != nil && *f.Prev != c.prev:
		return &DamagedError{l.Number - 1, "its content or its link to the line before was changed"}
	case c.suspect != nil:
		return c.suspect
	case *f.Seq != c.seq:
		return &DamagedError{l.Number, fmt.Sprintf("its seq is %d where %d follows: lines were removed, added or moved", *f.Seq, c.seq)}
	case *f.Prev != c.prev && l.Number == 1:
		return &DamagedError{1, "it is not the first line of its journal"}
	case *f.Prev != c.prev:
		c.suspect = &DamagedError{l.Number - 1, "the line after it carries another hash: it was changed after it was written"}
	}
	c.prev, c.seq = l.Hash, c.seq+1
	return nil
}

// first is the earlier of a pending suspicion and a new fault.
func (c *chainCheck) first(fault *DamagedError) error {
	if c.suspect != nil {
		return c.suspect
	}
	return fault
}

func (c *chainCheck) end() error {
	if c.suspect != nil {
		return c.suspect
	}
	return nil
}

// lineReader reads bounded lines.
type lineReader struct {
	in     *bufio.Reader
	number int
	bytes  int64
	buf    []byte
}

// next returns the next line without its newline; whole is false when the newline is missing. io.EOF at the end.
func (r *lineReader) next() (line []byte, whole bool, err error) {
	r.buf = r.buf[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		r.bytes += int64(len(part))
		switch {
		case len(r.buf) > MaxJournalLine:
			return nil, false, &DamagedError{r.number + 1, fmt.Sprintf("it is longer than %d bytes", MaxJournalLine)}
		case err == nil:
			r.number++
			return r.buf[:len(r.buf)-1], true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(r.buf) == 0:
			return nil, false, io.EOF
		case errors.Is(err, io.EOF):
			r.number++
			return r.buf, false, nil
		default:
			return nil, false, fmt.Errorf("cannot read journal: %w", err)
		}
	}
}
