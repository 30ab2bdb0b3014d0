package config

import (
	"fmt"
	"strings"
)

// Variable documents one variable of the environment.
type Variable struct {
	Name    string
	Default string
	Meaning string
	Lazy    bool // a fault in it is reported by the first tool call, not at the start
}

// Variables are all that Load looks at, in the order of the documentation.
var Variables = []Variable{
	{"MCP_RELAY_PROJECT", "the working directory", "Project folder: the only files that can be staged lie in it, and it gets `relay-evidence/`. A value with an unexpanded `${` is ignored.", false},
	{"MCP_RELAY_SESSION", "random for each process", "Session identity. The same value after a restart takes the same guests back.", false},
	{"MCP_RELAY_BACKEND", "auto", "`auto`: a service that answers, else one of our own; `service`: never start one; `embedded`: always one of our own.", false},
	{"MCP_RELAY_URL", DefaultURL, "Origin of the machine service, on loopback. When set, none is started.", false},
	{"MCP_RELAY_MACHINES_PORT", "6240", "First choice of port for a service that is started; 0 takes a free one.", false},
	{"MCP_RELAY_GUEST_NETWORK", "nat", "`nat` or `internet`: the network of every guest; a caller cannot choose it.", false},
	{"MCP_RELAY_MAX_GUESTS", "4", "Most guests of one session at once.", false},
	{"MCP_RELAY_ON_EXIT", "pause", "`pause`: guests are kept until their lease ends; `release`: they are released when the session ends.", false},
	{"MCP_RELAY_SHUTDOWN_GRACE_MS", "120000", "How long the end of a session may take, in milliseconds.", false},
	{"MCP_RELAY_CAPACITY_WAIT", "1800", "Seconds to wait for a free machine; 0 does not wait. (Not used yet: a capacity refusal is passed on at once.)", false},
	{"MCP_RELAY_LEASE_WINDOW_MS", "900000", "How long one renewal of a lease lasts, in milliseconds. A crashed relay leaves a machine for at most this long, plus the service's grace.", false},
	{"MCP_RELAY_GUEST_RUNTIMES", "", "Folders with `relay-guest-<os>-<arch>`, for guests of another system than this one.", false},
	{"MCP_RELAY_STATE_DIR", "`$XDG_STATE_HOME/mcp-relay`", "State folder: ownership records, machines, logs.", true},
	{"XDG_STATE_HOME", "`~/.local/state`", "Where the state folder lies when it is not named.", true},
	{"XDG_RUNTIME_DIR", "the state folder", "Where the record of a background service lies.", true},
	{"TART", "tart", "On a Mac: the program that proves a machine's destruction.", true},
	{"TART_HOME", "`~/.tart`", "On a Mac: its store.", true},
	{"MCP_RELAY_PYTHON", "", "Accepted and not used.", false},
	{"VM_ENVIRONMENT_FILE", "", "Environment profiles are not supported by this build; setting it is reported by every call.", true},
}

// Page is docs/configuration.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Settings\n\n<!-- made from the program's own table; go test ./cmd/internal/config -update rewrites it -->\n\n" +
		"All settings are environment variables. One that is set but blank is a fault, except `MCP_RELAY_PROJECT`. Every fault is reported at\n" +
		"once. Those marked * are reported by the first tool call; the others stop the program with exit code 2.\n\n" +
		"| variable | default | meaning |\n|---|---|---|\n")
	for _, v := range Variables {
		mark := ""
		if v.Lazy {
			mark = " *"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", v.Name, mark, v.Default, v.Meaning)
	}
	return b.String()
}
