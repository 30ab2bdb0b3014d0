package service

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/catalogue"
)

// listLimit bounds what a read asks of the driver; clients wait 5 s.
const listLimit = 4 * time.Second

// object is an answer whose keys are fixed where it is made.
type object map[string]any

// health needs neither state nor driver. It is the one answer that other users get. A service that is leaving is not ok, so
// that whoever looks for one starts another.
func (s *Service) health() machine.Health {
	uid := os.Getuid()
	return machine.Health{OK: !s.activity.isLeaving(), Service: machine.ServiceName, UID: &uid, Instance: s.instance, Folder: FolderID(s.cfg.StateDir)}
}

func (s *Service) index(*http.Request) (any, error) {
	return object{"service": machine.ServiceName,
		"endpoints": []string{"/health", "/images", "/applications", "/machines", "/machines/{name}"}}, nil
}

// capabilities lists no network: whether one can be given is proved at acquire, which refuses with the reason.
func (s *Service) capabilities(*http.Request) (any, error) {
	return object{"capabilities": []any{}, "unavailable": []any{object{
		"capability": "control-only", "available": false, "reason": "this service has no control-only network"}}}, nil
}

func (s *Service) images(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), listLimit)
	defer cancel()
	images, err := s.cfg.Driver.Images(ctx)
	if err != nil {
		return nil, refuse(machine.CodeImageUnavailable, "cannot list the images: %v", err)
	}
	leases := s.store.all()
	var limit *int
	if s.cfg.MaxMachines > 0 {
		limit = &s.cfg.MaxMachines
	}
	free := limit == nil || len(leases) < *limit
	byName := object{}
	for _, image := range images {
		purposes := []string{}
		for _, lease := range leases {
			if lease.Image == image.Name {
				purposes = append(purposes, lease.Purpose)
			}
		}
		slices.Sort(purposes)
		entry := object{
			"kind": imageKind, "base_vm": image.Name, "base_available": image.Unavailable == "", "clone_prefix": "",
			"defaults":        object{"cpu": positive(s.cfg.CPU), "memory_mb": positive(s.cfg.MemoryMB), "disk_gb": nil},
			"source":          "driver:" + s.cfg.Driver.Name(),
			"concurrency":     object{"running": len(purposes), "limit": limit, "acquirable": free && image.Unavailable == ""},
			"active_purposes": purposes, "display": image.Display,
		}
		if image.Unavailable != "" {
			entry["unavailable"] = image.Unavailable
		}
		byName[image.Name] = entry
	}
	return object{"images": byName, "capacity": object{
		"linux_running": len(leases), "linux_limit": limit, "macos_running": 0, "macos_limit": 0}}, nil
}

// positive is null where the driver decides.
func positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

func (s *Service) applications(r *http.Request) (any, error) {
	images, err := s.cfg.Driver.Images(r.Context())
	if err == nil {
		var c machine.Catalogue
		if c, err = catalogue.Build(images, s.cfg.DpkgStatus); err == nil {
			return c, nil
		}
	}
	return nil, uncertain(machine.CodeCatalogue, err, "catalog unavailable: %v", err)
}

func (s *Service) acquisitionCapabilities(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), listLimit)
	defer cancel()
	images, err := s.cfg.Driver.Images(ctx)
	configured := []object{}
	status, first := "unverified", ""
	if err == nil {
		status = "configured"
		for _, image := range images {
			configured = append(configured, object{"image": image.Name, "os": imageKind})
		}
		if len(images) > 0 {
			first = images[0].Name
		}
	}
	integer := object{"type": "integer", "nullable": true, "minimum": 1, "default": nil}
	return object{
		"schemaVersion": 1, "service": machine.ServiceName,
		"options": object{
			"purpose":   object{"type": "string", "required": true},
			"image":     object{"default": first},
			"env":       object{"default": "none"},
			"ttl_hours": object{"type": "number", "default": s.cfg.DefaultTTL.Hours(), "minimum": s.cfg.MinTTL.Hours(), "maximum": machine.MaxTTL.Hours()},
			"wait":      object{"type": "boolean", "default": true, "synchronous": true},
			"source":    object{"default": "base", "values": []string{"base"}},
			"network":   object{"default": "nat", "values": []string{"nat", "internet"}},
			"cpu":       integer, "memory_mb": integer, "disk_gb": integer,
			"vnc": object{"default": false, "viewer_location": "service-host", "runtime": s.cfg.Driver.Name(),
				"backends": object{"linux": noConsole("linux"), "macos": noConsole("macos")}},
		},
		"image_configuration": object{"status": status, "images": configured, "source": "startup-image-configuration"},
		"runtime_readiness":   "unverified",
		"note":                "a network that cannot be given is refused at acquire, with the reason",
	}, nil
}

func noConsole(system string) object {
	return object{"available": false, "status": "unavailable", "reason": "this service has no consoles", "backend": "none-" + system,
		"guest_readiness": "unverified", "viewer_location": "service-host", "authentication": "unverified",
		"session_binding": "unverified", "server_enforced_view_only": false, "pixels": "unverified", "human_confirmation": "unverified"}
}

func refuseConsole(name string, body []byte) (any, error) {
	return nil, refuse(machine.CodeConsoleUnavailable, "console unavailable: this service has no consoles")
}

func (s *Service) list(*http.Request) (any, error) {
	now := wallClock()
	leases := map[string]wireLease{}
	for name, r := range s.store.all() {
		leases[name] = s.observed(name, r, now)
	}
	_, port, err := net.SplitHostPort(s.Addr())
	number, numberErr := strconv.Atoi(port)
	if err != nil || numberErr != nil {
		number = 0
	}
	return object{"machines": leases, "vms": leases, "port": number,
		"limits": object{"max_macos_running": 0, "max_linux_running": positive(s.cfg.MaxMachines), "grace_hours": s.cfg.Grace.Hours()}}, nil
}

func (s *Service) item(name string) (any, error) {
	r, ok := s.store.get(name)
	if !ok {
		return nil, &refusal{Status: http.StatusNotFound, Code: machine.CodeUnknownMachine, Text: "unknown VM"}
	}
	return s.observed(name, r, wallClock()), nil
}

// observed adds what the kernel says now, without asking the guest.
func (s *Service) observed(name string, r record, now time.Time) wireLease {
	w := r.snapshot(name, now)
	guest := s.knownGuest(name)
	running := guest != nil && guest.Alive()
	w.Running = &running
	return w
}

// collect runs one reaper pass, after the one at work if there is one.
func (s *Service) collect(r *http.Request, _ []byte) (any, error) {
	if err := s.reaping.take(r.Context()); err != nil {
		return nil, uncertain(machine.CodeInternal, err, "another pass is still at work")
	}
	defer s.reaping.give()
	s.pass(s.base)
	return object{"gc": "done"}, nil
}

func (s *Service) serveHeartbeat(name string, body []byte) (any, error) {
	f, err := parseFields(body)
	if err != nil {
		return nil, err
	}
	ttl, err := s.ttl(f, 0)
	if err != nil {
		return nil, err
	}
	return s.heartbeat(name, ttl)
}

func (s *Service) serveExec(name string, body []byte) (any, error) {
	f, err := parseFields(body)
	if err != nil {
		return nil, err
	}
	argv, err := command(f)
	if err != nil {
		return nil, err
	}
	limit, err := timeout(f)
	if err != nil {
		return nil, err
	}
	return s.exec(name, argv, limit)
}

func (s *Service) servePush(name string, body []byte) (any, error) {
	local, remote, err := parsePaths(body)
	if err != nil {
		return nil, err
	}
	if err := s.push(name, local, remote); err != nil {
		return nil, err
	}
	return object{"machine": name, "vm": name, "pushed": local, "to": remote}, nil
}

func (s *Service) servePull(name string, body []byte) (any, error) {
	local, remote, err := parsePaths(body)
	if err != nil {
		return nil, err
	}
	if err := s.pull(name, remote, local); err != nil {
		return nil, err
	}
	return object{"machine": name, "vm": name, "pulled": remote, "to": local}, nil
}

func parsePaths(body []byte) (local, remote string, err error) {
	f, err := parseFields(body)
	if err != nil {
		return "", "", err
	}
	return pathPair(f)
}

func (s *Service) serveRelease(name string, body []byte) (any, error) {
	f, err := parseFields(body)
	if err != nil {
		return nil, err
	}
	why, err := reason(f)
	if err != nil {
		return nil, err
	}
	if err := s.end(name, why); err != nil {
		return nil, err
	}
	return object{"machine": name, "vm": name, "released": true, "reason": why}, nil
}
