package proptest

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"
)

var (
	seedFlag    = flag.Int64("seed", 0, "seed of the property tests; 0 draws one")
	mutantsFlag = flag.Bool("mutants", false, "plant the mutants even if -run does not name them")
	casesFlag   = flag.Int("cases", 0, "cases of each property; 0 for its default")
)

// check runs a property with a seed that it logs, so that a failure can be repeated.
func check(t *testing.T, cases, size int, property gopter.Prop) {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = time.Now().UnixNano()
	}
	if testing.Short() {
		cases = max(cases/10, 10)
	}
	if *casesFlag > 0 {
		cases = *casesFlag
	}
	parameters := gopter.DefaultTestParametersWithSeed(seed)
	parameters.MinSuccessfulTests = cases
	parameters.MaxSize = size
	var report strings.Builder
	result := property.Check(parameters)
	if result.Passed() {
		return
	}
	gopter.NewFormatedReporter(true, 140, &report).ReportTestResult(t.Name(), result)
	t.Errorf("%s\nrepeat with: go test ./proptest -run '^%s$' -seed %d -cases %d", &report, t.Name(), seed, cases)
}
