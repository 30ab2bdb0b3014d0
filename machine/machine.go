package machine

import (
	"context"
	"time"
)

// MaxTransfer is how many bytes one file may have that is pulled from a machine: a sparse file of any size costs a guest nothing.
const MaxTransfer = 16 << 30

// States of a lease. Every one of them counts for capacity; only a running one takes commands.
const (
	StatePending      = "pending"
	StateProvisioning = "provisioning"
	StateRunning      = "running"
	StateReleasing    = "releasing"
)

// Lease is machine-service's record of one machine. Name is the key "machine" or "vm" on the wire; both must agree when
// both are present. Times are unix seconds with fraction.
type Lease struct {
	Name         string         `json:"machine"`
	Purpose      string         `json:"purpose"`
	Image        string         `json:"image"`
	ImageKind    string         `json:"image_kind"` // linux, macos
	LeaseID      string         `json:"lease_id,omitempty"`
	State        string         `json:"state"`
	Env          *string        `json:"env"`
	CreatedAt    float64        `json:"created_at"`
	TTLExpiresAt float64        `json:"ttl_expires_at"`
	GraceUntil   *float64       `json:"grace_until"`
	Warned       bool           `json:"warned"`
	IP           *string        `json:"ip"`
	CPU          *int           `json:"cpu"`
	MemoryMB     *int           `json:"memory_mb"`
	DiskGB       *int           `json:"disk_gb"`
	Network      string         `json:"network,omitempty"`
	Facts        map[string]any `json:"facts,omitempty"` // ours: isolation, limits really set, display; absent elsewhere
	Running      *bool          `json:"actually_running,omitempty"`
}

// Health is the answer of GET /health.
type Health struct {
	OK          bool              `json:"ok"`
	Service     string            `json:"service"`
	Environment map[string]string `json:"environment,omitempty"`
	UID         *int              `json:"uid,omitempty"` // ours: the user it runs as, and serves
	Instance    string            `json:"instance,omitempty"`
	Folder      string            `json:"folder,omitempty"` // ours: names the state folder it owns without showing it, see FolderID
}

// ServiceName is what Health.Service must say.
const ServiceName = "machine-service"

// Image is one entry of GET /images.
type Image struct {
	Kind          string       `json:"kind"`
	BaseAvailable bool         `json:"base_available"`
	Concurrency   *Concurrency `json:"concurrency,omitempty"`
}

// Concurrency of an image; Limit nil means none.
type Concurrency struct {
	Running    int  `json:"running"`
	Limit      *int `json:"limit"`
	Acquirable bool `json:"acquirable"`
}

// Images is the answer of GET /images. Capacity is passed on as the service gave it.
type Images struct {
	Images   map[string]Image `json:"images"`
	Capacity map[string]any   `json:"capacity"`
}

// Application is one entry of an image's inventory.
type Application struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	Version *string  `json:"version"`
}

// ImageInventory is what one image has installed.
type ImageInventory struct {
	Image        string        `json:"image"`
	OS           string        `json:"os"`           // linux, macos
	Architecture string        `json:"architecture"` // arm64, x86_64
	Applications []Application `json:"applications"`
}

// Catalogue is the validated answer of GET /applications.
type Catalogue struct {
	SchemaVersion int              `json:"schemaVersion"`
	Images        []ImageInventory `json:"images"`
}

// Capture software, as application ids of the catalogue: an image that lists one of them takes snapshots of its runs.
const (
	CaptureCuaMac   = "bundle:com.trycua.driver"
	CaptureCuaLinux = "dpkg:cua-driver"
	CaptureX11      = "relay:x11-capture"
)

// AcquireRequest is what we ask for. TTL is the first window, not the caller's whole time. VNC nil is not sent.
type AcquireRequest struct {
	Purpose string
	Image   string
	Env     string // credential pack; "" means none
	TTL     time.Duration
	Network string // nat, internet
	VNC     *bool
	// Instance, ours: only the process that Health calls so may do it, any other refuses with CodeOtherInstance. "" is any. So it is
	// known, whatever becomes of the answer, which process has the request or had it.
	Instance string
}

// InstanceHeader carries AcquireRequest.Instance: a service that knows nothing of it takes no offence.
const InstanceHeader = "Machine-Instance"

// ExecRequest runs Argv directly, without a shell, in the guest user's home, with empty stdin. Timeout is rounded up to
// whole seconds, at least one.
type ExecRequest struct {
	Argv    []string
	Timeout time.Duration
}

// ExecResult holds both streams merged, the last 64,000 code points of them.
type ExecResult struct {
	Code   int
	Output string
}

// API is machine-service as the relay uses it. *Client and *fake.Service implement it, and both pass machinetest.
//
// Every method returns *Error for an answer of the service and a transport error otherwise; Refused, Indeterminate and
// Transient sort them. Nothing is retried inside. Cancelling ctx ends the wait, never the work in the guest, and Acquire,
// once sent, is not cancellable: the lease it may have made must be owned.
type API interface {
	Origin() string // scheme://host:port
	Health(ctx context.Context) (Health, error)
	Images(ctx context.Context) (Images, error)
	Applications(ctx context.Context) (Catalogue, error)
	Acquire(ctx context.Context, req AcquireRequest) (Lease, error)
	List(ctx context.Context) (map[string]Lease, error)
	Get(ctx context.Context, name string) (Lease, error) // ErrUnknownMachine when the service has no such lease
	Heartbeat(ctx context.Context, name string, ttl time.Duration) (Lease, error)
	Exec(ctx context.Context, name string, req ExecRequest) (ExecResult, error)
	Push(ctx context.Context, name, local, remote string) error // host -> guest; parents of remote must exist
	Pull(ctx context.Context, name, remote, local string) error // guest -> host; parents of local are made
	Release(ctx context.Context, name, reason string) error     // nil only after verified destruction
}

// Witness proves destruction without asking the service: it lists every machine the host still has, in any state.
type Witness interface {
	Machines(ctx context.Context) ([]string, error)
}
