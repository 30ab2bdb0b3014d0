package receiver

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// versionLimit bounds the question for node's version.
const versionLimit = 10 * time.Second

// arguments builds the command that runs a script file: the interpreter from the guest's PATH and the file, nothing else
// that a caller could choose. The error names what the guest lacks; nothing ran then.
func arguments(ctx context.Context, language, file string) ([]string, error) {
	switch language {
	case protocol.Shell:
		return []string{"/bin/sh", file}, nil
	case protocol.JavaScript:
		return interpreter("node", language, file)
	case protocol.Python:
		return interpreter("python3", language, file)
	case protocol.TypeScript:
		return typescript(ctx, file)
	}
	return nil, fmt.Errorf("language %q is not known", language)
}

func interpreter(name, language, file string) ([]string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("the guest has no %s on its PATH, which %s scripts need", name, language)
	}
	return []string{path, file}, nil
}

// typescript runs in tsx, or in a node that can strip types.
func typescript(ctx context.Context, file string) ([]string, error) {
	if path, err := exec.LookPath("tsx"); err == nil {
		return []string{path, file}, nil
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("the guest has neither tsx nor node on its PATH, one of which typescript scripts need")
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	version, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("the guest has no tsx on its PATH, and its node does not tell its version: %w", err)
	}
	if !stripsTypes(string(version)) {
		return nil, fmt.Errorf("the guest has no tsx on its PATH, and its node %s cannot strip types (22.6 can): typescript scripts need either",
			strings.TrimSpace(string(version)))
	}
	return []string{node, "--experimental-strip-types", "--disable-warning=ExperimentalWarning", file}, nil
}

var nodeVersion = regexp.MustCompile(`^v(\d+)\.(\d+)\.`)

// stripsTypes reports whether a node of this version runs typescript by itself.
func stripsTypes(version string) bool {
	m := nodeVersion.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	major, errMajor := strconv.Atoi(m[1])
	minor, errMinor := strconv.Atoi(m[2])
	return errMajor == nil && errMinor == nil && (major > 22 || major == 22 && minor >= 6)
}
