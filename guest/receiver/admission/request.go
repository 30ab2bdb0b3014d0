package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

const (
	maxBecause  = 16_384 // characters
	onlyAttempt = "attempt-1"
)

var (
	safeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,159}$`)
	digest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// SafeID reports whether id may stand in a file name.
func SafeID(id string) bool { return safeID.MatchString(id) }

// IDs name one run.
type IDs struct {
	ExecutionID string `json:"executionId"`
	SessionID   string `json:"sessionId"`
	AttemptID   string `json:"attemptId"`
}

// Identify reads the ids of a request, which must be safe before anything else may be done with it.
func Identify(data []byte) (IDs, error) {
	if len(data) > protocol.MaxRequest {
		return IDs{}, fmt.Errorf("request is larger than %d bytes", protocol.MaxRequest)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return IDs{}, errors.New("request is not a JSON object")
	}
	var ids IDs
	for name, to := range map[string]*string{"executionId": &ids.ExecutionID, "sessionId": &ids.SessionID, "attemptId": &ids.AttemptID} {
		if err := json.Unmarshal(raw[name], to); err != nil || !SafeID(*to) {
			return IDs{}, fmt.Errorf("request has no usable %s", name)
		}
	}
	return ids, nil
}

// Decode reads a request that Identify accepted and checks it against every rule that needs no disk; root is the guest root
// that its script must lie in. On an error the request holds what could be read of it, for the record of the refusal.
func Decode(data []byte, root string) (protocol.Request, error) {
	var req protocol.Request
	if err := json.Unmarshal(data, &req); err != nil {
		return req, fmt.Errorf("request does not have the right shape: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	var again protocol.Request
	if err := strict.Decode(&again); err != nil {
		return req, fmt.Errorf("request does not have the right shape: %w", err)
	}
	if _, err := strict.Token(); !errors.Is(err, io.EOF) {
		return req, errors.New("request is followed by something else")
	}
	if req.Protocol != protocol.Version {
		return req, fmt.Errorf("request has protocol %d and this receiver speaks %d", req.Protocol, protocol.Version)
	}
	for _, check := range []func(protocol.Request) error{checkIntent, checkSnapshots} {
		if err := check(req); err != nil {
			return req, err
		}
	}
	return req, checkScript(req, root)
}

func checkIntent(req protocol.Request) error {
	switch {
	case req.AttemptID != onlyAttempt:
		return fmt.Errorf("attemptId must be %s", onlyAttempt)
	case strings.TrimSpace(req.Because) == "":
		return errors.New("because is blank")
	case utf8.RuneCountInString(req.Because) > maxBecause:
		return fmt.Errorf("because is longer than %d characters", maxBecause)
	case req.TimeoutMs < 1 || req.TimeoutMs > protocol.MaxTimeoutMs:
		return fmt.Errorf("timeoutMs must be 1 to %d", protocol.MaxTimeoutMs)
	case !SafeID(req.Step.ID):
		return errors.New("step has no usable id")
	case strings.TrimSpace(req.Step.Title) == "":
		return errors.New("step has no title")
	case req.Step.InputMode != "" && req.Step.InputMode != "ordinary" && req.Step.InputMode != "accessibility":
		return errors.New("step.inputMode must be ordinary or accessibility")
	}
	return nil
}

func checkScript(req protocol.Request, root string) error {
	s := req.Script
	switch {
	case protocol.Extension(req.Language) == "":
		return fmt.Errorf("language %q is not known", req.Language)
	case !absolute(s.Path) || !strings.HasPrefix(path.Clean(s.Path), path.Clean(root)+"/"):
		return fmt.Errorf("script.path must lie in %s", root)
	case !digest.MatchString(s.SHA256):
		return errors.New("script.sha256 must be 64 hex digits")
	case s.Bytes < 0 || s.Bytes > protocol.MaxScript:
		return fmt.Errorf("script.bytes must be 0 to %d", protocol.MaxScript)
	case s.Origin != "inline" && s.Origin != "file":
		return errors.New("script.origin must be inline or file")
	case strings.ContainsRune(s.Name, 0):
		return errors.New("script.name holds NUL")
	case !absolute(req.Cwd):
		return errors.New("cwd must be an absolute path")
	}
	return nil
}

func absolute(name string) bool { return path.IsAbs(name) && !strings.ContainsRune(name, 0) }

func checkSnapshots(req protocol.Request) error {
	s := req.Snapshots
	switch s.Capture {
	case protocol.CaptureNone:
		if strings.TrimSpace(s.Reason) == "" {
			return errors.New("snapshots.reason must say why there are none")
		}
	case protocol.CaptureX11:
	case protocol.CaptureCuaDriver:
		if strings.TrimSpace(s.Driver) == "" || strings.ContainsRune(s.Driver, 0) {
			return errors.New("snapshots.driver must name the capture program")
		}
	default:
		return fmt.Errorf("snapshots.capture must be %s, %s or %s", protocol.CaptureNone, protocol.CaptureX11, protocol.CaptureCuaDriver)
	}
	if err := checkInterval(s.AfterIntervalMs); err != nil {
		return err
	}
	if s.Group == nil {
		if s.AfterIntervalMs == nil && s.Capture != protocol.CaptureNone {
			return errors.New("snapshots.afterIntervalMs is missing")
		}
		return nil
	}
	return checkGroup(s)
}

func checkGroup(s protocol.Snapshots) error {
	switch {
	case !SafeID(s.Group.GroupID):
		return errors.New("snapshots.group has no usable groupId")
	case s.Group.Phase != PhaseFirst && s.Group.Phase != PhaseMember && s.Group.Phase != PhaseLast:
		return fmt.Errorf("snapshots.group.phase must be %s, %s or %s", PhaseFirst, PhaseMember, PhaseLast)
	case s.Group.Phase == PhaseLast && s.Group.AfterIntervalMs == nil && s.AfterIntervalMs == nil && s.Capture != protocol.CaptureNone:
		return errors.New("the last run of a group needs an afterIntervalMs")
	}
	return checkInterval(s.Group.AfterIntervalMs)
}

func checkInterval(ms *int64) error {
	if ms != nil && (*ms < 0 || *ms > protocol.MaxWaitMs) {
		return fmt.Errorf("afterIntervalMs must be 0 to %d", protocol.MaxWaitMs)
	}
	return nil
}
