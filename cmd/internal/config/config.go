package config

import (
	"crypto/rand"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Backends: where machines come from (MCP_RELAY_BACKEND).
const (
	BackendAuto     = "auto"     // a service that answers, else one started in the background, where that is allowed
	BackendService  = "service"  // only a service that answers
	BackendEmbedded = "embedded" // only one of our own, started when needed
)

// Exit policies (MCP_RELAY_ON_EXIT).
const (
	OnExitPause   = "pause"
	OnExitRelease = "release"
)

// DefaultURL is where machine-service is looked for when MCP_RELAY_URL is not set.
const DefaultURL = "http://localhost:6240"

// Config is what the program runs with. Paths are absolute.
type Config struct {
	Project      string        // MCP_RELAY_PROJECT; the folder whose files may be staged and that gets the evidence
	Session      string        // MCP_RELAY_SESSION; random per process when not set
	URL          string        // MCP_RELAY_URL, an origin without a trailing slash
	URLSet       bool          // it was set: never start a service of our own
	Backend      string        // MCP_RELAY_BACKEND
	Network      string        // MCP_RELAY_GUEST_NETWORK: nat or internet
	OnExit       string        // MCP_RELAY_ON_EXIT
	CapacityWait time.Duration // MCP_RELAY_CAPACITY_WAIT, whole seconds; 0 does not wait
	MaxGuests    int           // MCP_RELAY_MAX_GUESTS, at least 1
	Grace        time.Duration // MCP_RELAY_SHUTDOWN_GRACE_MS
	Window       time.Duration // MCP_RELAY_LEASE_WINDOW_MS: how long one renewal lasts, 15 min
	StateDir     string        // MCP_RELAY_STATE_DIR
	RuntimeDir   string        // $XDG_RUNTIME_DIR/mcp-relay where it exists, else StateDir/run
	Runtimes     []string      // MCP_RELAY_GUEST_RUNTIMES, folders with relay-guest-<os>-<arch>
	Port         int           // MCP_RELAY_MACHINES_PORT: first choice of a service we start, 6240; 0 takes a free one
	TartHome     string        // TART_HOME
	Tart         string        // TART
	PythonSet    bool          // MCP_RELAY_PYTHON is set; it is accepted and not used

	// Lazy holds what is wrong with what only a tool call needs; nil when nothing is.
	Lazy error
}

// MinimumBeat is the shortest lease machine-service grants, as the wire contract says; a shorter window lowers it with it.
const MinimumBeat = 6 * time.Minute

// Minimum is the shortest renewal worth asking for.
func (c Config) Minimum() time.Duration { return min(MinimumBeat, c.Window/2) }

// MachinesDir is where a service of our own keeps its state.
func (c Config) MachinesDir() string { return filepath.Join(c.StateDir, "machines") }

// Source is where values come from: the process's environment, or a map in tests.
type Source struct {
	Lookup func(name string) (value string, set bool)
	Cwd    string // absolute
	Home   string // the user's home, "" when unknown
}

// Fault is one variable that cannot be used.
type Fault struct {
	Variable string
	Message  string // what it must be, and what it was
}

func (f Fault) Error() string { return f.Variable + " " + f.Message }

// Faults are all that were found.
type Faults []Fault

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "; ")
}

func (fs Faults) orNil() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

// Load reads every variable. The error holds all faults that must stop the program (Faults); those that only a tool call
// reports are in Config.Lazy. It touches no file.
func Load(src Source) (Config, error) {
	r := reader{src: src}
	c := Config{
		Project:      r.project(),
		Session:      r.session(),
		Network:      r.choice("MCP_RELAY_GUEST_NETWORK", "nat", "nat", "internet"),
		OnExit:       r.choice("MCP_RELAY_ON_EXIT", OnExitPause, OnExitPause, OnExitRelease),
		Backend:      r.choice("MCP_RELAY_BACKEND", BackendAuto, BackendAuto, BackendService, BackendEmbedded),
		CapacityWait: r.duration("MCP_RELAY_CAPACITY_WAIT", time.Second, 1800, 0),
		MaxGuests:    int(r.integer("MCP_RELAY_MAX_GUESTS", 4, 1, 1_000_000)),
		Grace:        r.duration("MCP_RELAY_SHUTDOWN_GRACE_MS", time.Millisecond, 120_000, 0),
		Window:       r.duration("MCP_RELAY_LEASE_WINDOW_MS", time.Millisecond, 15*60*1000, 1000),
		Port:         int(r.integer("MCP_RELAY_MACHINES_PORT", 6240, 0, 65535)),
		Runtimes:     r.folders("MCP_RELAY_GUEST_RUNTIMES"),
	}
	c.URL, c.URLSet = r.origin()
	c.StateDir = r.stateDir()
	c.RuntimeDir = r.runtimeDir(c.StateDir)
	c.Tart, c.TartHome = r.tart()
	_, c.PythonSet = r.value("MCP_RELAY_PYTHON", &r.fatal)
	r.unsupported()
	c.Lazy = r.lazy.orNil()
	return c, r.fatal.orNil()
}

// reader collects faults while it reads.
type reader struct {
	src         Source
	fatal, lazy Faults
}

// value answers a variable that is set and not blank; set but blank is a fault of the given list.
func (r *reader) value(name string, faults *Faults) (string, bool) {
	v, set := r.src.Lookup(name)
	if !set {
		return "", false
	}
	if strings.TrimSpace(v) == "" {
		*faults = append(*faults, Fault{name, "is set but blank; unset it or give it a value"})
		return "", false
	}
	return v, true
}

func (r *reader) choice(name, fallback string, allowed ...string) string {
	v, set := r.value(name, &r.fatal)
	if !set {
		return fallback
	}
	for _, a := range allowed {
		if v == a {
			return v
		}
	}
	r.fatal = append(r.fatal, Fault{name, fmt.Sprintf("must be one of %s, not %q", strings.Join(allowed, ", "), v)})
	return fallback
}

func (r *reader) integer(name string, fallback, low, high int64) int64 {
	v, set := r.value(name, &r.fatal)
	if !set {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < low || n > high {
		r.fatal = append(r.fatal, Fault{name, fmt.Sprintf("must be a whole number from %d to %d, not %q", low, high, v)})
		return fallback
	}
	return n
}

func (r *reader) duration(name string, unit time.Duration, fallback, low int64) time.Duration {
	return time.Duration(r.integer(name, fallback, low, math.MaxInt64/int64(unit))) * unit
}

func (r *reader) project() string {
	v, set := r.src.Lookup("MCP_RELAY_PROJECT")
	// A host that does not expand its own placeholders hands them on; the working directory is what it meant.
	if !set || v == "" || strings.Contains(v, "${") {
		return r.src.Cwd
	}
	if filepath.IsAbs(v) {
		return filepath.Clean(v)
	}
	return filepath.Join(r.src.Cwd, v)
}

func (r *reader) session() string {
	if v, set := r.value("MCP_RELAY_SESSION", &r.fatal); set {
		return v
	}
	return rand.Text()
}

func (r *reader) origin() (string, bool) {
	v, set := r.value("MCP_RELAY_URL", &r.fatal)
	if !set {
		return DefaultURL, false
	}
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || !loopback(u.Hostname()) ||
		u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		r.fatal = append(r.fatal, Fault{"MCP_RELAY_URL",
			"must be the origin of a service on this machine, such as " + DefaultURL + " (loopback host; no user, path or query)"})
		return DefaultURL, true
	}
	return u.Scheme + "://" + u.Host, true
}

func loopback(host string) bool {
	if host == "localhost" || host == "::1" {
		return true
	}
	parts := strings.Split(host, ".")
	if len(parts) != 4 || parts[0] != "127" {
		return false
	}
	for _, p := range parts {
		if n, err := strconv.Atoi(p); err != nil || n < 0 || n > 255 {
			return false
		}
	}
	return true
}

// path reads an absolute path whose fault only a tool call reports.
func (r *reader) path(name string) (string, bool) {
	v, set := r.value(name, &r.lazy)
	if !set {
		return "", false
	}
	if !filepath.IsAbs(v) || strings.ContainsRune(v, 0) {
		r.lazy = append(r.lazy, Fault{name, fmt.Sprintf("must be an absolute path, not %q", v)})
		return "", false
	}
	return filepath.Clean(v), true
}

func (r *reader) stateDir() string {
	if v, set := r.path("MCP_RELAY_STATE_DIR"); set {
		return v
	}
	if v, set := r.path("XDG_STATE_HOME"); set {
		return filepath.Join(v, "mcp-relay")
	}
	if r.src.Home == "" {
		r.lazy = append(r.lazy, Fault{"MCP_RELAY_STATE_DIR", "must be set, because this user has no home directory"})
		return ""
	}
	return filepath.Join(r.src.Home, ".local", "state", "mcp-relay")
}

func (r *reader) runtimeDir(stateDir string) string {
	// A state directory of its own keeps its runtime files too: two of them must never meet.
	if _, own := r.src.Lookup("MCP_RELAY_STATE_DIR"); !own {
		if v, set := r.src.Lookup("XDG_RUNTIME_DIR"); set && filepath.IsAbs(v) {
			return filepath.Join(filepath.Clean(v), "mcp-relay")
		}
	}
	return filepath.Join(stateDir, "run")
}

func (r *reader) folders(name string) []string {
	v, set := r.value(name, &r.fatal)
	if !set {
		return nil
	}
	list := filepath.SplitList(v)
	for _, d := range list {
		if !filepath.IsAbs(d) {
			r.fatal = append(r.fatal, Fault{name, fmt.Sprintf("must list absolute folders, not %q", d)})
		}
	}
	return list
}

func (r *reader) tart() (program, home string) {
	program, home = "tart", filepath.Join(r.src.Home, ".tart")
	if v, set := r.value("TART", &r.lazy); set {
		program = v
	}
	if v, set := r.path("TART_HOME"); set {
		home = v
	}
	return program, home
}

// unsupported names what is set but cannot be honoured, rather than going on without it.
func (r *reader) unsupported() {
	if _, set := r.src.Lookup("VM_ENVIRONMENT_FILE"); set {
		r.lazy = append(r.lazy, Fault{"VM_ENVIRONMENT_FILE",
			"is set, but this build cannot select an environment profile; unset it, and use MCP_RELAY_URL, MCP_RELAY_STATE_DIR and TART_HOME instead"})
	}
}
