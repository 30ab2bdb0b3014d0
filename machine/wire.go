package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MaxTTL is the longest lease window the service grants at once.
const MaxTTL = 720 * time.Hour

// encodeAcquire is the closed acquire body: options that are not set are left out, never null.
func encodeAcquire(req AcquireRequest) ([]byte, error) {
	if req.TTL <= 0 || req.TTL > MaxTTL {
		return nil, fmt.Errorf("ttl %s is not within (0, %s]", req.TTL, MaxTTL)
	}
	env := req.Env
	if env == "" {
		env = "none"
	}
	return json.Marshal(struct {
		Purpose string  `json:"purpose"`
		Image   string  `json:"image"`
		Env     string  `json:"env"`
		TTL     float64 `json:"ttl_hours"`
		Wait    bool    `json:"wait"`
		Network string  `json:"network,omitempty"`
		VNC     *bool   `json:"vnc,omitempty"`
	}{req.Purpose, req.Image, env, req.TTL.Hours(), true, req.Network, req.VNC})
}

// decodeLease accepts a lease record only whole; every error is ErrMalformed.
func decodeLease(body []byte) (Lease, error) {
	lease, err := parseLease(body)
	if err != nil {
		return Lease{}, fmt.Errorf("%w: lease record: %w", ErrMalformed, err)
	}
	return lease, nil
}

func parseLease(body []byte) (Lease, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return Lease{}, err
	}
	for _, key := range []string{"env", "ip", "cpu", "memory_mb", "disk_gb", "grace_until"} {
		if _, ok := keys[key]; !ok {
			return Lease{}, fmt.Errorf("%s is missing", key)
		}
	}
	for _, key := range []string{"created_at", "ttl_expires_at", "warned"} {
		if raw, ok := keys[key]; !ok || isNull(raw) {
			return Lease{}, fmt.Errorf("%s is missing", key)
		}
	}
	name, err := eitherName(keys)
	if err != nil {
		return Lease{}, err
	}
	var lease Lease
	if err := json.Unmarshal(body, &lease); err != nil {
		return Lease{}, err
	}
	lease.Name = name
	switch {
	case lease.Purpose == "":
		return Lease{}, errors.New("purpose is missing")
	case lease.Image == "":
		return Lease{}, errors.New("image is missing")
	case lease.ImageKind != "linux" && lease.ImageKind != "macos":
		return Lease{}, fmt.Errorf("image_kind is %q", lease.ImageKind)
	}
	switch lease.State {
	case StatePending, StateProvisioning, StateRunning, StateReleasing:
	default:
		return Lease{}, fmt.Errorf("state is %q", lease.State)
	}
	return lease, nil
}

// eitherName reads the lease name under its new or its old key.
func eitherName(keys map[string]json.RawMessage) (string, error) {
	var name string
	for _, key := range []string{"machine", "vm"} {
		raw, ok := keys[key]
		if !ok {
			continue
		}
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		if name != "" && value != name {
			return "", fmt.Errorf("machine and vm disagree: %q and %q", name, value)
		}
		name = value
	}
	if !machineName.MatchString(name) {
		return "", fmt.Errorf("%q is not a machine name", name)
	}
	return name, nil
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// decodeNamedLease is decodeLease for a lease whose name is known.
func decodeNamedLease(body []byte, name string) (Lease, error) {
	lease, err := decodeLease(body)
	if err == nil && lease.Name != name {
		err = fmt.Errorf("%w: asked about %s, answered about %s", ErrMalformed, name, lease.Name)
	}
	return lease, err
}

func decodeList(body []byte) (map[string]Lease, error) {
	var answer struct {
		Machines map[string]json.RawMessage `json:"machines"`
		VMs      map[string]json.RawMessage `json:"vms"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%w: list of machines: %w", ErrMalformed, err)
	}
	entries := answer.Machines
	if entries == nil {
		entries = answer.VMs
	}
	if entries == nil {
		return nil, fmt.Errorf("%w: list of machines has neither machines nor vms", ErrMalformed)
	}
	leases := make(map[string]Lease, len(entries))
	for name, raw := range entries {
		lease, err := decodeNamedLease(raw, name)
		if err != nil {
			return nil, fmt.Errorf("list of machines: %s: %w", name, err)
		}
		leases[name] = lease
	}
	return leases, nil
}

func decodeImages(body []byte) (Images, error) {
	var images Images
	if err := json.Unmarshal(body, &images); err != nil {
		return Images{}, fmt.Errorf("%w: images: %w", ErrMalformed, err)
	}
	if images.Images == nil {
		return Images{}, fmt.Errorf("%w: images has no images", ErrMalformed)
	}
	return images, nil
}

func decodeExec(body []byte) (ExecResult, error) {
	var answer struct {
		RC     *int    `json:"rc"`
		Output *string `json:"output"`
	}
	err := json.Unmarshal(body, &answer)
	if err != nil || answer.RC == nil || answer.Output == nil {
		return ExecResult{}, fmt.Errorf("cannot tell what exec did: %w: it lacks rc or output", ErrMalformed)
	}
	return ExecResult{Code: *answer.RC, Output: *answer.Output}, nil
}

func decodeDone(op string, body []byte) error {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("cannot tell what %s did: %w: %w", op, ErrMalformed, err)
	}
	return nil
}

func decodeReleased(body []byte) error {
	var answer struct {
		Released bool   `json:"released"`
		Reason   string `json:"reason"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("cannot tell what release did: %w: %w", ErrMalformed, err)
	}
	if !answer.Released {
		return fmt.Errorf("cannot confirm release: %w: machine-service says it did not release (%s)", ErrMalformed, answer.Reason)
	}
	return nil
}
