package mcpgate

import (
	"fmt"
	"strings"
)

// Sentences that stand in several places, because a client may show only some of them.
const (
	workflow = "Order of work for one guest: relay_search or relay_probe to choose an image; relay_acquire, which must " +
		"declare every output you will want; relay_stage; relay_script as often as needed; relay_image and relay_extract " +
		"where they help; then relay_finish, or relay_release to give up."
	endIt    = "Before you give your answer, end every guest you acquired with relay_finish or relay_release."
	noReplay = "A result that is refused, uncertain or nonzero keeps the machine: find out why and send a new operation; never " +
		"send again what may already have run."
)

// Instructions is the text given to a client at initialize.
func Instructions() string {
	return fmt.Sprintf(instructions, len(table), toolNames(), workflow, endIt, noReplay)
}

const instructions = `This server gives you fresh, disposable machines (guests), runs your scripts in them and keeps evidence of every step.

Tools (%d): %s. relay_script is the only way to run anything in a guest; a command is a shell script.

Guests. relay_acquire starts a new machine and answers its name; every later call on that machine gives that name in "guest". Use one guest for one task and never reuse it for another. You may hold several guests at once, up to a limit: calls on one guest run one after another in the order you send them, calls on different guests run side by side. If earlier messages are gone from your context, relay_status and relay_probe tell which guests you hold.

%s

%s Ending the session does not end them for you unless the host is configured so: it only stops renewing their leases, and then the machines run out on their own, as a last resort.

Evidence is automatic. Each recorded run is journaled and, where the guest has a display it can capture, photographed before and after. A run does not wait for its after-image: it answers it as pending with an imageId. Call relay_image with that imageId to look at it. A result, an image or a verified package is evidence for a human reader; it is not the reader's judgement.

%s

Result texts are cut at 2,000 lines and 50 KiB; the whole result then stays in a private local file that the text names.

The guests are all there is: no access to the physical display of this host, no video, no starting of other agents.
`

// toolNames lists the tools in one line.
func toolNames() string {
	names := make([]string, len(table))
	for i, t := range table {
		names[i] = t.name
	}
	return strings.Join(names, ", ")
}
