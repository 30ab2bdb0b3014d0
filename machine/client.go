package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of what is read from the service.
const (
	maxAnswer    = 4 << 20 // bytes of a success
	maxErrorBody = 4096    // bytes of a refusal; the rest is cut
)

// Operation names, as they stand in Error.Op.
const (
	OpHealth       = "health"
	OpImages       = "images"
	OpApplications = "applications"
	OpAcquire      = "acquire"
	OpList         = "list"
	OpGet          = "get"
	OpHeartbeat    = "heartbeat"
	OpExec         = "exec"
	OpPush         = "push"
	OpPull         = "pull"
	OpRelease      = "release"
)

// Timeouts bound each request, besides the caller's context. Zero means the default given here.
type Timeouts struct {
	Read      time.Duration // health, images: 5 s
	Lease     time.Duration // list, get, heartbeat: 10 s
	Catalogue time.Duration // applications: 660 s
	Acquire   time.Duration // 1 h
	Transfer  time.Duration // push, pull: 660 s, waiting in the machine's queue included
	Release   time.Duration // 120 s
	ExecSlack time.Duration // added to an exec's own timeout: 30 s
}

func (t *Timeouts) fill() {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&t.Read, 5*time.Second)
	set(&t.Lease, 10*time.Second)
	set(&t.Catalogue, 660*time.Second)
	set(&t.Acquire, time.Hour)
	set(&t.Transfer, 660*time.Second)
	set(&t.Release, 120*time.Second)
	set(&t.ExecSlack, 30*time.Second)
}

// Options of a Client.
type Options struct {
	URL      string // loopback origin: http://localhost:6240
	Timeouts Timeouts
}

// Client speaks to machine-service over loopback HTTP. It never retries, follows no redirect and uses no proxy. Safe for
// use by several goroutines.
type Client struct {
	origin string
	limits Timeouts
	http   *http.Client
}

var _ API = (*Client)(nil)

// New checks the origin and makes a client. Nothing is sent.
func New(opt Options) (*Client, error) {
	origin, err := loopbackOrigin(opt.URL)
	if err != nil {
		return nil, err
	}
	opt.Timeouts.fill()
	transport := &http.Transport{
		Proxy: nil,
		DialContext: (&net.Dialer{
			Timeout: 5 * time.Second,
		}).DialContext,
		// A connection of its own for each request: an idle one that the service just closed could take half a request with
		// it, and a connection on loopback costs nothing.
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{
		origin: origin,
		limits: opt.Timeouts,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// loopbackOrigin returns raw as scheme://host[:port] if it names this host's loopback and nothing more.
func loopbackOrigin(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("cannot use machine-service address: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		err = errors.New("it must begin with http:// or https://")
	case u.User != nil:
		err = errors.New("it must not carry a user or password")
	case u.Path != "" && u.Path != "/":
		err = errors.New("it must not have a path")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(raw, "#"):
		err = errors.New("it must not have a query or fragment")
	case !loopbackHost(u.Hostname()):
		err = errors.New("it must be localhost, ::1 or 127.x.x.x")
	}
	if err != nil {
		return "", fmt.Errorf("cannot use machine-service address %q: %w", u.Redacted(), err)
	}
	return u.Scheme + "://" + u.Host, nil
}

func loopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == "" && !ip.Is4In6() && ip.IsLoopback()
}

// Origin is the service's address: scheme://host:port.
func (c *Client) Origin() string { return c.origin }

// Health asks who answers. A success is machine-service; anything else is ErrNotMachineService.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	body, err := c.get(ctx, OpHealth, "/health", c.limits.Read)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return h, fmt.Errorf("%w: what answers at %s speaks no machine-service health: %v", ErrNotMachineService, c.origin, err)
	}
	if !h.OK || h.Service != ServiceName {
		return h, fmt.Errorf("%w: what answers at %s calls itself %q (ok: %t); start machine-service, or upgrade an older vm-service to it",
			ErrNotMachineService, c.origin, h.Service, h.OK)
	}
	return h, nil
}

// Images lists the images the service can start from.
func (c *Client) Images(ctx context.Context) (Images, error) {
	body, err := c.get(ctx, OpImages, "/images", c.limits.Read)
	if err != nil {
		return Images{}, err
	}
	return decodeImages(body)
}

// Applications returns the whole validated inventory.
func (c *Client) Applications(ctx context.Context) (Catalogue, error) {
	body, err := c.get(ctx, OpApplications, "/applications", c.limits.Catalogue)
	if err != nil {
		return Catalogue{}, err
	}
	return DecodeCatalogue(body)
}

// Acquire asks for a machine, once. Once sent it does not heed ctx: it waits for the answer, so that the lease can be owned.
func (c *Client) Acquire(ctx context.Context, req AcquireRequest) (Lease, error) {
	if err := ctx.Err(); err != nil {
		return Lease{}, fmt.Errorf("cannot acquire: %w: %w", ErrNotSent, err)
	}
	payload, err := encodeAcquire(req)
	if err != nil {
		return Lease{}, fmt.Errorf("cannot acquire: %w: %w", ErrNotSent, err)
	}
	header := http.Header{}
	if req.Instance != "" {
		header.Set(InstanceHeader, req.Instance)
	}
	body, err := c.do(context.WithoutCancel(ctx), OpAcquire, http.MethodPost, "/acquire", payload, header, c.limits.Acquire)
	if err != nil {
		return Lease{}, err
	}
	lease, err := decodeLease(body)
	if err != nil {
		return Lease{}, fmt.Errorf("cannot tell what acquire did: %w", err)
	}
	if lease.Purpose != req.Purpose || lease.Image != req.Image {
		return Lease{}, fmt.Errorf("cannot tell what acquire did: %w: a lease for purpose %q and image %q", ErrMalformed, lease.Purpose, lease.Image)
	}
	return lease, nil
}

// List returns every lease of the service, whoever holds it, by name.
func (c *Client) List(ctx context.Context) (map[string]Lease, error) {
	body, err := c.get(ctx, OpList, "/machines", c.limits.Lease)
	if err != nil {
		return nil, err
	}
	return decodeList(body)
}

// Get reads one lease.
func (c *Client) Get(ctx context.Context, name string) (Lease, error) {
	path, err := itemPath(name, "")
	if err != nil {
		return Lease{}, err
	}
	body, err := c.get(ctx, OpGet, path, c.limits.Lease)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound && e.worded {
		e.Code = CodeUnknownMachine
	}
	if err != nil {
		return Lease{}, err
	}
	return decodeNamedLease(body, name)
}

// Heartbeat makes the lease end ttl from now.
func (c *Client) Heartbeat(ctx context.Context, name string, ttl time.Duration) (Lease, error) {
	path, err := itemPath(name, "/heartbeat")
	if err != nil {
		return Lease{}, err
	}
	if ttl <= 0 || ttl > MaxTTL {
		return Lease{}, fmt.Errorf("cannot renew %s: %w: ttl %s is not within (0, %s]", name, ErrNotSent, ttl, MaxTTL)
	}
	body, err := c.postJSON(ctx, OpHeartbeat, path, map[string]any{"ttl_hours": ttl.Hours()}, c.limits.Lease)
	if err != nil {
		return Lease{}, err
	}
	return decodeNamedLease(body, name)
}

// Exec runs argv in the machine. A timeout of the command is an *Error with CodeExecTimeout and what it had printed.
func (c *Client) Exec(ctx context.Context, name string, req ExecRequest) (ExecResult, error) {
	path, err := itemPath(name, "/exec")
	if err != nil {
		return ExecResult{}, err
	}
	if len(req.Argv) == 0 {
		return ExecResult{}, fmt.Errorf("cannot exec in %s: %w: argv is empty", name, ErrNotSent)
	}
	seconds := int64(math.Max(1, math.Ceil(req.Timeout.Seconds())))
	limit := time.Duration(seconds)*time.Second + c.limits.ExecSlack
	if limit < 0 {
		limit = math.MaxInt64
	}
	body, err := c.postJSON(ctx, OpExec, path, map[string]any{"argv": req.Argv, "timeout": seconds}, limit)
	if err != nil {
		return ExecResult{}, err
	}
	return decodeExec(body)
}

// Push copies a file or tree of this host into the machine. local is made absolute.
func (c *Client) Push(ctx context.Context, name, local, remote string) error {
	return c.transfer(ctx, OpPush, name, local, remote)
}

// Pull copies a file or tree of the machine to this host. local is made absolute.
func (c *Client) Pull(ctx context.Context, name, remote, local string) error {
	return c.transfer(ctx, OpPull, name, local, remote)
}

func (c *Client) transfer(ctx context.Context, op, name, local, remote string) error {
	path, err := itemPath(name, "/"+op)
	if err != nil {
		return err
	}
	local, err = filepath.Abs(local)
	if err != nil {
		return fmt.Errorf("cannot %s: %w: %w", op, ErrNotSent, err)
	}
	body, err := c.postJSON(ctx, op, path, map[string]any{"local_path": local, "remote_path": remote}, c.limits.Transfer)
	if err != nil {
		return err
	}
	return decodeDone(op, body)
}

// Release ends the lease; nil means that the service verified the machine's destruction.
func (c *Client) Release(ctx context.Context, name, reason string) error {
	path, err := itemPath(name, "/release")
	if err != nil {
		return err
	}
	body, err := c.postJSON(ctx, OpRelease, path, map[string]any{"reason": reason}, c.limits.Release)
	if err != nil {
		return err
	}
	return decodeReleased(body)
}

var machineName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// itemPath is the path of one machine, with an action or without.
func itemPath(name, action string) (string, error) {
	if !machineName.MatchString(name) {
		return "", fmt.Errorf("cannot ask about machine %q: %w: it is not a machine name", name, ErrNotSent)
	}
	return "/machines/" + url.PathEscape(name) + action, nil
}

func (c *Client) get(ctx context.Context, op, path string, limit time.Duration) ([]byte, error) {
	return c.do(ctx, op, http.MethodGet, path, nil, nil, limit)
}

func (c *Client) postJSON(ctx context.Context, op, path string, payload any, limit time.Duration) ([]byte, error) {
	data, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("cannot %s: %w: %w", op, ErrNotSent, err)
	}
	return c.post(ctx, op, path, data, limit)
}

func (c *Client) post(ctx context.Context, op, path string, payload []byte, limit time.Duration) ([]byte, error) {
	return c.do(ctx, op, http.MethodPost, path, payload, nil, limit)
}

// do sends one request, once, and returns the body of a 200.
func (c *Client) do(ctx context.Context, op, method, path string, payload []byte, header http.Header, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	var reader io.Reader
	if payload != nil {
		reader = bytes.NewReader(payload) // known length: the service reads a body by its Content-Length
	}
	req, err := http.NewRequestWithContext(ctx, method, c.origin+path, reader)
	if err != nil {
		return nil, fmt.Errorf("cannot %s: %w: %w", op, ErrNotSent, err)
	}
	maps.Copy(req.Header, header)
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
		req.GetBody = nil // never sent a second time
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, transportError(op, connected.Load(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(op, resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, transportError(op, connected.Load(), err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("cannot read the answer to %s: %w: more than %d bytes", op, ErrMalformed, maxAnswer)
	}
	return body, nil
}

// transportError words a failure without an answer. Only a request that never had a connection was surely not sent.
func transportError(op string, connected bool, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if !connected {
		return fmt.Errorf("cannot reach machine-service for %s: %w: %w", op, ErrNotSent, err)
	}
	return fmt.Errorf("cannot tell what %s did: the connection to machine-service was lost or timed out: %w", op, err)
}

// refusal reads an answer that is not a success.
func refusal(op string, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody+1)) // what arrived is all there is to say
	return parseRefusal(op, resp.StatusCode, body)
}
