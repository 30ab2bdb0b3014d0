package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrameComesBackAsItWas(t *testing.T) {
	var buf bytes.Buffer
	for _, body := range []string{"", "x", strings.Repeat("y", MaxBody)} {
		if err := WriteFrame(&buf, KindData, []byte(body)); err != nil {
			t.Fatal(err)
		}
		kind, got, err := ReadFrame(iotest.OneByteReader(&buf))
		if err != nil || kind != KindData || string(got) != body {
			t.Errorf("%d bytes came back as %q, %d bytes, %v", len(body), kind, len(got), err)
		}
	}
	if err := WriteFrame(&buf, KindData, make([]byte, MaxBody+1)); err == nil {
		t.Error("a frame over the bound was written")
	}
}

func TestCutFrameIsNoEnd(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteFrame(&buf, KindAnswer, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	for n := range whole {
		_, _, err := ReadFrame(bytes.NewReader(whole[:n]))
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if !errors.Is(err, want) {
			t.Errorf("cut after %d bytes: %v, want %v", n, err, want)
		}
	}
}

func TestHugeLengthIsRefusedBeforeItIsAllocated(t *testing.T) {
	_, _, err := ReadFrame(strings.NewReader("D\xff\xff\xff\xff"))
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want a refusal of the length", err)
	}
}

func stream(t *testing.T, content string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := NewStreamWriter(&buf)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestStreamOfAnyLengthIsReadWhole(t *testing.T) {
	for _, n := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3*chunk + 7} {
		want := strings.Repeat("z", n)
		got, err := io.ReadAll(NewStreamReader(bytes.NewReader(stream(t, want))))
		if err != nil || string(got) != want {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
}

func TestDamagedStreamIsNeverTakenForWhole(t *testing.T) {
	whole := stream(t, "some content")
	for n := range whole {
		if _, err := io.ReadAll(NewStreamReader(bytes.NewReader(whole[:n]))); err == nil {
			t.Errorf("cut after %d of %d bytes: taken for whole", n, len(whole))
		}
	}
	for i := range "some content" {
		changed := bytes.Clone(whole)
		changed[headerLength+i] ^= 1
		if _, err := io.ReadAll(NewStreamReader(bytes.NewReader(changed))); err == nil {
			t.Errorf("byte %d changed: taken for whole", i)
		}
	}
}

func TestAbortedStreamSaysWhy(t *testing.T) {
	var buf bytes.Buffer
	w := NewStreamWriter(&buf)
	if err := w.Abort(FaultUnsafe, errors.New("a symlink")); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadAll(NewStreamReader(&buf))
	var given *StreamError
	if !errors.As(err, &given) || given.Fault != FaultUnsafe || given.Message != "a symlink" {
		t.Errorf("%v, want the sender's reason", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("D\x00\x00\x00\x01x"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, body, err := ReadFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		var buf bytes.Buffer
		if err := WriteFrame(&buf, kind, body); err != nil || !bytes.HasPrefix(data, buf.Bytes()) {
			t.Errorf("%q was read as %q %q, which is written as %q, %v", data, kind, body, buf.Bytes(), err)
		}
	})
}
