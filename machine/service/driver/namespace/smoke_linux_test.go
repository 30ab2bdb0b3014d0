package namespace

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/rs/zerolog"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	d := New(Options{StateDir: dir, Log: zerolog.New(zerolog.NewTestWriter(t))})
	t0 := time.Now()
	g, facts, err := d.Create(t.Context(), driver.Spec{Name: "smoke", Image: "host", Folder: dir, Nonce: rand.Text(), Network: "nat", Until: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(facts, time.Since(t0))
	for _, sh := range []string{"id; hostname; cat /proc/self/status | grep -E 'Cap|Seccomp|NoNew'; ls -la / /etc /dev; ps aux; cat /proc/self/mounts; env; cat /proc/self/cgroup; ls -l /proc/self/fd; ulimit -a"} {
		t0 := time.Now()
		code, out, err := g.Exec(t.Context(), []string{"sh", "-c", sh}, time.Minute, 100000)
		t.Logf("%d %v %s\n%s", code, err, time.Since(t0), out)
	}
	t0 = time.Now()
	g.Exec(t.Context(), []string{"true"}, time.Minute, 1000)
	t.Log(time.Since(t0))
	t0 = time.Now()
	t.Log(g.Destroy(t.Context()), time.Since(t0))
}
