package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// Sources of a picture.
const (
	Display     = "display"     // a capture of a recorded run
	Application = "application" // a file that a declared extraction names
)

// Descriptor says which picture is meant: where it came from and which bytes it has. The same picture always has the same
// descriptor, also before its bytes have arrived.
type Descriptor struct {
	Source    string `json:"source"`
	Enclosure string `json:"enclosure"` // the guest's purpose
	SHA256    string `json:"sha256"`
	Bytes     int64  `json:"bytes"`
	MimeType  string `json:"mimeType"`

	// Of a display picture.
	SessionID   string `json:"sessionId,omitempty"`
	ExecutionID string `json:"executionId,omitempty"`
	ActionID    string `json:"actionId,omitempty"`
	StepID      string `json:"stepId,omitempty"`
	Phase       string `json:"phase,omitempty"` // before, after
	CapturedAt  string `json:"capturedAt,omitempty"`
	GroupID     string `json:"groupId,omitempty"`

	// Of an application picture.
	Name string `json:"name,omitempty"`
	Path string `json:"path,omitempty"`
}

// Binding is the hash that ties pictures to the relay session that owns them, the guest, and the backend the guest lives on.
func Binding(owner, enclosure string, backend map[string]string) string {
	return hash([]any{owner, enclosure, backend})
}

// ID names one picture: the same bytes captured by another step have another id. fileName is the guest's snapshot file name
// of a display picture, "" for an application picture.
func ID(binding string, d Descriptor, fileName string) string {
	var name any
	if fileName != "" {
		name = fileName
	}
	return "image-" + hash([]any{binding, d, name})
}

// hash is the SHA-256 of v's canonical JSON: keys sorted at every level, no spaces, no HTML escaping.
func hash(v any) string {
	sum := sha256.Sum256(canonical(v))
	return hex.EncodeToString(sum[:])
}

// canonical renders v, which is made of strings, whole numbers, maps and lists only and so always encodes.
func canonical(v any) []byte {
	plain := marshal(v)
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return plain
	}
	return marshal(tree)
}

func marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

// ValidID reports whether s has the form of an image id.
func ValidID(s string) bool {
	digest, ok := strings.CutPrefix(s, "image-")
	return ok && validHash(digest)
}

func validHash(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(s) == s
}
