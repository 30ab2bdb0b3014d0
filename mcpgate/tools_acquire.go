package mcpgate

import (
	"fmt"
)

// wholeWorkspace is the name under which a full workspace is delivered; no declared output may take it.
const wholeWorkspace = "full-workspace"

var relayAcquire = tool{
	name:  "relay_acquire",
	title: "Acquire a VM",
	description: "Starts one fresh machine for one task and answers its name in guest; give that name in every later call on it. Declare now every output you will " +
		"want to take out, since nothing can be declared later; an empty list is fine, and a declaration extracts nothing by itself. The lease runs for " +
		"ttlHours (4 by default) and is renewed while this session lives. env names a pack of credentials which is handed to the machine and never " +
		"becomes part of an image. When the host is full the call may wait for capacity. You may hold several guests, up to a limit; beyond it the call is refused " +
		"and names those you hold. If a later step fails the machine is kept.\n\n" +
		workflow + " One guest per task; do not reuse it for another. " + endIt + " " + noReplay,
	hints: acts,
	input: object{
		{Name: "task", Required: true, Doc: "short slug of the task; the guest is named after it", Shape: taskSlug},
		{Name: "image", Required: true, Doc: "an available image, from relay_probe or relay_search", Shape: text{Min: 1, Max: 256, NonBlank: true}},
		{Name: "extractions", Required: true, Doc: "every output to be taken out, [] for none", Shape: list{Max: 100, Of: object{
			{Name: "path", Required: true, Doc: "file or folder, relative to the guest's workspace", Shape: relativePath},
			{Name: "name", Required: true, Doc: "its name in the delivered package, unique", Shape: outputName},
		}}},
		{Name: "ttlHours", Doc: "hours the guest may live, default 4", Shape: number{Min: 0.1, Max: 720}},
		{Name: "env", Doc: `name of a credential pack, default "none"`, Shape: text{Min: 1, Max: 256, NonBlank: true}},
		{Name: "fullWorkspace", Doc: "also deliver the whole workspace at the end, default false", Shape: truth{}},
		{Name: "vnc", Doc: "ask for a machine prepared for remote viewing, where its image offers that; it opens nothing", Shape: truth{}},
	},
	rules: []rule{uniqueOutputs},
	call:  decoded(Relay.Acquire),
}

// uniqueOutputs: no two outputs have one name, and none has the name of the full workspace.
func uniqueOutputs(in value, report reporter) {
	seen := map[string]bool{}
	declared, _ := in.get("extractions")
	for i, item := range declared.items {
		name, _ := item.get("name")
		path := fmt.Sprintf("extractions[%d].name", i)
		switch {
		case name.text == wholeWorkspace:
			report(path, fmt.Sprintf("is %q, which is reserved", wholeWorkspace), "another name")
		case seen[name.text]:
			report(path, fmt.Sprintf("is %q a second time", short(name.text)), "a different name for each output")
		}
		seen[name.text] = true
	}
}

var relayStage = tool{
	name:  "relay_stage",
	title: "Stage the guest runtime",
	description: "Prepares an acquired guest for recorded runs: pushes the receiver that runs and records scripts, the support files you name and, only if you name " +
		"it, a folder as the workspace, each checked by its hash on arrival. All of it comes from the project folder. The guest needs no software of its own for this. Answers " +
		"whether runs will take snapshots; that is no proof that a capture works. A stage that failed keeps the machine and may be called " +
		"again. Once staged, only corrected program paths may be sent again, without workspace and files. resetRecording archives the recording so far and " +
		"begins a new one on the same machine. " + endIt,
	hints:      acts,
	repeatable: true,
	input: object{
		named("the guest to stage"),
		{Name: "resetRecording", Doc: "archive the present recording and begin a new one", Shape: truth{}},
		{Name: "workspace", Doc: "folder of the project to copy into the guest's workspace", Shape: hostPath},
		{Name: "files", Doc: "project files to put below support/", Shape: list{Of: object{
			{Name: "local", Required: true, Doc: "file of the project", Shape: hostPath},
			{Name: "path", Required: true, Doc: "where to put it, relative to support/", Shape: relativePath},
		}}},
		{Name: "nodePath", Doc: `node in the guest, for scripts that need it; default "node"`, Shape: programPath},
		{Name: "cuaDriver", Doc: "capture driver in the guest, where the image has one in an unusual place", Shape: programPath},
	},
	call: decoded(Relay.Stage),
}

// programPath is a program in the guest, by name or path.
var programPath = text{Min: 1, Max: 4096, NonBlank: true, Rule: nulFault, Like: "the name or path of a program in the guest"}
