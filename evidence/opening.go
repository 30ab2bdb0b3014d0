package evidence

import (
	"cmp"
	"fmt"
	"strings"
)

// openingHead is the first line of our OPENING.txt, by which a package says that it is of our layout.
const openingHead = "Evidence package of mcp-relay, layout 1\n"

// maxOpening bounds it, in bytes.
const maxOpening = 64 << 10

func isOurs(text string) bool { return strings.HasPrefix(text, openingHead) }

// opening is the text for somebody who finds the package without knowing what it is. It repeats what the manifest says of
// itself, and is hashed by it, so that neither can be changed alone.
func opening(m Manifest) string {
	capture := cmp.Or(strings.Join(m.CaptureSoftware, ", "), "none")
	return openingHead + fmt.Sprintf(`
package    %s
recording  %s
task       %s
sealed at  %s
pictures   %s

This folder records what was run on one disposable machine: each script with its reason, its exact request, its output and exit
status, and, where the machine had a display that could be captured, one picture before it and one after it.

Check it first: "mcp-relay verify PATH", with PATH this folder, recomputes the SHA-256 of every file listed in manifest.json (all but
manifest.json itself), follows the chain of the journal, and names every file that was changed, added, removed or renamed.

Read it with "mcp-relay review PATH". Steps and verdicts are not stored here. They are derived from the records each time, and each
comes with its reasons. Whether all planned pictures are there and whether every step succeeded are two separate verdicts. A step
on a machine without capture software has no pictures, and nothing is missing then.

state/        what the recorder inside the machine wrote: journal/events.jsonl in order of time, one record per action and
              execution, receipts, whole outputs that were too long for a receipt, and the original pictures under snapshots/
host/         what the other side kept: requests as sent, receipts as received, its own verdicts, diagnostics, deliveries, events
extractions/  files that were to be brought out, one folder per attempt
`, m.PackageID, m.SessionID, m.TaskID, m.CreatedAt, capture)
}
