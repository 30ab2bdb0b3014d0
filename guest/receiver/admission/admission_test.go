package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

const root = "/var/tmp/guest"

func ms(n int64) *int64 { return &n }

func request(edits ...func(*protocol.Request)) protocol.Request {
	req := protocol.Request{
		Protocol: protocol.Version, ExecutionID: "execution-1", SessionID: "session-1", AttemptID: "attempt-1",
		Because: "why", Language: protocol.Shell,
		Script: protocol.Script{Path: root + "/scripts/x.sh", SHA256: strings.Repeat("a", 64), Bytes: 3, Origin: "inline"},
		Cwd:    root + "/workspace", TimeoutMs: 1000,
		Step:      protocol.Step{ID: "step-1", Title: "title"},
		Snapshots: protocol.Snapshots{Capture: protocol.CaptureX11, AfterIntervalMs: ms(500)},
	}
	for _, edit := range edits {
		edit(&req)
	}
	return req
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRequestsThatKeepTheRules(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*protocol.Request)
	}{
		{"as it is", func(*protocol.Request) {}},
		{"shortest timeout", func(r *protocol.Request) { r.TimeoutMs = 1 }},
		{"longest timeout", func(r *protocol.Request) { r.TimeoutMs = 3_600_000 }},
		{"no wait", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = ms(0) }},
		{"longest wait", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = ms(300_000) }},
		{"longest reason", func(r *protocol.Request) { r.Because = strings.Repeat("é", 16_384) }},
		{"empty script", func(r *protocol.Request) { r.Script.Bytes = 0 }},
		{"largest script", func(r *protocol.Request) { r.Script.Bytes = 8 << 20 }},
		{"from a file", func(r *protocol.Request) { r.Script.Origin, r.Script.Name = "file", "a b.sh" }},
		{"folder elsewhere", func(r *protocol.Request) { r.Cwd = "/" }},
		{"no capture", func(r *protocol.Request) {
			r.Snapshots = protocol.Snapshots{Capture: protocol.CaptureNone, Reason: "no software"}
		}},
		{"own program", func(r *protocol.Request) {
			r.Snapshots.Capture, r.Snapshots.Driver = protocol.CaptureCuaDriver, "cua-driver"
		}},
		{"first of a group", func(r *protocol.Request) { r.Snapshots = grouped(PhaseFirst, nil, nil) }},
		{"last with its own wait", func(r *protocol.Request) { r.Snapshots = grouped(PhaseLast, nil, ms(1)) }},
		{"last with the outer wait", func(r *protocol.Request) { r.Snapshots = grouped(PhaseLast, ms(1), nil) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := request(row.edit)
			data := encode(t, want)
			if _, err := Identify(data); err != nil {
				t.Fatal(err)
			}
			got, err := Decode(data, root)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func grouped(phase string, outer, own *int64) protocol.Snapshots {
	return protocol.Snapshots{Capture: protocol.CaptureX11, AfterIntervalMs: outer, Group: &protocol.Group{GroupID: "g", Phase: phase, AfterIntervalMs: own}}
}

func TestRequestsThatBreakARule(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*protocol.Request)
		want string
	}{
		{"protocol", func(r *protocol.Request) { r.Protocol = 2 }, "protocol"},
		{"attempt", func(r *protocol.Request) { r.AttemptID = "attempt-2" }, "attemptId"},
		{"blank reason", func(r *protocol.Request) { r.Because = "\t\n " }, "because"},
		{"long reason", func(r *protocol.Request) { r.Because = strings.Repeat("é", 16_385) }, "because"},
		{"timeout 0", func(r *protocol.Request) { r.TimeoutMs = 0 }, "timeoutMs"},
		{"timeout over", func(r *protocol.Request) { r.TimeoutMs = 3_600_001 }, "timeoutMs"},
		{"step id", func(r *protocol.Request) { r.Step.ID = "../x" }, "step"},
		{"step title", func(r *protocol.Request) { r.Step.Title = " " }, "title"},
		{"input mode", func(r *protocol.Request) { r.Step.InputMode = "magic" }, "inputMode"},
		{"language", func(r *protocol.Request) { r.Language = "Shell" }, "language"},
		{"script relative", func(r *protocol.Request) { r.Script.Path = "scripts/x.sh" }, "script.path"},
		{"script outside", func(r *protocol.Request) { r.Script.Path = root + "2/x.sh" }, "script.path"},
		{"script is the root", func(r *protocol.Request) { r.Script.Path = root }, "script.path"},
		{"script climbs out", func(r *protocol.Request) { r.Script.Path = root + "/../x.sh" }, "script.path"},
		{"script NUL", func(r *protocol.Request) { r.Script.Path = root + "/x\x00.sh" }, "script.path"},
		{"hash short", func(r *protocol.Request) { r.Script.SHA256 = "abc" }, "sha256"},
		{"hash upper case", func(r *protocol.Request) { r.Script.SHA256 = strings.Repeat("A", 64) }, "sha256"},
		{"script negative", func(r *protocol.Request) { r.Script.Bytes = -1 }, "bytes"},
		{"script over", func(r *protocol.Request) { r.Script.Bytes = 8<<20 + 1 }, "bytes"},
		{"origin", func(r *protocol.Request) { r.Script.Origin = "" }, "origin"},
		{"name NUL", func(r *protocol.Request) { r.Script.Name = "\x00" }, "name"},
		{"cwd empty", func(r *protocol.Request) { r.Cwd = "" }, "cwd"},
		{"capture missing", func(r *protocol.Request) { r.Snapshots.Capture = "" }, "capture"},
		{"driver missing", func(r *protocol.Request) { r.Snapshots.Capture = protocol.CaptureCuaDriver }, "driver"},
		{"no reason", func(r *protocol.Request) { r.Snapshots = protocol.Snapshots{Capture: protocol.CaptureNone} }, "reason"},
		{"wait missing", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = nil }, "afterIntervalMs"},
		{"wait negative", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = ms(-1) }, "afterIntervalMs"},
		{"wait over", func(r *protocol.Request) { r.Snapshots.AfterIntervalMs = ms(300_001) }, "afterIntervalMs"},
		{"group id", func(r *protocol.Request) { r.Snapshots = grouped(PhaseFirst, nil, nil); r.Snapshots.Group.GroupID = "" }, "groupId"},
		{"group phase", func(r *protocol.Request) { r.Snapshots = grouped("middle", nil, nil) }, "phase"},
		{"group wait over", func(r *protocol.Request) { r.Snapshots = grouped(PhaseLast, nil, ms(300_001)) }, "afterIntervalMs"},
		{"last without wait", func(r *protocol.Request) { r.Snapshots = grouped(PhaseLast, nil, nil) }, "afterIntervalMs"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := Decode(encode(t, request(row.edit)), root); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error is %v, want one about %s", err, row.want)
			}
		})
	}
}

func TestDecodeKeepsWhatItCouldRead(t *testing.T) {
	data := strings.Replace(string(encode(t, request())), `"timeoutMs":1000`, `"timeoutMs":"soon"`, 1)
	req, err := Decode([]byte(data), root)
	if err == nil || req.Because != "why" || req.Step.ID != "step-1" {
		t.Errorf("%+v %v", req, err)
	}
	if _, err := Decode(append(encode(t, request()), "{}"...), root); err == nil {
		t.Error("a second value was accepted")
	}
}

func TestIdentifyRefusesIDsThatAreNoFileNames(t *testing.T) {
	for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a b", "-a", ".a", "a\x00", "é", strings.Repeat("a", 161)} {
		for _, edit := range []func(*protocol.Request){
			func(r *protocol.Request) { r.ExecutionID = id },
			func(r *protocol.Request) { r.SessionID = id },
			func(r *protocol.Request) { r.AttemptID = id },
		} {
			if _, err := Identify(encode(t, request(edit))); err == nil {
				t.Errorf("id %q was accepted", id)
			}
		}
	}
	for _, data := range []string{"", "null", "[]", "3", `{"executionId":1,"sessionId":"s","attemptId":"a"}`, strings.Repeat(" ", protocol.MaxRequest) + "{}"} {
		if _, err := Identify([]byte(data)); err == nil {
			t.Errorf("%.40q was accepted", data)
		}
	}
}

func TestVerdicts(t *testing.T) {
	const sum, other = "aa", "bb"
	claim := func(sum, refused string) *Claim { return &Claim{RequestSHA256: sum, Refused: refused} }
	receipt := func(sum string) *protocol.Receipt { return &protocol.Receipt{RequestSHA256: sum} }
	for _, row := range []struct {
		name  string
		known Known
		want  Verdict
	}{
		{"nothing known", Known{}, Admit},
		{"nothing known, locked", Known{Locked: true}, Admit},
		{"receipt", Known{Claim: claim(sum, ""), Receipt: receipt(sum)}, Answer},
		{"receipt of a refusal", Known{Claim: claim(sum, "busy"), Receipt: receipt(sum)}, Answer},
		{"receipt of an older receiver", Known{Claim: claim("", ""), Receipt: receipt("")}, Answer},
		{"receipt without claim", Known{Receipt: receipt(sum)}, Answer},
		{"receipt of other bytes", Known{Claim: claim(other, ""), Receipt: receipt(other)}, OtherBytes},
		{"claim of other bytes", Known{Claim: claim(other, "")}, OtherBytes},
		{"claim of other bytes, locked", Known{Claim: claim(other, ""), Locked: true}, OtherBytes},
		{"refused, receipt missing", Known{Claim: claim(sum, "busy")}, Refused},
		{"claimed, maybe at work", Known{Claim: claim(sum, "")}, Running},
		{"claimed, nobody at work", Known{Claim: claim(sum, ""), Locked: true}, Lost},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := Judge(sum, row.known); got != row.want {
				t.Errorf("verdict is %s, want %s", got, row.want)
			}
		})
	}
}

func TestPlans(t *testing.T) {
	none := func(s protocol.Snapshots) protocol.Snapshots {
		s.Capture, s.Reason = protocol.CaptureNone, "why not"
		return s
	}
	single := protocol.Snapshots{Capture: protocol.CaptureX11, AfterIntervalMs: ms(500)}
	for _, row := range []struct {
		name string
		s    protocol.Snapshots
		n    int
		wait int64
		want string
	}{
		{"single", single, 2, 500, `{"capturesBefore":true,"capturesAfter":{"afterIntervalMs":500},"role":"single","capture":"x11"}`},
		{"first", grouped(PhaseFirst, ms(7), nil), 1, 0, `{"capturesBefore":true,"capturesAfter":false,"role":"first","group":{"groupId":"g"},"capture":"x11"}`},
		{"member", grouped(PhaseMember, nil, nil), 0, 0, `{"capturesBefore":false,"capturesAfter":false,"role":"member","group":{"groupId":"g"},"capture":"x11"}`},
		{"last, own wait", grouped(PhaseLast, ms(7), ms(0)), 1, 0, `{"capturesBefore":false,"capturesAfter":{"afterIntervalMs":0},"role":"last","group":{"groupId":"g"},"capture":"x11"}`},
		{"last, outer wait", grouped(PhaseLast, ms(7), nil), 1, 7, `{"capturesBefore":false,"capturesAfter":{"afterIntervalMs":7},"role":"last","group":{"groupId":"g"},"capture":"x11"}`},
		{"none", none(single), 0, 0, `{"capturesBefore":false,"capturesAfter":false,"role":"single","capture":"none","reason":"why not"}`},
		{"first of none", none(grouped(PhaseFirst, nil, nil)), 0, 0, `{"capturesBefore":false,"capturesAfter":false,"role":"first","group":{"groupId":"g"},"capture":"none","reason":"why not"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := PlanOf(row.s)
			if got := string(encode(t, p)); got != row.want || p.Captures() != row.n || p.WaitMs != row.wait {
				t.Errorf("%s: %d pictures, wait %d", got, p.Captures(), p.WaitMs)
			}
			if probe := strings.HasPrefix(row.name, "member") || strings.HasPrefix(row.name, "last"); p.Probe != probe {
				t.Errorf("probe is %v", p.Probe)
			}
		})
	}
}

func TestImageStatus(t *testing.T) {
	before, after := protocol.Snapshot{Phase: PhaseBefore}, protocol.Snapshot{Phase: PhaseAfter}
	for _, row := range []struct {
		name   string
		after  bool
		taken  []protocol.Snapshot
		failed bool
		want   string
	}{
		{"not asked for", false, nil, false, protocol.ImageNotRequested},
		{"not asked for, another failed", false, nil, true, protocol.ImageNotRequested},
		{"both", true, []protocol.Snapshot{before, after}, false, protocol.ImageAvailable},
		{"before failed", true, nil, true, protocol.ImageCaptureFailed},
		{"after failed", true, []protocol.Snapshot{before}, true, protocol.ImageCaptureFailed},
		{"died between", true, []protocol.Snapshot{before}, false, protocol.ImageCaptureUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := ImageStatus(row.after, row.taken, row.failed); got != row.want {
				t.Errorf("status is %s, want %s", got, row.want)
			}
		})
	}
}

func TestGroupRules(t *testing.T) {
	mine := IDs{SessionID: "s", AttemptID: "attempt-1"}
	open := Groups{Active: &Active{GroupID: "g", SessionID: "s", AttemptID: "attempt-1"}, Used: []string{"old", "g"}}
	idle := Groups{Used: []string{"old"}}
	g := func(id, phase string) *protocol.Group { return &protocol.Group{GroupID: id, Phase: phase} }
	for _, row := range []struct {
		name   string
		groups Groups
		ids    IDs
		group  *protocol.Group
		fine   bool
	}{
		{"idle: a single run", idle, mine, nil, true},
		{"idle: a fresh first", idle, mine, g("new", PhaseFirst), true},
		{"idle: a used first", idle, mine, g("old", PhaseFirst), false},
		{"idle: an orphan member", idle, mine, g("new", PhaseMember), false},
		{"idle: an orphan last", idle, mine, g("new", PhaseLast), false},
		{"idle: a member of a used group", idle, mine, g("old", PhaseMember), false},
		{"open: its member", open, mine, g("g", PhaseMember), true},
		{"open: its last", open, mine, g("g", PhaseLast), true},
		{"open: its first again", open, mine, g("g", PhaseFirst), false},
		{"open: a single run", open, mine, nil, false},
		{"open: another group", open, mine, g("new", PhaseFirst), false},
		{"open: another session", open, IDs{SessionID: "t", AttemptID: "attempt-1"}, g("g", PhaseMember), false},
		{"open: another attempt", open, IDs{SessionID: "s", AttemptID: "attempt-2"}, g("g", PhaseMember), false},
		{"never any: a first", Groups{}, mine, g("new", PhaseFirst), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := row.groups.Check(row.ids, row.group); (err == nil) != row.fine {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// The state of groups is what the journal says, whatever groups.json says.
func TestHistoryFollowsTheJournal(t *testing.T) {
	routed := func(id string) string {
		return fmt.Sprintf(`{"kind":"annotation","annotationType":"routing-decision","sessionId":"s","attemptId":"attempt-1","executionId":%q,"step":{"id":"step"}}`, id)
	}
	started := func(id, phase string) string {
		return fmt.Sprintf(`{"kind":"execution-start","sessionId":"s","attemptId":"attempt-1","executionId":%q,"group":{"groupId":"g","phase":%q}}`, id, phase)
	}
	ended := func(id, outcome string) string {
		return fmt.Sprintf(`{"kind":"execution-completion","sessionId":"s","attemptId":"attempt-1","executionId":%q,"response":{"outcome":%s}}`, id, outcome)
	}
	const good, bad, uncertain = `{"kind":"completed","exitStatus":{"code":0,"signal":null}}`, `{"kind":"completed","exitStatus":{"code":1,"signal":null}}`, `{"kind":"uncertain"}`
	first := []string{routed("1"), started("1", PhaseFirst), ended("1", good)}
	for _, row := range []struct {
		name  string
		lines []string
		open  bool
		used  int
		rest  int
	}{
		{"empty", nil, false, 0, 0},
		{"first", first, true, 1, 0},
		{"first died", first[:2], true, 1, 1},
		{"first refused before it began", []string{routed("1"), ended("1", `{"kind":"refused"}`)}, false, 0, 0},
		{"first failed", append(first[:2:2], ended("1", bad)), false, 1, 0},
		{"member", append(first[:3:3], routed("2"), started("2", PhaseMember), ended("2", good)), true, 1, 0},
		{"member failed", append(first[:3:3], routed("2"), started("2", PhaseMember), ended("2", uncertain)), false, 1, 0},
		{"last", append(first[:3:3], routed("2"), started("2", PhaseLast), ended("2", good)), false, 1, 0},
		{"abandoned", append(first[:3:3], `{"kind":"annotation","annotationType":"group-incomplete","groupId":"g"}`), false, 1, 0},
		{"another abandoned", append(first[:3:3], `{"kind":"annotation","annotationType":"group-incomplete","groupId":"h"}`), true, 1, 0},
		{"a stranger refused", append(first[:3:3], routed("2"), ended("2", `{"kind":"refused"}`)), true, 1, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var h History
			for _, l := range row.lines {
				if err := h.Add([]byte(l), ""); err != nil {
					t.Fatal(err)
				}
			}
			if (h.Groups.Active != nil) != row.open || len(h.Groups.Used) != row.used || len(h.Unfinished()) != row.rest {
				t.Errorf("groups %+v, %d unfinished", h.Groups, len(h.Unfinished()))
			}
		})
	}
}

func TestHistoryKeepsThePicturesOfARunThatDied(t *testing.T) {
	var h History
	for _, l := range []string{
		`{"kind":"annotation","annotationType":"routing-decision","sessionId":"s","attemptId":"attempt-1","executionId":"1","step":{"id":"step"}}`,
		`{"kind":"execution-start","sessionId":"s","attemptId":"attempt-1","executionId":"1"}`,
		`{"kind":"action-start","sessionId":"s","attemptId":"attempt-1","executionId":"1","actionId":"a","stepId":"step","snapshotPlan":{"capturesBefore":true,"capturesAfter":{"afterIntervalMs":0}}}`,
		`{"kind":"snapshot-captured","sessionId":"s","attemptId":"attempt-1","actionId":"a","snapshot":{"fileName":"x.png","sha256":"aa","bytes":3,"mimeType":"image/png","capturedAt":"2026-11-30T10:00:00.000Z","role":"before"}}`,
	} {
		if err := h.Add([]byte(l), ""); err != nil {
			t.Fatal(err)
		}
	}
	open := h.Unfinished()
	if len(open) != 1 || open[0].ActionID != "a" || open[0].Ended {
		t.Fatalf("%+v", open)
	}
	want := []protocol.Snapshot{{SessionID: "s", AttemptID: "attempt-1", ExecutionID: "1", ActionID: "a", StepID: "step", Phase: "before",
		CapturedAt: "2026-11-30T10:00:00.000Z", SHA256: "aa", Bytes: 3, MimeType: "image/png", FileName: "x.png"}}
	if diff := cmp.Diff(want, open[0].Snapshots); diff != "" {
		t.Error(diff)
	}
}

// A run whose receipt file was lost is answered from the journal, word for word.
func TestHistoryKeepsTheReceiptAskedFor(t *testing.T) {
	h := History{Asked: "1"}
	for _, id := range []string{"0", "1", "2"} {
		line := `{"kind":"execution-completion","executionId":"` + id + `","response":{"executionId":"` + id + `","outcome":{"kind":"completed"},"stdout":"` + id + `"}}`
		if err := h.Add([]byte(line), "hash-"+id); err != nil {
			t.Fatal(err)
		}
	}
	if h.Answer == nil || h.Answer.ExecutionID != "1" || *h.Answer.Stdout != "1" || h.Answer.JournalHead != "hash-1" {
		t.Errorf("answer is %+v", h.Answer)
	}
}
