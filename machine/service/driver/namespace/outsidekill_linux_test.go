package namespace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// killFromOutside ends a guest as an administrator or the kernel's memory killer does: by its init's pid on the host.
func killFromOutside(t *testing.T, g *guest) {
	t.Helper()
	init, err := os.FindProcess(g.record.Init.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := init.Kill(); err != nil {
		t.Fatal(err)
	}
}

// Whoever asks a guest that was killed learns that it is gone, whatever was asked and however soon.
func TestGuestKilledFromOutsideIsGone(t *testing.T) {
	tests := []struct {
		name string
		ask  func(*testing.T, *guest) error
	}{
		{"exec", func(t *testing.T, g *guest) error {
			_, _, err := g.Exec(t.Context(), []string{"true"}, patience, 10)
			return err
		}},
		{"renew", func(t *testing.T, g *guest) error { return g.Renew(t.Context(), time.Now().Add(time.Hour)) }},
		{"push of a file", func(t *testing.T, g *guest) error {
			local := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(local, make([]byte, 8<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			return g.Push(t.Context(), local, "/var/tmp/file")
		}},
		{"pull", func(t *testing.T, g *guest) error {
			return g.Pull(t.Context(), "/etc/passwd", filepath.Join(t.TempDir(), "file"))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			d := newDriver(t, dir)
			spec := newSpec(t, dir, uniqueName())
			made, _ := create(t, d, spec)
			adopted, err := d.Adopt(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer adopted.Destroy(t.Context())
			// Many processes: the kernel ends them all before it says that the guest has ended.
			sh(t, made, "i=0; while [ $i -lt 60 ]; do sleep 7777 & i=$((i+1)); done >/dev/null 2>&1")
			killFromOutside(t, made)
			for _, g := range []*guest{made, adopted.(*guest)} {
				if err := tt.ask(t, g); !errors.Is(err, driver.ErrGone) {
					t.Errorf("%v, want ErrGone", err)
				}
				if g.Alive() {
					t.Error("alive")
				}
			}
			if _, err := d.Adopt(t.Context(), spec); !errors.Is(err, driver.ErrGone) {
				t.Errorf("Adopt: %v, want ErrGone", err)
			}
			wantNothingLeft(t, d)
		})
	}
}

func TestExecUnderWhichTheGuestIsKilledEndsWithGone(t *testing.T) {
	g := newTestGuest(t)
	result := make(chan error, 1)
	go func() {
		_, _, err := g.Exec(t.Context(), []string{"sh", "-c", "touch /var/tmp/began; exec sleep 7777"}, patience, 10)
		result <- err
	}()
	eventually(t, "the command has begun", func() bool {
		code, _ := run(t, g, "test", "-e", "/var/tmp/began")
		return code == 0
	})
	killFromOutside(t, g)
	if err := <-result; !errors.Is(err, driver.ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
}
