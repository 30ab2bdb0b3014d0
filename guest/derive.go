package guest

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// Bounds of human texts, in code points.
const (
	maxReason   = 4000
	maxTitle    = 500
	maxExpected = 4000
)

var (
	stepID     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,119}$`)
	notIDRunes = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
)

// checkScript applies the rules of a script that need neither the guest's record nor the project.
func checkScript(in Script) error {
	switch {
	case protocol.Extension(in.Language) == "":
		return Refuse("the language %q is none of shell, javascript, typescript, python", in.Language)
	case in.Inline && (in.Code == nil || in.LocalPath != ""):
		return Refuse("with inline: true give code, and no localPath")
	case !in.Inline && (in.Code != nil || in.LocalPath == ""):
		return Refuse("with inline: false give localPath, and no code")
	case in.Code != nil && len(*in.Code) > protocol.MaxInlineCode:
		return Refuse("the code is %d bytes long; at most %d may be inline: put it into a project file", len(*in.Code), protocol.MaxInlineCode)
	case in.TimeoutMs != nil && (*in.TimeoutMs < 1 || *in.TimeoutMs > protocol.MaxTimeoutMs):
		return Refuse("timeoutMs must lie between 1 and %d", protocol.MaxTimeoutMs)
	case in.Diagnostic && in.Language != protocol.Shell:
		return Refuse("a diagnostic is a shell script; drop diagnostic or use language shell")
	case in.Diagnostic && in.Snapshots != nil && in.Snapshots.Group != nil:
		return Refuse("a diagnostic cannot join a snapshot group")
	}
	if err := checkText("reason", in.Reason, maxReason); err != nil {
		return err
	}
	if err := checkStep(in.Step); err != nil {
		return err
	}
	return checkSnapshots(in.Snapshots)
}

func checkStep(step *ScriptStep) error {
	if step == nil {
		return nil
	}
	if step.ID != "" && !stepID.MatchString(step.ID) {
		return Refuse("the step id %q must begin with a letter or digit and hold only letters, digits, _ . and -, at most 120 characters", step.ID)
	}
	if step.InputMode != "" && step.InputMode != "ordinary" && step.InputMode != "accessibility" {
		return Refuse("the input mode %q is neither ordinary nor accessibility", step.InputMode)
	}
	if err := checkText("step title", step.Title, maxTitle); err != nil {
		return err
	}
	return checkText("step expectation", step.Expected, maxExpected)
}

func checkSnapshots(s *ScriptSnapshots) error {
	if s == nil {
		return nil
	}
	waits := []*int64{s.AfterIntervalMs}
	if s.Group != nil {
		waits = append(waits, s.Group.AfterIntervalMs)
		if !stepID.MatchString(s.Group.GroupID) {
			return Refuse("the group id %q must begin with a letter or digit and hold only letters, digits, _ . and -, at most 120 characters", s.Group.GroupID)
		}
		if p := s.Group.Phase; p != "first" && p != "member" && p != "last" {
			return Refuse("the group phase %q is none of first, member, last", p)
		}
	}
	for _, wait := range waits {
		if wait != nil && (*wait < 0 || *wait > protocol.MaxWaitMs) {
			return Refuse("afterIntervalMs must lie between 0 and %d", protocol.MaxWaitMs)
		}
	}
	return nil
}

// checkText bounds an optional human text; one that is given must not be blank.
func checkText(what, text string, limit int) error {
	if text == "" {
		return nil
	}
	if strings.TrimSpace(text) == "" {
		return Refuse("the %s is blank; leave it out or say something", what)
	}
	if n := utf8.RuneCountInString(text); n > limit {
		return Refuse("the %s has %d characters; at most %d are kept", what, n, limit)
	}
	return nil
}

// deriveStep fills what the caller left out of a step. seq makes the id unique among the guest's runs.
func deriveStep(in Script, seq int) protocol.Step {
	step := protocol.Step{Title: deriveTitle(in), Expected: "Exits with status 0", InputMode: "ordinary"}
	if in.Step != nil {
		step.ID = in.Step.ID
		step.Title = firstOf(in.Step.Title, step.Title)
		step.Expected = firstOf(in.Step.Expected, step.Expected)
		step.InputMode = firstOf(in.Step.InputMode, step.InputMode)
	}
	if step.ID == "" {
		step.ID = idPrefix(in) + "-" + strconv.Itoa(seq)
	}
	return step
}

func deriveTitle(in Script) string {
	title := "code (" + in.Language + ")"
	switch {
	case !in.Inline:
		title = "script " + filepath.Base(in.LocalPath)
	case in.Language == protocol.Shell:
		title = strings.TrimSpace("shell " + firstLine(*in.Code))
	}
	return cutRunes(title, maxTitle)
}

// idPrefix is the language, or the name of the script file made safe for an id.
func idPrefix(in Script) string {
	if in.Inline {
		return in.Language
	}
	base := path.Base(filepath.ToSlash(in.LocalPath))
	prefix := notIDRunes.ReplaceAllString(strings.TrimSuffix(base, path.Ext(base)), "-")
	prefix = strings.TrimLeft(prefix, "-_.")
	if len(prefix) > 100 {
		prefix = prefix[:100]
	}
	return firstOf(prefix, "run")
}

func deriveReason(in Script, title string) string {
	if in.Reason != "" {
		return in.Reason
	}
	return cutRunes(fmt.Sprintf("Run %q; the caller gave no reason.", title), maxReason)
}

// derivePlan is the plan of captures: the guest's way of capture with the caller's waits. A single run and the last of a group wait
// 500 ms unless told otherwise; the others take no after-capture and need no wait.
func derivePlan(capture protocol.Snapshots, in *ScriptSnapshots) protocol.Snapshots {
	plan := capture
	var wait *int64
	if in != nil {
		wait = in.AfterIntervalMs
	}
	if in == nil || in.Group == nil {
		plan.AfterIntervalMs = orDefault(wait)
		return plan
	}
	plan.AfterIntervalMs = wait
	plan.Group = &protocol.Group{GroupID: in.Group.GroupID, Phase: in.Group.Phase, AfterIntervalMs: in.Group.AfterIntervalMs}
	if plan.Group.Phase == "last" && wait == nil {
		plan.Group.AfterIntervalMs = orDefault(plan.Group.AfterIntervalMs)
	}
	return plan
}

func orDefault(wait *int64) *int64 {
	if wait != nil {
		return wait
	}
	ms := int64(protocol.DefaultWaitMs)
	return &ms
}

// waitOf is the wait that a plan asks for: the group's own first.
func waitOf(plan protocol.Snapshots) int64 {
	switch {
	case plan.Group != nil && plan.Group.AfterIntervalMs != nil:
		return *plan.Group.AfterIntervalMs
	case plan.AfterIntervalMs != nil:
		return *plan.AfterIntervalMs
	}
	return 0
}

// wantsAfter says whether a plan ends with an after-capture.
func wantsAfter(plan protocol.Snapshots) bool {
	return plan.Capture != protocol.CaptureNone && (plan.Group == nil || plan.Group.Phase == "last")
}

// wantsBefore says whether a plan begins with a before-capture.
func wantsBefore(plan protocol.Snapshots) bool {
	return plan.Capture != protocol.CaptureNone && (plan.Group == nil || plan.Group.Phase == "first")
}

func timeoutOf(in Script) int64 {
	if in.TimeoutMs != nil {
		return *in.TimeoutMs
	}
	return protocol.DefaultTimeoutMs
}

// firstLine is the first line that is not blank.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return strings.ToValidUTF8(line, "\ufffd")
		}
	}
	return ""
}

func cutRunes(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit])
}
