package receiver

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver/x11"
)

// captureLimit bounds one capture.
const captureLimit = 60 * time.Second

// Picture is one capture of the screen, as a whole PNG file.
type Picture struct {
	PNG           []byte
	Width, Height int
	Blank         bool // one colour all over, as far as the capturer looks
}

// Capturer takes pictures of the screen.
type Capturer interface {
	Capture(ctx context.Context) (Picture, error)
}

// capturerFor is the way of capture that a request names.
func capturerFor(req protocol.Request, root string, opt Options) Capturer {
	switch {
	case opt.Capturer != nil:
		return opt.Capturer
	case req.Snapshots.Capture == protocol.CaptureCuaDriver:
		return cuaDriver{program: req.Snapshots.Driver, root: root, file: ".capture-probe-" + req.ExecutionID + ".png"}
	}
	return display{opt.Display}
}

// take takes one picture and checks it, within captureLimit.
func take(ctx context.Context, c Capturer) (Picture, error) {
	ctx, cancel := context.WithTimeout(ctx, captureLimit)
	defer cancel()
	picture, err := c.Capture(ctx)
	if err != nil {
		return Picture{}, err
	}
	picture.Width, picture.Height, err = checkPNG(picture.PNG)
	if err != nil {
		return Picture{}, fmt.Errorf("the capture is unusable: %w", err)
	}
	return picture, nil
}

// display captures over the guest's X display.
type display struct{ name string }

func (d display) Capture(ctx context.Context) (Picture, error) {
	shot, err := x11.Capture(ctx, d.name)
	return Picture{PNG: shot.PNG, Width: shot.Width, Height: shot.Height, Blank: shot.Blank}, err
}

// cuaDriver captures with the image's own program, which writes the file it is told to.
type cuaDriver struct{ program, root, file string }

func (d cuaDriver) Capture(ctx context.Context) (picture Picture, err error) {
	path := filepath.Join(d.root, d.file)
	if err := removeFile(d.root, path); err != nil {
		return Picture{}, err
	}
	defer func() { err = errors.Join(err, removeFile(d.root, path)) }()
	if err := d.run(ctx, path); err != nil {
		return Picture{}, fmt.Errorf("cannot capture with %s: %w", d.program, err)
	}
	f, err := openFile(d.root, path)
	if err != nil {
		return Picture{}, fmt.Errorf("cannot capture with %s: %w", d.program, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, protocol.MaxSnapshot+1))
	return Picture{PNG: data}, err
}

// run starts the program and ends all it started.
func (d cuaDriver) run(ctx context.Context, path string) error {
	params, err := json.Marshal(map[string]string{"screenshot_out_file": path})
	if err != nil {
		return err
	}
	family, err := newFamily(selfPID())
	if err != nil {
		return err
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, d.program, "call", "get_desktop_state", "--json", string(params))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &limitedBuffer{to: &out}, &limitedBuffer{to: &problems}, time.Second
	cmd.SysProcAttr = scriptAttributes()
	if err := cmd.Start(); err != nil {
		return err
	}
	family.script.PID = cmd.Process.Pid
	err = cmd.Wait()
	family.script = identity{} // it is reaped, and its number no longer its own
	if gone := family.end(); gone == nil || !*gone {
		return errors.Join(err, errors.New("what it started could not be ended"))
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, bounded(problems.String(), 1<<10))
	}
	var answer struct {
		Path string `json:"screenshot_file_path"`
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.Path != path {
		return errors.New("its answer does not name the picture it was asked for")
	}
	return nil
}

// limitedBuffer keeps the first 64 KiB and drops the rest.
type limitedBuffer struct{ to *bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	const limit = 64 << 10
	b.to.Write(p[:max(0, min(len(p), limit-b.to.Len()))])
	return len(p), nil
}

// checkPNG looks at a capture's frame: signature, size, header first, dimensions, and IEND as the very last bytes.
func checkPNG(data []byte) (width, height int, err error) {
	const begin, end = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR", "\x00\x00\x00\x00IEND\xae\x42\x60\x82"
	switch {
	case len(data) == 0:
		return 0, 0, errors.New("it is empty")
	case len(data) > protocol.MaxSnapshot:
		return 0, 0, fmt.Errorf("it is larger than %d bytes", protocol.MaxSnapshot)
	case len(data) < len(begin)+8+len(end), string(data[:len(begin)]) != begin:
		return 0, 0, errors.New("it is not a PNG image")
	case string(data[len(data)-len(end):]) != end:
		return 0, 0, errors.New("it is a PNG image cut short")
	}
	w, h := binary.BigEndian.Uint32(data[len(begin):]), binary.BigEndian.Uint32(data[len(begin)+4:])
	if w == 0 || h == 0 || w > 1<<16 || h > 1<<16 {
		return 0, 0, fmt.Errorf("it claims to be %dx%d pixels", w, h)
	}
	return int(w), int(h), nil
}
