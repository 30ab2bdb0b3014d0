package guest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// Defaults of Options.
const (
	DefaultGuestBase = "/var/tmp"
	DefaultWindow    = 15 * time.Minute
	DefaultMinimum   = 6 * time.Minute
	DefaultTTLHours  = 4.0
)

// Networks a guest may be given.
const (
	NetworkNAT      = "nat"
	NetworkInternet = "internet"
)

// Options of a session. StateDir, Session, Project, API, Witness and Runtime are required.
type Options struct {
	StateDir string // absolute; made when the first guest is
	Session  string // the session identity; nonblank
	Project  string // absolute; the only folder whose files are read, and where evidence goes
	Network  string // nat (default) or internet; asked for with every acquisition

	GuestBase string            // absolute folder in the guest for guest roots; default /var/tmp
	Backend   map[string]string // what binds a guest to its machine-service; default {"endpoint": API.Origin()}

	API     machine.API
	Witness machine.Witness
	Runtime func(goos, goarch string) (path string, err error) // the guest runtime for such a guest

	Window  time.Duration // one renewal asks for at most this; default 15 min
	Minimum time.Duration // machine-service renews for no less; default 6 min

	Now  func() time.Time // default time.Now
	Emit func(Event)      // told of every event, after it is durable; must not block; may be nil
}

// withDefaults fills what has a default and reports every fault at once.
func (o Options) withDefaults() (Options, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Network == "" {
		o.Network = NetworkNAT
	}
	if o.GuestBase == "" {
		o.GuestBase = DefaultGuestBase
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.Minimum == 0 {
		o.Minimum = DefaultMinimum
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for name, path := range map[string]string{"state directory": o.StateDir, "project": o.Project, "guest base": o.GuestBase} {
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			fault("the %s %q is not an absolute path", name, path)
		}
	}
	if strings.TrimSpace(o.Session) == "" {
		fault("the session identity is blank")
	}
	if o.Network != NetworkNAT && o.Network != NetworkInternet {
		fault("the guest network %q is neither nat nor internet", o.Network)
	}
	if o.Minimum <= 0 || o.Window < o.Minimum {
		fault("the renewal window %v is shorter than the shortest renewal %v", o.Window, o.Minimum)
	}
	if o.API == nil || o.Witness == nil || o.Runtime == nil {
		fault("machine-service, its witness and the guest runtime must be given")
	}
	if len(faults) > 0 {
		return o, fmt.Errorf("cannot use these guest options: %w", errors.Join(faults...))
	}
	if len(o.Backend) == 0 {
		o.Backend = map[string]string{"endpoint": o.API.Origin()}
	}
	return o, nil
}
