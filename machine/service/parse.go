package service

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

var (
	purposeGrammar = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	leaseName      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// fields is a request body: a JSON object whose values are not read yet.
type fields map[string]json.RawMessage

func invalid(format string, args ...any) *refusal {
	return refuse(machine.CodeInvalidRequest, format, args...)
}

// parseFields reads a body; none at all is an empty object.
func parseFields(body []byte) (fields, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return fields{}, nil
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, invalid("invalid JSON: %v", err)
	}
	if f == nil {
		return nil, invalid("invalid JSON: the body must be an object")
	}
	return f, nil
}

// text reads a string; absent is def. Null and any other type are refused.
func (f fields) text(key, def string) (string, error) {
	raw, ok := f[key]
	if !ok {
		return def, nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", invalid("%s must be a string", key)
	}
	return *s, nil
}

func (f fields) boolean(key string, def bool) (bool, error) {
	raw, ok := f[key]
	if !ok {
		return def, nil
	}
	var b *bool
	if err := json.Unmarshal(raw, &b); err != nil || b == nil {
		return false, invalid("%s must be a boolean", key)
	}
	return *b, nil
}

// count reads a positive integer; absent and null are nil.
func (f fields) count(key string) (*int, error) {
	raw, ok := f[key]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil || n <= 0 {
		return nil, invalid("%s must be a positive integer or null", key)
	}
	i := int(n)
	return &i, nil
}

// ttl reads ttl_hours, a number or a numeric string; absent is def.
func (s *Service) ttl(f fields, def time.Duration) (time.Duration, error) {
	raw, ok := f["ttl_hours"]
	if !ok {
		return def, nil
	}
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		if json.Unmarshal(raw, &text) != nil {
			text = ""
		}
		text = strings.TrimSpace(text)
	}
	value, err := strconv.ParseFloat(text, 64)
	shortest := s.cfg.MinTTL.Hours()
	if err != nil || math.IsNaN(value) || value < shortest || value > machine.MaxTTL.Hours() {
		return 0, invalid("ttl_hours must be a number from %g to %g", shortest, machine.MaxTTL.Hours())
	}
	return time.Duration(value * float64(time.Hour)), nil
}

// acquireOrder is what a valid acquire asks for.
type acquireOrder struct {
	purpose string
	image   string // "": the first there is
	network string
	ttl     time.Duration
	wait    bool
	resources
}

var acquireKeys = []string{"purpose", "image", "line", "env", "pack", "lane", "ttl_hours", "cpu", "memory_mb", "disk_gb", "wait",
	"network", "profile", "source", "expected_source_fingerprint", "vnc"}

// parseAcquire checks a closed body. Everything it refuses has allocated nothing.
func (s *Service) parseAcquire(body []byte) (acquireOrder, error) {
	var o acquireOrder
	f, err := parseFields(body)
	if err != nil {
		return o, err
	}
	if err := checkAcquireShape(f); err != nil {
		return o, err
	}
	if o.image, err = f.alias("image", "line"); err != nil {
		return o, err
	}
	if o.wait, err = f.boolean("wait", true); err != nil {
		return o, err
	}
	if o.purpose, err = f.text("purpose", ""); err != nil {
		return o, err
	}
	for key, into := range map[string]**int{"cpu": &o.CPU, "memory_mb": &o.MemoryMB, "disk_gb": &o.DiskGB} {
		if *into, err = f.count(key); err != nil {
			return o, err
		}
	}
	if o.ttl, err = s.ttl(f, s.cfg.DefaultTTL); err != nil {
		return o, err
	}
	if o.network, err = network(f); err != nil {
		return o, err
	}
	if !purposeGrammar.MatchString(o.purpose) {
		return o, invalid("purpose must be 1 to 64 of a-z, 0-9 and -, beginning with a letter or digit")
	}
	return o, refuseUnoffered(f)
}

// checkAcquireShape refuses unknown keys and two spellings of one key.
func checkAcquireShape(f fields) error {
	var unknown []string
	for key := range f {
		if !slices.Contains(acquireKeys, key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return invalid("unknown acquisition fields: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// alias reads a string that has more than one spelling of its key, of which at most one may be there.
func (f fields) alias(keys ...string) (string, error) {
	found := ""
	for _, key := range keys {
		if _, ok := f[key]; !ok {
			continue
		}
		if found != "" {
			return "", invalid("ambiguous aliases: %s and %s", found, key)
		}
		found = key
	}
	return f.text(found, "")
}

func network(f fields) (string, error) {
	name, err := f.text("network", "nat")
	switch {
	case err != nil:
		return "", err
	case name == "control-only":
		return "", refuse(machine.CodeNetworkUnavailable, "network control-only is unavailable")
	case name != "nat" && name != "internet":
		return "", invalid("network must be nat or internet")
	}
	return name, nil
}

// refuseUnoffered refuses what the contract knows and this service does not have.
func refuseUnoffered(f fields) error {
	vnc, err := f.boolean("vnc", false)
	if err != nil {
		return err
	}
	if vnc {
		return refuse(machine.CodeConsoleUnavailable, "VNC unavailable: this service has no consoles")
	}
	source, err := f.text("source", "base")
	if err != nil {
		return err
	}
	if source != "base" {
		return invalid("source must be base: this service has no work images")
	}
	for _, key := range []string{"profile", "expected_source_fingerprint"} {
		if _, ok := f[key]; ok {
			return invalid("%s is not applicable", key)
		}
	}
	pack, err := f.alias("env", "pack", "lane")
	if err != nil {
		return err
	}
	if pack != "" && pack != "none" {
		return invalid("credential pack not found: %q; this service has none", pack)
	}
	return nil
}

// command reads argv, or makes one of script, which wins when both are there.
func command(f fields) ([]string, error) {
	if _, ok := f["script"]; ok {
		script, err := f.text("script", "")
		if err != nil {
			return nil, err
		}
		return []string{"bash", "-c", script}, nil
	}
	var words []json.RawMessage
	if raw, ok := f["argv"]; !ok || json.Unmarshal(raw, &words) != nil || len(words) == 0 {
		return nil, invalid("need 'argv' or 'script': argv must be a list of at least one word")
	}
	argv := make([]string, len(words))
	for i, word := range words {
		if json.Unmarshal(word, &argv[i]) != nil || string(word) == "null" {
			argv[i] = string(word) // what is no string is passed as its JSON text
		}
		if strings.ContainsRune(argv[i], 0) {
			return nil, invalid("argv word %d has a NUL byte", i+1)
		}
	}
	return argv, nil
}

// timeout reads whole seconds from 1 up; absent is 600.
func timeout(f fields) (time.Duration, error) {
	raw, ok := f["timeout"]
	if !ok {
		return 600 * time.Second, nil
	}
	seconds, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || seconds <= 0 || seconds > int64(math.MaxInt64/time.Second) {
		return 0, invalid("timeout must be positive whole seconds that make a deadline")
	}
	return time.Duration(seconds) * time.Second, nil
}

// pathPair reads the two paths of a transfer.
func pathPair(f fields) (local, remote string, err error) {
	for key, into := range map[string]*string{"local_path": &local, "remote_path": &remote} {
		if *into, err = f.text(key, ""); err != nil {
			return "", "", err
		}
		if *into == "" || strings.ContainsRune(*into, 0) {
			return "", "", invalid("%s is required", key)
		}
	}
	return local, remote, nil
}

// reason reads why a machine is released.
func reason(f fields) (string, error) {
	text, err := f.text("reason", "requested")
	if err == nil && len(text) > 1024 {
		return "", invalid("reason is longer than 1024 bytes")
	}
	return text, err
}
