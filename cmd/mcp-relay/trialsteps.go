package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
)

const tryImage = "host"

func (t *trial) probeHost(ctx context.Context) (string, error) {
	var host struct {
		Relay struct {
			Reachable  bool   `json:"reachable"`
			Diagnostic string `json:"diagnostic"`
			Images     map[string]struct {
				BaseAvailable bool `json:"base_available"`
			} `json:"images"`
		} `json:"relay"`
	}
	if err := t.call(ctx, "relay_probe", map[string]any{}, &host); err != nil {
		return "", err
	}
	if !host.Relay.Reachable {
		return "", fmt.Errorf("the machine service cannot be reached: %s", host.Relay.Diagnostic)
	}
	if !host.Relay.Images[tryImage].BaseAvailable {
		return "", fmt.Errorf("the machine service offers no image named %q", tryImage)
	}
	return "image " + tryImage, nil
}

func (t *trial) acquire(ctx context.Context) (string, error) {
	var got struct {
		Guest string `json:"guest"`
	}
	err := t.call(ctx, "relay_acquire", map[string]any{"task": "try", "image": tryImage,
		"extractions": []any{map[string]any{"path": "report.json", "name": "report"}}, "ttlHours": 1}, &got)
	if err != nil {
		if strings.Contains(err.Error(), "isolation_unavailable") || strings.Contains(err.Error(), "cannot make guests") {
			return "", cli.Exit(cli.Unavailable, err)
		}
		return "", err
	}
	t.guest = got.Guest
	return got.Guest, nil
}

func (t *trial) probeGuest(ctx context.Context) (string, error) {
	var facts struct {
		Checks []struct {
			Name  string `json:"name"`
			Ready bool   `json:"ready"`
		} `json:"checks"`
	}
	if err := t.call(ctx, "relay_probe", map[string]any{"scope": "guest", "guest": t.guest}, &facts); err != nil {
		return "", err
	}
	t.has = map[string]bool{}
	var names []string
	for _, c := range facts.Checks {
		t.has[c.Name] = c.Ready
		if c.Ready {
			names = append(names, c.Name)
		}
	}
	return "has " + strings.Join(names, ", "), nil
}

func (t *trial) stage(ctx context.Context) (string, error) {
	var staged struct {
		Snapshots struct {
			Taken bool `json:"taken"`
		} `json:"snapshots"`
	}
	if err := t.call(ctx, "relay_stage", map[string]any{"guest": t.guest}, &staged); err != nil {
		return "", err
	}
	t.display = staged.Snapshots.Taken
	if t.display {
		return "every step will be photographed before and after", nil
	}
	return "the guest has no display: steps are recorded without screenshots", nil
}

// script runs one recorded step and answers the first line of its output.
func (t *trial) script(ctx context.Context, language, reason, code string) (string, error) {
	var run struct {
		Stdout string `json:"stdout"`
	}
	text, identity, err := t.agent.run(ctx, map[string]any{"guest": t.guest, "language": language, "inline": true, "code": code, "reason": reason})
	if err != nil {
		return "", err
	}
	if err := decode(text, &run); err != nil {
		return "", err
	}
	t.imageID = identity
	line, _, _ := strings.Cut(strings.TrimSpace(run.Stdout), "\n")
	return line, nil
}

func (t *trial) shell(ctx context.Context) (string, error) {
	return t.script(ctx, "shell", "See which machine this is and start the report",
		"echo \"I am $(id -un), pid 1 is $(cat /proc/1/comm), and this machine has $(ls /proc | grep -c '^[0-9]') processes\"\n"+
			"printf '{\"shell\": true' > report.json\n")
}

func (t *trial) python(ctx context.Context) (string, error) {
	if !t.has["python3"] {
		return "", leftOut{"the guest has no python3"}
	}
	return t.script(ctx, "python", "Add a line from python",
		"import platform\nopen('report.json', 'a').write(', \"python\": \"%s\"' % platform.python_version())\nprint('python', platform.python_version())\n")
}

func (t *trial) javascript(ctx context.Context) (string, error) {
	if !t.has["node"] {
		return "", leftOut{"the guest has no node"}
	}
	return t.script(ctx, "javascript", "Add a line from javascript",
		"require('fs').appendFileSync('report.json', `, \"javascript\": \"${process.version}\"`);\nconsole.log('node', process.version);\n")
}

func (t *trial) window(ctx context.Context) (string, error) {
	if !t.display {
		// The report is closed all the same, so that what is extracted is whole.
		_, err := t.script(ctx, "shell", "Close the report", "printf '}\\n' >> report.json\n")
		if err != nil {
			return "", err
		}
		return "", leftOut{"the guest has no display (install Xvfb on this host to see one)"}
	}
	return t.script(ctx, "shell", "Open a window, for the photograph after this step",
		"printf ', \"window\": true}\\n' >> report.json\n../relay-guest window 'Hello from a fresh guest' >/dev/null 2>&1 &\necho a window is open on $DISPLAY\n")
}

func (t *trial) image(ctx context.Context) (string, error) {
	if !t.display {
		return "", leftOut{"there is none"}
	}
	if t.imageID == "" {
		return "", errors.New("the step named no image")
	}
	size, mime, err := t.agent.image(ctx, t.imageID)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d bytes", mime, size), nil
}

func (t *trial) extract(ctx context.Context) (string, error) {
	var out []struct {
		Name        string `json:"name"`
		Destination string `json:"destination"`
		Facts       []struct {
			Bytes int64 `json:"bytes"`
		} `json:"facts"`
	}
	if err := t.call(ctx, "relay_extract", map[string]any{"guest": t.guest, "names": []string{"report"}}, &out); err != nil {
		return "", err
	}
	if len(out) != 1 || len(out[0].Facts) != 1 {
		return "", fmt.Errorf("expected one file, got %d outputs", len(out))
	}
	return fmt.Sprintf("report.json, %d bytes", out[0].Facts[0].Bytes), nil
}

func (t *trial) finish(ctx context.Context) (string, error) {
	var delivered struct {
		ManifestPath string `json:"manifestPath"`
		Verified     bool   `json:"deliveryVerified"`
	}
	if err := t.call(ctx, "relay_finish", map[string]any{"guest": t.guest}, &delivered); err != nil {
		return "", err
	}
	if !delivered.Verified {
		return "", errors.New("the package was delivered unverified")
	}
	t.report.Package = t.packagePath(delivered.ManifestPath)
	return "the guest is gone", nil
}
