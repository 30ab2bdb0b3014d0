package x11

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image/png"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"
)

// startX starts an X server of the given screen and returns its display name.
func startX(t *testing.T, screen string) string {
	t.Helper()
	display, _ := startServer(t, screen)
	return display
}

func startServer(t *testing.T, screen string) (display string, server *os.Process) {
	t.Helper()
	path, err := exec.LookPath("Xvfb")
	if err != nil {
		if os.Getenv("MCP_RELAY_TEST_NO_SKIP") == "1" {
			t.Fatal("Xvfb is missing: install xvfb")
		}
		t.Skip("Xvfb is missing: install xvfb")
	}
	for range 10 {
		// A number of our own, which the server locks: servers that pick one themselves do not, and meet.
		display = fmt.Sprintf(":%d", 1000+rand.IntN(50_000))
		if server = tryServer(t, path, display, screen); server != nil {
			return display, server
		}
	}
	t.Fatal("no X server starts")
	return "", nil
}

// tryServer starts the server and returns it when it is ready, nil when it did not come up.
func tryServer(t *testing.T, path, display, screen string) *os.Process {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command(path, display, "-displayfd", "3", "-screen", "0", screen, "-nolisten", "tcp", "-noreset")
	cmd.ExtraFiles = []*os.File{write}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // it removes its socket and lock
		_ = cmd.Process.Signal(unix.SIGCONT)
		_ = cmd.Wait()
	})
	// Number and newline come apart, and the server ends when nobody reads the second.
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		return nil
	}
	return cmd.Process
}

// painter draws on the root window.
type painter struct {
	t    *testing.T
	conn *xgb.Conn
	root xproto.Window
	gc   xproto.Gcontext
}

func newPainter(t *testing.T, display string) *painter {
	t.Helper()
	quiet()
	conn, err := xgb.NewConnDisplay(display)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	p := &painter{t: t, conn: conn, root: xproto.Setup(conn).DefaultScreen(conn).Root}
	p.gc, err = xproto.NewGcontextId(conn)
	if err != nil {
		t.Fatal(err)
	}
	// Windows are painted over too.
	err = xproto.CreateGCChecked(conn, p.gc, xproto.Drawable(p.root), xproto.GcSubwindowMode, []uint32{xproto.SubwindowModeIncludeInferiors}).Check()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *painter) fill(pixel uint32, x, y, w, h int) {
	p.t.Helper()
	xproto.ChangeGC(p.conn, p.gc, xproto.GcForeground, []uint32{pixel})
	err := xproto.PolyFillRectangleChecked(p.conn, xproto.Drawable(p.root), p.gc,
		[]xproto.Rectangle{{X: int16(x), Y: int16(y), Width: uint16(w), Height: uint16(h)}}).Check()
	if err != nil {
		p.t.Fatal(err)
	}
}

// The photograph shows the very pixels that were drawn, corners included, on screens of odd sizes too.
func TestCaptureShowsEveryPixel(t *testing.T) {
	for _, screen := range []struct {
		name string
		w, h int
	}{{"640x480x24", 640, 480}, {"333x217x24", 333, 217}} {
		t.Run(screen.name, func(t *testing.T) {
			display := startX(t, screen.name)
			p := newPainter(t, display)
			p.fill(0x102030, 0, 0, screen.w, screen.h)
			p.fill(0xff0000, 0, 0, 1, 1)
			p.fill(0x00ff00, screen.w-1, 0, 1, 1)
			p.fill(0x0000ff, 0, screen.h-1, 1, 1)
			p.fill(0xfedcba, screen.w-1, screen.h-1, 1, 1)
			p.fill(0xabcdef, 20, 30, 40, 50)
			shot, err := Capture(t.Context(), display)
			if err != nil {
				t.Fatal(err)
			}
			if shot.Width != screen.w || shot.Height != screen.h || shot.Blank {
				t.Errorf("shot is %dx%d, blank %v", shot.Width, shot.Height, shot.Blank)
			}
			image, err := png.Decode(bytes.NewReader(shot.PNG))
			if err != nil {
				t.Fatal(err)
			}
			for y := range screen.h {
				for x := range screen.w {
					want := uint32(0x102030)
					switch {
					case x == 0 && y == 0:
						want = 0xff0000
					case x == screen.w-1 && y == 0:
						want = 0x00ff00
					case x == 0 && y == screen.h-1:
						want = 0x0000ff
					case x == screen.w-1 && y == screen.h-1:
						want = 0xfedcba
					case x >= 20 && x < 60 && y >= 30 && y < 80:
						want = 0xabcdef
					}
					r, g, b, a := image.At(x, y).RGBA()
					if got := r>>8<<16 | g>>8<<8 | b>>8; got != want || a != 0xffff {
						t.Fatalf("pixel %d,%d is %06x, want %06x", x, y, got, want)
					}
				}
			}
		})
	}
}

// Shared memory and the socket give the same bytes.
func TestBothWaysOfFetchingAgree(t *testing.T) {
	display := startX(t, "320x200x24")
	p := newPainter(t, display)
	p.fill(0x123456, 0, 0, 320, 200)
	p.fill(0x654321, 7, 9, 100, 50)
	screen := xproto.Setup(p.conn).DefaultScreen(p.conn)
	l, err := layoutOf(xproto.Setup(p.conn), screen)
	if err != nil {
		t.Fatal(err)
	}
	shared, release, err := fetchShared(p.conn, screen.Root, l)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	reply, err := xproto.GetImage(p.conn, xproto.ImageFormatZPixmap, xproto.Drawable(screen.Root), 0, 0, 320, 200, allPlanes).Reply()
	if err != nil {
		t.Fatal(err)
	}
	a, errA := encode(shared, l)
	b, errB := encode(reply.Data, l)
	if errA != nil || errB != nil || !bytes.Equal(a.PNG, b.PNG) {
		t.Errorf("pictures differ: %v %v", errA, errB)
	}
}

func TestScreenOf16BitsIsReadToo(t *testing.T) {
	display := startX(t, "64x48x16")
	p := newPainter(t, display)
	p.fill(0xf800, 0, 0, 64, 24)  // red
	p.fill(0x07ff, 0, 24, 64, 24) // cyan
	shot, err := Capture(t.Context(), display)
	if err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(bytes.NewReader(shot.PNG))
	if err != nil {
		t.Fatal(err)
	}
	for y, want := range map[int]string{0: "255 0 0", 47: "0 255 255"} {
		r, g, b, _ := image.At(5, y).RGBA()
		if got := fmt.Sprint(r>>8, " ", g>>8, " ", b>>8); got != want {
			t.Errorf("row %d is %s, want %s", y, got, want)
		}
	}
}

// A screen of one colour is a fact, not an error.
func TestBlankScreenIsAFact(t *testing.T) {
	display := startX(t, "100x80x24")
	p := newPainter(t, display)
	p.fill(0, 0, 0, 100, 80)
	if shot, err := Capture(t.Context(), display); err != nil || !shot.Blank {
		t.Errorf("blank %v, %v", shot.Blank, err)
	}
	for _, spot := range [][2]int{{0, 0}, {99, 0}, {0, 79}, {99, 79}, {50, 40}} {
		p.fill(0, 0, 0, 100, 80)
		p.fill(1, spot[0], spot[1], 1, 1)
		if shot, err := Capture(t.Context(), display); err != nil || shot.Blank {
			t.Errorf("a spot at %v: blank %v, %v", spot, shot.Blank, err)
		}
	}
}

func TestNoDisplayIsSaid(t *testing.T) {
	for _, display := range []string{"", ":63999", "nonsense", ":"} {
		if _, err := Capture(t.Context(), display); !errors.Is(err, ErrNoDisplay) {
			t.Errorf("display %q: %v", display, err)
		}
	}
}

// A server that accepts and then says nothing does not hold the capture past its time.
func TestDeafServerDoesNotHoldTheCapture(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "x")
	listener, err := net.Listen("unix", socket+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Capture(ctx, socket+":0"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A server frozen in the middle is left behind too.
func TestFrozenServerDoesNotHoldTheCapture(t *testing.T) {
	display, server := startServer(t, "640x480x24")
	if err := server.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Capture(ctx, display); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Every order of bytes and width of pixels gives the same picture.
func TestLayouts(t *testing.T) {
	rgb := [][3]byte{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {18, 52, 86}}
	for _, row := range []struct {
		name  string
		size  int
		order binary.ByteOrder
		masks [3]uint32
	}{
		{"usual", 4, binary.LittleEndian, [3]uint32{0xff0000, 0xff00, 0xff}},
		{"big end first", 4, binary.BigEndian, [3]uint32{0xff0000, 0xff00, 0xff}},
		{"blue first", 4, binary.LittleEndian, [3]uint32{0xff, 0xff00, 0xff0000}},
		{"three bytes", 3, binary.LittleEndian, [3]uint32{0xff0000, 0xff00, 0xff}},
		{"three bytes, big end first", 3, binary.BigEndian, [3]uint32{0xff0000, 0xff00, 0xff}},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := layout{width: len(rgb), height: 1, size: row.size, order: row.order,
				red: newChannel(row.masks[0]), green: newChannel(row.masks[1]), blue: newChannel(row.masks[2])}
			var data []byte
			for _, c := range rgb {
				p := uint32(c[0])<<l.red.shift | uint32(c[1])<<l.green.shift | uint32(c[2])<<l.blue.shift
				four := make([]byte, 4)
				row.order.PutUint32(four, p)
				if row.size == 3 && row.order == binary.ByteOrder(binary.BigEndian) {
					four = four[1:]
				}
				data = append(data, four[:row.size]...)
			}
			out := make([]byte, 3*len(rgb))
			l.row(out, data)
			for i, c := range rgb {
				if !bytes.Equal(out[3*i:3*i+3], c[:]) {
					t.Errorf("pixel %d is %v, want %v", i, out[3*i:3*i+3], c)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	l := layout{width: 1280, height: 800, stride: 1280 * 4, size: 4, order: binary.LittleEndian,
		red: newChannel(0xff0000), green: newChannel(0xff00), blue: newChannel(0xff)}
	data := make([]byte, l.stride*l.height)
	for i := range data {
		data[i] = byte(i / 4 / 16 * 7)
	}
	for b.Loop() {
		if _, err := encode(data, l); err != nil {
			b.Fatal(err)
		}
	}
}
