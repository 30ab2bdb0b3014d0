package mcpgate

import (
	"fmt"
	"strings"
	"testing"
)

const (
	goodAcquire = `{"task":"login-test","image":"host","extractions":[{"path":"out/report.txt","name":"report.txt"}]}`
	goodScript  = `{"guest":"login-test-1","language":"shell","inline":true,"code":"true"}`
	imageRef    = "image-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

func TestValidCallsPass(t *testing.T) {
	for _, row := range []struct{ name, tool, raw string }{
		{"search", "relay_search", `{"name":"firefox","os":"linux"}`},
		{"probe without arguments", "relay_probe", ``},
		{"probe with null", "relay_probe", `null`},
		{"probe host", "relay_probe", `{"scope":"host"}`},
		{"probe guest", "relay_probe", `{"scope":"guest","guest":"a-1"}`},
		{"acquire", "relay_acquire", goodAcquire},
		{"acquire with all", "relay_acquire", `{"task":"a","image":"i","extractions":[],"ttlHours":0.1,"env":"pack","fullWorkspace":true,"vnc":false}`},
		{"stage", "relay_stage", `{"guest":"a-1","workspace":"w","files":[{"local":"x","path":"y/z"}],"nodePath":"/usr/bin/node","cuaDriver":"d","resetRecording":false}`},
		{"script", "relay_script", goodScript},
		{"script with empty code", "relay_script", `{"guest":"a-1","language":"python","inline":true,"code":""}`},
		{"script from a file", "relay_script", `{"guest":"a-1","language":"typescript","inline":false,"localPath":"s.ts"}`},
		{"script with all", "relay_script", `{"guest":"a-1","language":"shell","inline":true,"code":"x","reason":"r","step":{"id":"s.1","title":"t","expected":"e",` +
			`"inputMode":"accessibility"},"snapshots":{"afterIntervalMs":0,"group":{"groupId":"g","phase":"last","afterIntervalMs":300000}},"timeoutMs":3600000}`},
		{"script, diagnostic", "relay_script", `{"guest":"a-1","language":"shell","inline":true,"code":"x","diagnostic":true}`},
		{"image by display", "relay_image", `{"target":{"source":"display","sessionId":"s","executionId":"e","phase":"before"}}`},
		{"image of an application", "relay_image", `{"guest":"a-1","target":{"source":"application","name":"n","path":"p"}}`},
		{"image by reference", "relay_image", `{"target":{"source":"reference","imageId":"` + imageRef + `"}}`},
		{"extract", "relay_extract", `{"guest":"a-1","names":[]}`},
		{"finish", "relay_finish", `{"guest":"a-1"}`},
		{"status", "relay_status", `{}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := check(t, row.tool, row.raw); err != nil {
				t.Error(err)
			}
		})
	}
}

// T5, T12 to T15, T19, T20: each refusal names the field, the rule and what to send.
func TestInvalidCallsAreRefusedByField(t *testing.T) {
	script := func(rest string) string { return strings.TrimSuffix(goodScript, "}") + "," + rest + "}" }
	acquire := func(rest string) string { return strings.TrimSuffix(goodAcquire, "}") + "," + rest + "}" }
	reference := func(rest string) string {
		return `{"target":{"source":"reference","imageId":"` + imageRef + `"` + rest + `}}`
	}
	for _, row := range []struct{ name, tool, raw, want string }{
		{"not an object", "relay_status", `[]`, "arguments: is an array; send an object without fields"},
		{"unknown field of an empty tool", "relay_status", `{"verbose":true}`, "verbose: is not a field of this tool; send no fields at all"},
		{"network at acquire", "relay_acquire", acquire(`"network":"nat"`), "network: is not a field of this tool"},
		{"key twice", "relay_finish", `{"guest":"a-1","guest":"b-1"}`, "guest: given twice"},
		{"key twice, spelt differently", "relay_finish", `{"guest":"a-1","gu\u0065st":"b-1"}`, "guest: given twice"},
		{"key of another case", "relay_finish", `{"Guest":"a-1"}`, "Guest: is not a field of this tool"},
		{"missing", "relay_finish", `{}`, "guest: is missing; send the name that relay_acquire answered"},
		{"null field", "relay_finish", `{"guest":null}`, "guest: is null"},
		{"guest not a name", "relay_finish", `{"guest":"../x"}`, `guest: is "../x"`},
		{"half a surrogate pair", "relay_script", script(`"reason":"\ud800"`), "reason: holds half of a surrogate pair"},
		{"bytes that are not UTF-8", "relay_search", "{\"name\":\"\xff\"}", "name: not valid UTF-8"},
		{"name too long", "relay_search", `{"name":"` + strings.Repeat("é", 257) + `"}`, "name: has 257 characters; send a string of 1 to 256 characters"},
		{"name blank", "relay_search", `{"name":" \u00a0\u3000"}`, "name: is blank"},
		{"os unknown", "relay_search", `{"name":"x","os":"windows"}`, `os: is "windows"; send "linux" or "macos"`},
		{"scope unknown", "relay_probe", `{"scope":"all"}`, `scope: is "all"; send "host" or "guest"`},
		{"scope guest without guest", "relay_probe", `{"scope":"guest"}`, `guest: is missing with scope "guest"`},
		{"scope host with guest", "relay_probe", `{"guest":"a-1"}`, `guest: is given with scope "host"`},
		{"task in capitals", "relay_acquire", `{"task":"Login","image":"i","extractions":[]}`, `task: is "Login"`},
		{"no extractions", "relay_acquire", `{"task":"a","image":"i"}`, "extractions: is missing"},
		{"extraction climbs", "relay_acquire", `{"task":"a","image":"i","extractions":[{"path":"x/../y","name":"n"}]}`, `extractions[0].path: is "x/../y"`},
		{"extraction absolute", "relay_acquire", `{"task":"a","image":"i","extractions":[{"path":"/etc/passwd","name":"n"}]}`, "extractions[0].path: is absolute"},
		{"extraction with a backslash", "relay_acquire", `{"task":"a","image":"i","extractions":[{"path":"a\\b","name":"n"}]}`, "holds a backslash"},
		{"extraction name twice", "relay_acquire", `{"task":"a","image":"i","extractions":[{"path":"x","name":"n"},{"path":"y","name":"n"}]}`, "extractions[1].name: is \"n\" a second time"},
		{"extraction name reserved", "relay_acquire", `{"task":"a","image":"i","extractions":[{"path":"x","name":"full-workspace"}]}`, "extractions[0].name: is \"full-workspace\", which is reserved"},
		{"101 extractions", "relay_acquire", `{"task":"a","image":"i","extractions":[` + strings.Repeat(`{},`, 100) + `{}]}`, "extractions: has 101 items"},
		{"ttl too short", "relay_acquire", acquire(`"ttlHours":0.09`), "ttlHours: is 0.09; send a number from 0.1 to 720"},
		{"ttl too long", "relay_acquire", acquire(`"ttlHours":1e999`), "ttlHours: is 1e999"},
		{"vnc as a word", "relay_acquire", acquire(`"vnc":"yes"`), `vnc: is the string "yes"; send true or false`},
		{"file path empty", "relay_stage", `{"guest":"a-1","files":[{"local":"x","path":""}]}`, "files[0].path: is empty"},
		{"host path blank", "relay_stage", `{"guest":"a-1","workspace":" "}`, "workspace: is blank"},
		{"timeout 0", "relay_script", script(`"timeoutMs":0`), "timeoutMs: is 0; send an integer from 1 to 3600000"},
		{"timeout -1", "relay_script", script(`"timeoutMs":-1`), "timeoutMs: is -1"},
		{"timeout 1.5", "relay_script", script(`"timeoutMs":1.5`), "timeoutMs: is 1.5"},
		{"timeout 3600001", "relay_script", script(`"timeoutMs":3600001`), "timeoutMs: is 3600001"},
		{"timeout NaN", "relay_script", script(`"timeoutMs":NaN`), "timeoutMs: malformed JSON"},
		{"timeout Infinity", "relay_script", script(`"timeoutMs":Infinity`), "timeoutMs: malformed JSON"},
		{"timeout as a string", "relay_script", script(`"timeoutMs":"1000"`), `timeoutMs: is the string "1000"`},
		{"language unknown", "relay_script", `{"guest":"a-1","language":"ruby","inline":true,"code":"x"}`, `language: is "ruby"`},
		{"inline without code", "relay_script", `{"guest":"a-1","language":"shell","inline":true}`, "code: is missing with inline true"},
		{"inline with both", "relay_script", script(`"localPath":"x"`), "localPath: is given with inline true"},
		{"file with code", "relay_script", `{"guest":"a-1","language":"shell","inline":false,"code":"x","localPath":"x"}`, "code: is given with inline false"},
		{"file without path", "relay_script", `{"guest":"a-1","language":"shell","inline":false}`, "localPath: is missing with inline false"},
		{"diagnostic python", "relay_script", `{"guest":"a-1","language":"python","inline":true,"code":"x","diagnostic":true}`, "diagnostic: is true with language python"},
		{"diagnostic in a group", "relay_script", script(`"diagnostic":true,"snapshots":{"group":{"groupId":"g","phase":"first"}}`), "snapshots.group: is given with diagnostic true"},
		{"wait too long", "relay_script", script(`"snapshots":{"afterIntervalMs":300001}`), "snapshots.afterIntervalMs: is 300001"},
		{"group without phase", "relay_script", script(`"snapshots":{"group":{"groupId":"g"}}`), "snapshots.group.phase: is missing"},
		{"step with a stranger", "relay_script", script(`"step":{"name":"x"}`), "step.name: is not a field of this tool; send only id?, title?, expected?, inputMode? in step"},
		{"reason blank", "relay_script", script(`"reason":"\n"`), "reason: is blank"},
		{"image without target", "relay_image", `{}`, "target: is missing; send exactly one of"},
		{"image source unknown", "relay_image", `{"target":{"source":"camera"}}`, `target.source: is the string "camera"; send exactly one of`},
		{"image with an extra field", "relay_image", reference(`,"reason":"x"`), "target.reason: is not a field of this tool; send only source, imageId in target"},
		{"image with fields of two forms", "relay_image", reference(`,"name":"x"`), "target.name: is not a field"},
		{"image id short", "relay_image", `{"target":{"source":"reference","imageId":"image-12"}}`, `target.imageId: is "image-12"`},
		{"extract without names", "relay_extract", `{"guest":"a-1"}`, "names: is missing"},
		{"something follows", "relay_status", `{} {}`, "something follows"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := check(t, row.tool, row.raw)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), "invalid relay input: ") || !strings.Contains(err.Error(), row.want) ||
				!strings.HasSuffix(err.Error(), "Nothing was done. Correct the call and send it again.") {
				t.Errorf("%v\nwant: %s", err, row.want)
			}
		})
	}
}

// T12.
func TestWholeNumbersMayBeWrittenInAnyWay(t *testing.T) {
	for _, row := range []struct{ name, literal, want string }{
		{"least", "1", `"timeoutMs":1}`},
		{"default", "120000", `"timeoutMs":120000}`},
		{"most", "3600000", `"timeoutMs":3600000}`},
		{"with a fraction of zero", "1000.0", `"timeoutMs":1000}`},
		{"with an exponent", "1e3", `"timeoutMs":1000}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := check(t, "relay_script", strings.TrimSuffix(goodScript, "}")+`,"timeoutMs":`+row.literal+"}")
			if err != nil || !strings.HasSuffix(string(got), row.want) {
				t.Errorf("%s, %v; want %s", got, err, row.want)
			}
		})
	}
}

func TestCodeIsBoundedInBytesAndTextsInCharacters(t *testing.T) {
	script := func(code, title string) string {
		return fmt.Sprintf(`{"guest":"a-1","language":"shell","inline":true,"code":%q,"step":{"title":%q}}`, code, title)
	}
	for _, row := range []struct {
		name, raw string
		want      string
	}{
		{"1 MiB of code", script(strings.Repeat("é", 1<<19), "t"), ""},
		{"a byte more", script(strings.Repeat("é", 1<<19)+"x", "t"), "code: has 1048577 bytes; send a string of at most 1048576 UTF-8 bytes"},
		{"a title of 500 characters in 1000 bytes", script("x", strings.Repeat("é", 500)), ""},
		{"a character more", script("x", strings.Repeat("é", 501)), "step.title: has 501 characters"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := check(t, "relay_script", row.raw)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

func TestAllProblemsOfACallAreToldUpToABound(t *testing.T) {
	_, err := check(t, "relay_script", `{"guest":1,"language":2,"inline":3}`)
	for _, field := range []string{"guest: ", "\nalso: language: ", "\nalso: inline: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not tell %q", err, field)
		}
	}
	_, err = check(t, "relay_extract", `{"guest":"a-1","names":[`+strings.Repeat("1,", 99)+`1]}`)
	if err == nil || !strings.Contains(err.Error(), "and 92 more") {
		t.Errorf("%v, want 8 problems and the number of the rest", err)
	}
}
