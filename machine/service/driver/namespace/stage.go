package namespace

// stageName is argv[0] of every process of a guest that runs our own program; argv is stageName, stage, mark, name.
const stageName = "mcp-relay-guest"

// Stages of a guest's init, in the order of its life: setup builds the root and gives up privileges, init serves.
const (
	stageSetup = "setup"
	stageInit  = "init"
)

// IsStage tells whether this process was started as the init of a guest. A program that makes guests asks it before
// anything else in main, and when it is true does nothing but os.Exit(Main(os.Args)).
func IsStage(args []string) bool {
	return len(args) == 4 && args[0] == stageName && (args[1] == stageSetup || args[1] == stageInit)
}
