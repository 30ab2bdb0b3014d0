package mcpgate

import (
	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

// maxCode bounds inline code, in UTF-8 bytes.
const maxCode = 1 << 20

var relayScript = tool{
	name:  "relay_script",
	title: "Run a guest script",
	description: "Runs one script in a staged guest; it is the only way to run anything there. Use language shell for commands. Give the script either inline (inline: true and code) or as a " +
		"file of the project (inline: false and localPath). It runs with the guest's workspace as its folder, and its exit status is the verdict: a script that drives a " +
		"desktop must check for itself that what it asked for happened. Each call is one recorded operation with evidence of its own, so do not hide " +
		"many interactions in one. reason, step, snapshots and timeoutMs override what is otherwise derived: a title from the script, a wait of 500 ms before the " +
		"after-image, a timeout of 120,000 ms (3,600,000 at most). A snapshot group brackets consecutive runs: first takes the only before-image, last the only " +
		"after-image. The after-image is answered as pending with its imageId; call relay_image to look at it. diagnostic: true runs a shell script without the recorder, for a " +
		"guest whose recorder or capture is broken: it leaves no picture and proves nothing visually. A script may reach the network that the guest has. " + noReplay + " " + endIt,
	hints: Annotations{OpenWorldHint: true},
	input: object{
		named("the guest to run in"),
		{Name: "language", Required: true, Doc: "which runtime of the guest runs it", Shape: text{Enum: []string{"shell", "javascript", "typescript", "python"}}},
		{Name: "inline", Required: true, Doc: "true: the script is code; false: it is the file localPath", Shape: truth{}},
		{Name: "code", Doc: "the script itself, with inline true; at most 1 MiB of UTF-8", Shape: text{MaxBytes: maxCode}},
		{Name: "localPath", Doc: "a file of the project of at most 8 MiB, with inline false", Shape: hostPath},
		{Name: "reason", Doc: "why this is run, for the record", Shape: text{Min: 1, Max: 4000, NonBlank: true}},
		{Name: "step", Doc: "parts of the recorded step that should not be derived", Shape: object{
			{Name: "id", Doc: "id of the step", Shape: idToken},
			{Name: "title", Doc: "what is done", Shape: text{Min: 1, Max: 500, NonBlank: true}},
			{Name: "expected", Doc: "what should be true afterwards", Shape: text{Min: 1, Max: 4000, NonBlank: true}},
			{Name: "inputMode", Doc: "how the script acts on the desktop, default ordinary", Shape: text{Enum: []string{"ordinary", "accessibility"}}},
		}},
		{Name: "snapshots", Doc: "when pictures are taken", Shape: object{
			{Name: "afterIntervalMs", Doc: "wait before the after-image, default 500", Shape: waitMs},
			{Name: "group", Doc: "this run's place in a group of consecutive runs", Shape: object{
				{Name: "groupId", Required: true, Doc: "id of the group, used once", Shape: idToken},
				{Name: "phase", Required: true, Shape: text{Enum: []string{"first", "member", "last"}}},
				{Name: "afterIntervalMs", Doc: "wait before the after-image of the last run", Shape: waitMs},
			}},
		}},
		{Name: "timeoutMs", Doc: "when the script is killed, default 120000", Shape: number{Min: 1, Max: 3_600_000, Whole: true}},
		{Name: "diagnostic", Doc: "shell only, without recorder and pictures; not with a group", Shape: truth{}},
	},
	rules: []rule{scriptSource, diagnosticShell},
	call:  decoded(Relay.Script),
}

// scriptSource: inline says which of code and localPath is there, and the other is not.
func scriptSource(in value, report reporter) {
	inline, _ := in.get("inline")
	_, code := in.get("code")
	_, file := in.get("localPath")
	if inline.text == "true" {
		if !code {
			report("code", "is missing with inline true", "the script in code, or inline false with localPath")
		}
		if file {
			report("localPath", "is given with inline true", "the script in code only, or inline false with localPath only")
		}
		return
	}
	if !file {
		report("localPath", "is missing with inline false", "a file of the project in localPath, or inline true with code")
	}
	if code {
		report("code", "is given with inline false", "localPath only, or inline true with code only")
	}
}

// diagnosticShell: a diagnostic run is a shell script outside any group.
func diagnosticShell(in value, report reporter) {
	if diagnostic, _ := in.get("diagnostic"); diagnostic.text != "true" {
		return
	}
	if language, _ := in.get("language"); language.text != "shell" {
		report("diagnostic", "is true with language "+language.text, `language "shell", or leave diagnostic out`)
	}
	snapshots, _ := in.get("snapshots")
	if _, grouped := snapshots.get("group"); grouped {
		report("snapshots.group", "is given with diagnostic true", "no group, or leave diagnostic out")
	}
}

var relayImage = tool{
	name:  "relay_image",
	title: "Retrieve a saved image",
	description: "Brings a picture that is already saved; it captures nothing new. Choose it in target in one of three ways: reference (an imageId from a result), " +
		"display (the before or after picture of one execution), application (a picture that a script saved, under a declared output's name). A large picture is shown " +
		"as a preview of at most 2000 pixels a side and 4 MiB; the original stays in the evidence. The call waits for its own pending download, makes three attempts and ends within 90 seconds, its turn " +
		"behind other calls on the guest included. After a failure call it again at most twice. Pictures can no longer be fetched from a guest after relay_finish or relay_release. attached means that " +
		"the picture is in this result, not that anybody looked at it.",
	hints: reads,
	input: object{
		{Name: "guest", Doc: "the guest; needed for an application picture when you hold more than one guest", Shape: guestName},
		{Name: "target", Required: true, Doc: "exactly one of the three forms", Shape: branches{Tag: "source", Cases: []branch{
			{Value: "display", Fields: object{
				{Name: "sessionId", Required: true, Doc: "id of the recording, from the run's result", Shape: idToken},
				{Name: "executionId", Required: true, Doc: "id of the run, from its result", Shape: executionID},
				{Name: "phase", Required: true, Shape: text{Enum: []string{"before", "after"}}},
			}},
			{Value: "application", Fields: object{
				{Name: "name", Required: true, Doc: "name of a declared output", Shape: text{Min: 1, Max: 101}},
				{Name: "path", Doc: "the picture inside it, when the output is a folder", Shape: text{Min: 1, Max: 4096, Rule: nulFault}},
			}},
			{Value: "reference", Fields: object{
				{Name: "imageId", Required: true, Doc: "imageId from a result", Shape: imageID},
			}},
		}}},
	},
	call: decoded(Relay.Image),
}

// imageFailed says that a delivery status means a missing picture that should be there.
func imageFailed(d *guest.ImageDelivery) bool {
	if d == nil {
		return false
	}
	switch d.Status {
	case "attached", "pending", "not-requested":
		return false
	}
	return true
}
