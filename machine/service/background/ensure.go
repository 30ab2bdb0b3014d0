package background

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
)

// Options say where a service is looked for and how one is started.
type Options struct {
	Executable string   // absolute; started with Args when no service is found. It must end in Serve with the same folders
	Args       []string // without the program's name
	Env        []string // of the program; nil: this process's
	StateDir   string   // holds the log, and the record if RuntimeDir is empty
	RuntimeDir string   // holds the record and the start claim
	Port       int      // where a service is looked for beside the record, and the first choice of one that starts; 0 means 6240, AnyPort none
	Wait       time.Duration
	Log        zerolog.Logger
	Ready      func(addr string) // of Serve: told host:port when the service can be asked
}

// AnyPort as Options.Port looks at no port beside the record, and starts a service on any free one.
const AnyPort = -1

// Endpoint is a service that answered.
type Endpoint struct {
	URL     string
	PID     int  // 0 when the service does not publish it
	Started bool // by this call
}

const (
	defaultPort = 6240
	defaultWait = 30 * time.Second // from the start of the program to its first answer, waiting for another starter included
	pollEvery   = 20 * time.Millisecond
	probeTime   = 2 * time.Second
)

// Ensure returns a machine-service that serves this user, starting one if there is none. A service that it started goes on
// when this process ends. An error of a start that failed carries the end of the service's log.
func Ensure(ctx context.Context, opt Options) (Endpoint, error) {
	opt.fill()
	ctx, cancel := context.WithTimeoutCause(ctx, opt.Wait, fmt.Errorf("it does not answer after %s", opt.Wait))
	defer cancel()
	if found, ok := find(ctx, opt); ok {
		return found, nil
	}
	for _, dir := range []string{opt.StateDir, opt.RuntimeDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Endpoint{}, fmt.Errorf("cannot start machine-service: %w", err)
		}
	}
	claim, err := claimStart(ctx, opt.RuntimeDir)
	if err != nil {
		return Endpoint{}, err
	}
	defer claim.Close() // gives up the claim
	if found, ok := find(ctx, opt); ok {
		return found, nil // whoever held the claim before us has started it
	}
	return start(ctx, opt)
}

func (o *Options) fill() {
	if o.RuntimeDir == "" {
		o.RuntimeDir = o.StateDir
	}
	if o.Port == 0 {
		o.Port = defaultPort
	}
	if o.Wait <= 0 {
		o.Wait = defaultWait
	}
}

// ErrNone: no service that serves this user answers.
var ErrNone = errors.New("no machine-service of this user answers")

// Find returns the service that Ensure would return, and starts none: ErrNone when there is none.
func Find(ctx context.Context, opt Options) (Endpoint, error) {
	opt.fill()
	found, ok := find(ctx, opt)
	if !ok {
		return Endpoint{}, fmt.Errorf("%w, neither at port %d nor as published in %s", ErrNone, opt.Port, opt.RuntimeDir)
	}
	return found, nil
}

// find looks where a service has published itself, then at the default port.
func find(ctx context.Context, opt Options) (Endpoint, bool) {
	if r, ok := Read(opt.RuntimeDir); ok {
		health, err := probe(ctx, r.Port)
		if err == nil && health.Instance == r.Nonce {
			return Endpoint{URL: url(r.Port), PID: r.PID}, true
		}
	}
	if opt.Port < 0 {
		return Endpoint{}, false
	}
	health, err := probe(ctx, opt.Port)
	if err != nil || !serves(health, opt) {
		return Endpoint{}, false
	}
	return Endpoint{URL: url(opt.Port)}, true
}

// serves says whether the service on the default port may be used: another user's must not be, and one of our own kind on
// another state folder would not know the machines of ours. One of another kind says neither.
func serves(h machine.Health, opt Options) bool {
	return (h.UID == nil || *h.UID == os.Getuid()) && (h.Folder == "" || h.Folder == service.FolderID(opt.StateDir))
}

func url(port int) string { return "http://" + net.JoinHostPort("localhost", strconv.Itoa(port)) }

func probe(ctx context.Context, port int) (machine.Health, error) {
	client, err := machine.New(machine.Options{URL: url(port), Timeouts: machine.Timeouts{Read: probeTime}})
	if err != nil {
		return machine.Health{}, err
	}
	return client.Health(ctx)
}

// claimStart waits for the right to start a service. The kernel takes it back when the holder dies.
func claimStart(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "machine-service.start.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot claim the start of machine-service: %w", err)
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("cannot claim the start of machine-service: %w", err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("cannot wait for the machine-service that another process is starting: %w", context.Cause(ctx)), f.Close())
		case <-ticker.C:
		}
	}
}

// start runs the program in a session of its own and waits until it answers. One that does not is killed.
func start(ctx context.Context, opt Options) (Endpoint, error) {
	log, err := openLog(opt.StateDir)
	if err != nil {
		return Endpoint{}, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return Endpoint{}, fmt.Errorf("cannot start machine-service: %w", err)
	}
	cmd := exec.Command(opt.Executable, opt.Args...)
	cmd.Dir, cmd.Env = "/", opt.Env
	cmd.Stdout, cmd.Stderr = log, log // files, never pipes: nothing of the service depends on this process
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Endpoint{}, fmt.Errorf("cannot start machine-service: %w", err)
	}
	opt.Log.Info().Int("pid", cmd.Process.Pid).Str("log", log.Name()).Msg("machine-service is started in the background")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // for as long as both live, so that it leaves no zombie
	found, err := awaitReady(ctx, opt, cmd.Process.Pid, ended)
	if err != nil {
		return Endpoint{}, fmt.Errorf("cannot start machine-service (%s): %w%s", strings.Join(cmd.Args, " "), err, quote(log, info.Size()))
	}
	return found, nil
}

// awaitReady polls until the program we started has published itself and answers. It is killed when it does not.
func awaitReady(ctx context.Context, opt Options, pid int, ended <-chan error) (Endpoint, error) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if r, ok := Read(opt.RuntimeDir); ok && r.PID == pid {
			if found, ok := find(ctx, opt); ok && found.PID == pid {
				found.Started = true
				return found, nil
			}
		}
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("it ended at once")
			}
			return Endpoint{}, err
		case <-ctx.Done():
			// Not answered and not ended: nobody can be using it. Its session is its own process group.
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			<-ended
			return Endpoint{}, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func quote(log *os.File, from int64) string {
	text := strings.TrimSpace(lastLines(log, from))
	if text == "" {
		return "; it wrote nothing to " + log.Name()
	}
	return "; the end of " + log.Name() + ":\n" + text
}
