package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCodesComeFromOneTable(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		err  error
		want int
		text string
	}{
		{"success", nil, nil, OK, ""},
		{"plain error", nil, errors.New("cannot do it: no luck"), Failed, "mcp-relay: cannot do it: no luck"},
		{"typed error", nil, Exit(Unavailable, errors.New("no guests here")), Unavailable, "no guests here"},
		{"code only", nil, Exit(Invalid, nil), Invalid, ""},
		{"junk flag", []string{"--junk"}, nil, Usage, "see tool --help"},
		{"junk argument", []string{"junk"}, nil, Usage, `unknown argument "junk"`},
	} {
		var out, errs bytes.Buffer
		root := &cobra.Command{Use: "tool", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return c.err }}
		got := Run(context.Background(), root, append([]string{}, c.args...), Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if got != c.want || !strings.Contains(errs.String(), c.text) || out.Len() > 0 || (c.text == "" && errs.Len() > 0) {
			t.Errorf("%s: got %d, %q, %q, want %d, %q", c.name, got, out.String(), errs.String(), c.want, c.text)
		}
	}
}

func TestAPipeIsNoTerminal(t *testing.T) {
	if Terminal(strings.NewReader("")) {
		t.Error("a reader was taken for a terminal")
	}
}
