package proptest

// module is the path of the module, which begins every import path of ours.
const module = "github.com/seed-1e4c9d81/mcp-relay"

// room is a top-level folder with code.
type room struct {
	name   string
	may    []string // import from
	reason string
}

// rooms are the top-level folders with code, and which other rooms each may import. Whoever is not listed may be imported by nobody.
var rooms = []room{
	{"cmd", []string{"mcpgate", "actors", "supervisor", "guest", "machine", "evidence"}, "it wires everything, and nothing wires it"},
	{"mcpgate", []string{"guest", "machine", "evidence"}, "the gateway declares the Relay it needs, so that it is tested, and embedded, without actors"},
	{"actors", []string{"supervisor", "guest", "machine", "evidence"}, "the tree knows the guests, and no protocol"},
	{"supervisor", nil, "supervision serves any host application"},
	{"guest", []string{"machine", "evidence"}, "a guest is a plain library below the actors"},
	{"machine", []string{"evidence"}, "machines know nothing of what runs in them"},
	{"evidence", nil, "a package is verified by whoever holds it, without the rest"},
	{"proptest", []string{"mcpgate", "actors", "supervisor", "guest", "machine", "evidence"}, "tests of everything"},
}

// names are all that may stand at the top of the repository.
var names = []string{
	"cmd", "mcpgate", "actors", "supervisor", "guest", "machine", "evidence", "proptest", "docs",
	".ci", ".gitignore", ".gitattributes", "go.mod", "go.sum", "LICENSE", "README.md",
}

// restricted are imports that only some files may have.
var restricted = []struct {
	path   string   // of the package, and those below it
	only   []string // files or folders within the module; a folder ends with a slash
	tests  bool     // any test may, too
	reason string
}{
	{"github.com/anthdm/hollywood", []string{"actors/engine.go", "actors/canary_test.go"}, false, "hollywood runs mailboxes and nothing else: one file to read when it changes"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"mcpgate/", "cmd/"}, false, "the protocol ends at the gateway"},
	{"github.com/leanovate/gopter", []string{"proptest/"}, true, "a tool of tests"},
	{module + "/cmd", []string{"cmd/"}, false, "commands are not a library"},
}

// forbidden are packages that must not be among what a package is linked with.
var forbidden = []struct {
	from   string
	paths  []string
	reason string
}{
	{"guest/receiver", []string{"net/http", "github.com/anthdm/hollywood/actor", "github.com/modelcontextprotocol/go-sdk/mcp"},
		"the receiver is copied into every guest: small, and without a way to the network of its own"},
	{"cmd/relay-guest", []string{"net/http", "github.com/anthdm/hollywood/actor", "github.com/modelcontextprotocol/go-sdk/mcp"},
		"it is the receiver alone"},
}

// pure are the packages that hold decisions: the same facts always give the same orders.
var pure = []string{
	"supervisor/restart", "actors/leaseclock", "actors/callqueue", "actors/downloadqueue", "actors/exitpolicy", "guest/frame",
	"guest/protocol", "guest/receiver/admission", "machine/capacity", "mcpgate/resend",
}

// impure are the packages that a pure one must not import.
var impure = []string{
	"context", "os", "os/exec", "os/signal", "io/ioutil", "math/rand", "math/rand/v2", "crypto/rand", "sync", "sync/atomic", "net", "net/http", "runtime",
	"log", "log/slog", "syscall", "golang.org/x/sys",
}

// clock are the functions of package time that a pure package must not use.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// environment are the functions that read the environment.
var environment = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}

// readers are who may read the environment.
var readers = []struct{ path, reason string }{
	{"cmd/internal/config/", "it is where the environment becomes a configuration"},
	{"guest/receiver/", "scripts get the environment that the receiver was started with"},
	{"machine/service/driver/namespace/guestinit/", "init hands its environment on to what it runs in the guest"},
	{"machine/service/drivertest/", "its processes run on the host and find programs as the test does"},
}
