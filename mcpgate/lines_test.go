package mcpgate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(in io.Reader, limit int) (lines []line, err error) {
	r := newLineReader(in, limit)
	for {
		l, err := r.next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
}

func TestLinesAreCutAndBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, row := range []struct {
		name, input string
		want        []line
	}{
		{"nothing", "", nil},
		{"blank lines", "\n \r\n\t\n", nil},
		{"two lines", "a\nb\n", []line{{data: []byte("a")}, {data: []byte("b")}}},
		{"no last newline", "a\nb", []line{{data: []byte("a")}, {data: []byte("b")}}},
		{"carriage returns and spaces", " a \r\n", []line{{data: []byte("a")}}},
		{"byte order mark", "\xef\xbb\xbfa\n\xef\xbb\xbf\n", []line{{data: []byte("a")}}},
		{"at the bound", strings.Repeat("y", 5000) + "\nb\n", []line{{data: []byte(strings.Repeat("y", 5000))}, {data: []byte("b")}}},
		{"beyond the bound", long + "\nb\n", []line{{data: []byte(long[:keptOfLong]), long: true}, {data: []byte("b")}}},
		{"beyond the bound at the end", long, []line{{data: []byte(long[:keptOfLong]), long: true}}},
	} {
		for _, reader := range []struct {
			name string
			of   func(io.Reader) io.Reader
		}{
			{"whole", func(r io.Reader) io.Reader { return r }},
			{"byte by byte", iotest.OneByteReader},
			{"with the end in the last read", iotest.DataErrReader},
		} {
			t.Run(row.name+", "+reader.name, func(t *testing.T) {
				got, err := readAll(reader.of(strings.NewReader(row.input)), 5000)
				if !errors.Is(err, io.EOF) || len(got) != len(row.want) {
					t.Fatalf("%d lines, %v; want %d and the end", len(got), err, len(row.want))
				}
				for i, want := range row.want {
					if !bytes.Equal(got[i].data, want.data) || got[i].long != want.long {
						t.Errorf("line %d: %q (long %v)", i, short(string(got[i].data)), got[i].long)
					}
				}
			})
		}
	}
}

func TestReadErrorEndsTheLines(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("a\nhalf of"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := readAll(broken, 100)
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != 1 || string(got[0].data) != "a" {
		t.Errorf("%v, %v; want the whole line and the error, and no half line", got, err)
	}
}

// Whatever the bytes are, every line comes once, whole or marked, and readLine makes of it messages and answers that it can
// answer for.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{"a\n\nb", "\xef\xbb\xbf{}\r\n", strings.Repeat("z", 300) + "\n1", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `[{"id":"x"},[],{}]`,
		`{"id":1,"x":`, strings.Repeat("0", 201), "\x00\n\xff", `{"jsonrpc":"2.0","id":1e999,"method":"m"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		const limit = 200
		var want []line
		for part := range bytes.SplitSeq(input, []byte("\n")) {
			whole := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(part), byteOrderMark))
			if len(part) > limit || len(whole) > 0 {
				want = append(want, line{data: whole, long: len(part) > limit})
			}
		}
		got, err := readAll(iotest.HalfReader(bytes.NewReader(input)), limit)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		next := 0
		for _, l := range got {
			for next < len(want) && want[next].long && !l.long { // a long blank line is skipped like a short one
				next++
			}
			if next == len(want) {
				t.Fatalf("more lines than there are: %q", l.data)
			}
			if l.long != want[next].long || !l.long && !bytes.Equal(l.data, want[next].data) {
				t.Fatalf("line %q (long %v), want %q", l.data, l.long, want[next].data)
			}
			next++
			messages, refusals := readLine(l)
			for _, m := range messages {
				if m.id != nil && !usableID(m.id) {
					t.Fatalf("accepted the id %q", m.id)
				}
			}
			for _, r := range refusals {
				if r.error.Message == "" || r.error.Code == 0 {
					t.Fatalf("refused without a reason: %+v", r)
				}
			}
		}
	})
}
