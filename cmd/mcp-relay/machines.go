package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/cli"
	"github.com/seed-1e4c9d81/mcp-relay/cmd/internal/config"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/background"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace"
	"github.com/spf13/cobra"
)

// idleExit is how long a service that was started in the background stays without a lease.
const idleExit = 10 * time.Minute

type machinesFlags struct {
	listen     string
	state      string
	grace      time.Duration
	minTTL     time.Duration
	reap       time.Duration
	idle       time.Duration
	max        int
	ownerStdin bool
	background bool
}

func newMachines(s cli.Streams) *cobra.Command {
	var f machinesFlags
	c := &cobra.Command{
		Use:   "machines",
		Short: "Serve machines on this host (machine-service)",
		Long: `machines is the machine service: it makes guests on this host, leases them, and destroys those that nobody renews. It stays in the
foreground and prints its address when it is ready. The relay starts one in the background when it needs machines and finds none.

Machines outlive the service: the next one on the same state folder takes them over, and each ends itself when its lease and grace have passed.

Exit codes: 0 it was told to end, 1 it failed, 2 usage, 4 machines cannot be made here.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveMachines(c.Context(), s, f) },
	}
	c.Flags().StringVar(&f.listen, "listen", "", "address on loopback (default localhost:6240, both families; port 0 takes a free one)")
	c.Flags().StringVar(&f.state, "state", "", "state folder (default: machines under the state directory)")
	c.Flags().DurationVar(&f.grace, "grace", 6*time.Hour, "how long a lease that ended is kept for somebody to renew it")
	c.Flags().DurationVar(&f.minTTL, "min-ttl", config.MinimumBeat, "shortest lease or renewal")
	c.Flags().DurationVar(&f.reap, "reap-every", time.Minute, "period of the reaper")
	c.Flags().DurationVar(&f.idle, "idle-exit", 0, "end after this long without a lease (0: never)")
	c.Flags().IntVar(&f.max, "max", 0, "most machines at once (0: as many as memory allows)")
	c.Flags().BoolVar(&f.ownerStdin, "owner-stdin", false, "end when stdin ends, and release every machine first")
	c.Flags().BoolVar(&f.background, "background", false, "run as a background service: publish a record, end when idle")
	_ = c.Flags().MarkHidden("background")
	c.AddCommand(newMachinesList(s))
	return c
}

func serveMachines(ctx context.Context, s cli.Streams, f machinesFlags) error {
	cfg, err := loadConfig()
	if err != nil {
		return err
	}
	if f.state == "" {
		if cfg.Lazy != nil {
			return cli.Exit(cli.Usage, cfg.Lazy)
		}
		f.state = cfg.MachinesDir()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a reader of our log that went away is no reason to lose machines
	log := newLog(s.Err)
	sc := service.Config{
		StateDir: f.state, Driver: namespace.New(namespace.Options{StateDir: f.state, Log: log}), Listen: f.listen, MinTTL: f.minTTL, Grace: f.grace,
		ReapEvery: f.reap, IdleExit: f.idle, MaxMachines: f.max, Log: log,
	}
	if f.ownerStdin {
		sc.Owner = s.In
	}
	ready := func(addr string) { fmt.Fprintf(s.Out, "http://%s\n", addr) }
	if f.state != cfg.MachinesDir() || f.ownerStdin {
		// A service on a folder of its own is nobody's default: whoever starts it tells its clients the address.
		svc, err := service.Open(ctx, sc)
		if err != nil {
			return machinesFailure(err)
		}
		ready(svc.Addr())
		return machinesFailure(svc.Serve(ctx))
	}
	at := backgroundOptions(cfg)
	at.Ready = ready
	if f.background {
		at.Ready = nil
		if sc.IdleExit == 0 {
			sc.IdleExit = idleExit
		}
	}
	return machinesFailure(background.Serve(ctx, sc, at))
}

// machinesFailure gives a host that cannot make machines its own exit code.
func machinesFailure(err error) error {
	var refusal *driver.Refusal
	if errors.As(err, &refusal) {
		return cli.Exit(cli.Unavailable, err)
	}
	return err
}

func newMachinesList(s cli.Streams) *cobra.Command {
	var asJSON, proof bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the machines of this user as the kernel shows them",
		Long:  `list reads processes, namespaces, control groups and mounts; it does not ask the service. What it does not list is gone.`,
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := namespace.List(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				if found == nil {
					found = []driver.Listed{}
				}
				return printJSON(s.Out, found)
			}
			return printMachines(s.Out, found)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of {Name, State}")
	c.Flags().BoolVar(&proof, "proof", false, "the listing is meant as a proof of destruction (it always is one; for symmetry with other listers)")
	return c
}

func printMachines(w io.Writer, found []driver.Listed) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no machines")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, m := range found {
		fmt.Fprintf(t, "%s\t%s\n", m.Name, m.State)
	}
	return t.Flush()
}

// newLog writes structured events; a log that nobody reads any more stops nothing.
func newLog(w io.Writer) zerolog.Logger {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
	return zerolog.New(deadTolerant{w}).Level(zerolog.InfoLevel).With().Timestamp().Logger()
}

type deadTolerant struct{ w io.Writer }

func (d deadTolerant) Write(p []byte) (int, error) {
	_, _ = d.w.Write(p)
	return len(p), nil
}
