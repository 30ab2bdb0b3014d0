// Command relay-guest is the runtime inside a guest of another operating system or architecture than the relay's own. It
// is the same code that mcp-relay runs under the name relay-guest, without the rest.
package main

import (
	"os"

	"github.com/seed-1e4c9d81/mcp-relay/guest/receiver"
)

func main() {
	os.Exit(receiver.Main(os.Args[1:], os.Stdout))
}
