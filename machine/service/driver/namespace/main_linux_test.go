package namespace

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if IsStage(os.Args) {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}
