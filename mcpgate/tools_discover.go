package mcpgate

import (
	"context"

	"github.com/seed-1e4c9d81/mcp-relay/guest"
)

var relaySearch = tool{
	name:  "relay_search",
	title: "Search installed applications",
	description: "Finds which machine images have a piece of software, by its name or one of its aliases. A name that is equal ranks before one " +
		"that begins with the query, and that before one that contains it. Each hit lists the images with version, os and architecture; a version may be " +
		"null when the image does not tell it. truncated: true means that more was found than is shown. No hits is an empty list, not an " +
		"error; an error means the catalogue could not be read. Only reads an inventory: it boots, reserves and chooses nothing.",
	hints: reads,
	input: object{
		{Name: "name", Required: true, Doc: "what to look for, 1 to 256 characters", Shape: text{Min: 1, Max: 256, NonBlank: true}},
		{Name: "os", Doc: "only images of this operating system", Shape: text{Enum: []string{"linux", "macos"}}},
	},
	call: decoded(Relay.Search),
}

var relayProbe = tool{
	name:  "relay_probe",
	title: "Probe host and guest readiness",
	description: `Reports facts before you act. Scope "host" (the default): which images and capacity there are, what this host is like, and every guest you ` +
		`hold right now, without relying on earlier messages; call it when your context was shortened. Scope "guest": whether the language ` +
		"runtimes (/bin/sh, node, tsx, python3) run in that guest, which listed software it has, and whether its runs take snapshots. A fact that could not be " +
		"observed is null with a diagnostic; unknown never means idle or ready. A probe never proves that a picture can be captured. It installs and starts nothing.\n\n" +
		workflow + " One guest per task. " + endIt + " " + noReplay,
	hints: reads,
	input: object{
		{Name: "scope", Doc: `"host" (default) or "guest"`, Shape: text{Enum: []string{"host", "guest"}}},
		{Name: "guest", Doc: `the guest to probe; goes with scope "guest" only`, Shape: guestName},
	},
	rules: []rule{probeScope},
	call:  decoded(Relay.Probe),
}

// probeScope: a guest is named exactly when the scope is guest.
func probeScope(in value, report reporter) {
	scope, _ := in.get("scope")
	_, given := in.get("guest")
	switch {
	case scope.text == "guest" && !given:
		report("guest", `is missing with scope "guest"`, guestName.wants())
	case scope.text != "guest" && given:
		report("guest", `is given with scope "host"`, `scope "guest" with it, or leave guest out`)
	}
}

var relayStatus = tool{
	name:  "relay_status",
	title: "Show relay status",
	description: "Shows every guest of this session by name: its machine and lease, state, whether the lease is being renewed and until when, staging, the last error, evidence " +
		"downloads and the evidence folder; and the limit of guests, the project folder, the machine-service in use and the environment profile if one is selected. " +
		"Reads only what is known here: it never waits for a running operation, a lock or the machine-service, so it answers while a guest hangs.",
	hints: reads,
	call: func(ctx context.Context, relay Relay, _ []byte) (guest.Result, error) {
		return relay.Status(ctx)
	},
}
