package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes. Each command's help names those it can give.
const (
	OK          = 0
	Failed      = 1 // it did not work; the message says what to do
	Usage       = 2 // the command line or a variable is wrong; nothing was done
	Invalid     = 3 // verify: the package is not what its manifest says
	Unavailable = 4 // this host or user cannot make machines; the message names cause and remedy
)

// Codes is the table as help prints it.
const Codes = `Exit codes:
  0  it worked
  1  it failed; the message says what happened and what to do
  2  the command line or an environment variable is wrong; nothing was done
  3  a package does not verify; every problem is named
  4  machines cannot be made here; the message names the cause and the remedy`

// Error gives an error its exit code. A nil Err means that the code says it all and nothing more is printed.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Exit makes an Error.
func Exit(code int, err error) error { return &Error{Code: code, Err: err} }

// Streams of the process, or of a test.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Process is this process's own streams.
func Process() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// Terminal says whether f is one that a person sits at.
func Terminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	st, err := file.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && isTerminal(file)
}

// Run executes root with args and answers the exit code, after it has told Err what went wrong.
func Run(ctx context.Context, root *cobra.Command, args []string, s Streams) int {
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Exit(Usage, fmt.Errorf("%w; see %s --help", err, c.CommandPath()))
	})
	root.CompletionOptions.DisableDefaultCmd = true
	err := root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: Failed, Err: err}
	}
	if e.Err != nil {
		fmt.Fprintf(s.Err, "mcp-relay: %v\n", e.Err)
	}
	return e.Code
}

// NoArgs refuses any argument as a usage error.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Exit(Usage, fmt.Errorf("unknown argument %q; see %s --help", args[0], c.CommandPath()))
	}
	return nil
}

// ExactArgs asks for n arguments, described by what.
func ExactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return Exit(Usage, fmt.Errorf("%s needs %s; see its --help", c.CommandPath(), what))
		}
		return nil
	}
}
