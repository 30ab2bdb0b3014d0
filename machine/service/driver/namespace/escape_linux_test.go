package namespace

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestGuestSeesOnlyItsOwnProcesses(t *testing.T) {
	g := newTestGuest(t)
	out := sh(t, g, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		ours := line == "" || strings.HasPrefix(line, stageName) || strings.HasPrefix(line, "/usr/bin/Xvfb") || strings.HasPrefix(line, "sh ") || strings.HasPrefix(line, "tr ")
		if !ours {
			t.Errorf("the guest sees %q", line)
		}
	}
	if pid := strconv.Itoa(os.Getpid()); strings.Contains(sh(t, g, "ls /proc"), "\n"+pid+"\n") {
		t.Errorf("the guest sees a process %s, which is this test's id", pid)
	}
}

func TestGuestSeesNoneOfTheHostsData(t *testing.T) {
	g := newTestGuest(t)
	var canaries []string
	for _, dir := range []string{"/root", "/home", "/var", "/var/tmp", "/var/log", "/srv", "/tmp", "/run", "/mnt", "/media", "/boot", "/etc", t.TempDir()} {
		path := filepath.Join(dir, "mcp-relay-canary-"+uniqueName())
		if err := os.WriteFile(path, []byte("secret"), 0o644); err != nil {
			continue // an ordinary user cannot put one there
		}
		t.Cleanup(func() { os.Remove(path) })
		canaries = append(canaries, path)
	}
	if len(canaries) < 2 {
		t.Fatalf("canaries could be written in %v only", canaries)
	}
	for _, c := range canaries {
		if code, out := run(t, g, "cat", c); code == 0 {
			t.Errorf("the guest reads %s: %q", c, out)
		}
	}
	for _, secret := range []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private", "/etc/pip.conf", "/etc/environment"} {
		if code, _ := run(t, g, "test", "-e", secret); code == 0 {
			t.Errorf("the guest has %s", secret)
		}
	}
	if host, err := os.ReadFile("/etc/machine-id"); err == nil && len(host) > 0 && sh(t, g, "cat /etc/machine-id") == string(host) {
		t.Error("the guest knows the host's machine id")
	}
	if out := sh(t, g, "ls -A /root /home /srv /mnt /media /boot /sys"); strings.Contains(out, "canary") || strings.Count(out, "\n") > 14 {
		t.Errorf("the guest's directories are not empty: %s", out)
	}
}

// A file that only the host's root may read stays unread, although it lies among the programs that guests see.
func TestGuestReadsOnlyWhatAnybodyMayRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can put a file among the host's programs")
	}
	dir := t.TempDir()
	secret := filepath.Join("/usr/local/share", "mcp-relay-"+uniqueName())
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(secret) })
	g, _ := create(t, newDriver(t, dir), newSpec(t, dir, uniqueName()))
	if code, out := run(t, g, "cat", secret); code == 0 {
		t.Errorf("the guest reads a file that belongs to the host's root alone: %q", out)
	}
}

// sharedFileVariable names a file among the host's programs that the ordinary user owns; root makes it for that run.
const sharedFileVariable = "MCP_RELAY_TEST_SHARED_FILE"

func sharedFile(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(sharedFileVariable); path != "" {
		return path
	}
	if os.Geteuid() != 0 {
		return ""
	}
	path := filepath.Join("/usr/local/share", "mcp-relay-"+uniqueName())
	if err := os.WriteFile(path, []byte("as it was\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	return path
}

func TestGuestChangesNoFileOfTheHost(t *testing.T) {
	shared := sharedFile(t)
	g := newTestGuest(t)
	paths := []string{"/usr", "/usr/bin", "/usr/bin/env", "/usr/lib", "/usr/local/bin", "/opt", "/etc/ssl/certs", "/etc/alternatives"}
	if shared != "" {
		paths = append(paths, shared)
	}
	for try, result := range probe(t, g, "write", paths...) {
		if result == "ok" {
			t.Errorf("in the guest %s succeeded", try)
		}
	}
	if shared != "" {
		if data, err := os.ReadFile(shared); err != nil || string(data) != "as it was\n" {
			t.Errorf("%s is now %q, %v", shared, data, err)
		}
	}
	sh(t, g, "echo x > /etc/mcp-relay-canary; echo x > /etc/hosts; echo x > /var/tmp/mcp-relay-canary; echo x > /tmp/mcp-relay-canary")
	for _, path := range []string{"/etc/mcp-relay-canary", "/var/tmp/mcp-relay-canary", "/tmp/mcp-relay-canary"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s of a guest is on the host", path)
		}
	}
}

func TestGuestReachesNoListenerOfTheHost(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@mcp-relay-"+uniqueName())
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	targets := []string{"tcp!" + tcp.Addr().String(), "unix!" + abstract.Addr().String()}
	for _, target := range targets {
		network, address, _ := strings.Cut(target, "!")
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatalf("%s is not reached from the host: %v", target, err)
		}
		conn.Close()
	}
	g := newTestGuest(t)
	for target, result := range probe(t, g, "dial", append(targets, "tcp!192.0.2.1:80", "udp!192.0.2.1:53")...) {
		if result == "ok" {
			t.Errorf("the guest reaches %s", target)
		}
	}
	if out := sh(t, g, "tail -n +3 /proc/net/dev"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "lo:") {
		t.Errorf("the guest has interfaces:\n%s", out)
	}
}

func TestGuestsLoopbackWorks(t *testing.T) {
	g := newTestGuest(t)
	// Nothing listens, but the way there exists.
	if got := probe(t, g, "dial", "tcp!127.0.0.1:9"); got["tcp!127.0.0.1:9"] != "ECONNREFUSED" {
		t.Errorf("dial of a port without listener: %v, want ECONNREFUSED", got)
	}
}

func TestDangerousCallsAreRefused(t *testing.T) {
	allowed := []string{"socket unix", "socket inet", "socket inet6", "socket netlink", "unshare semaphores"}
	g := newTestGuest(t)
	found := probe(t, g, "syscalls")
	for _, name := range allowed {
		if found[name] != "ok" {
			t.Errorf("%s: %s, want ok", name, found[name])
		}
		delete(found, name)
	}
	for name, result := range found {
		if result == "ok" || result == "EFAULT" {
			t.Errorf("%s is not refused: %s", name, result)
		}
	}
	for _, name := range []string{"mount", "unshare user", "clone user", "setns", "TIOCSTI", "bpf", "keyctl"} {
		if found[name] != "EPERM" {
			t.Errorf("%s: %s, want the filter's EPERM", name, found[name])
		}
	}
	if found["socket vsock"] != "EAFNOSUPPORT" || found["clone3"] != "ENOSYS" {
		t.Errorf("vsock %s, want EAFNOSUPPORT; clone3 %s, want ENOSYS", found["socket vsock"], found["clone3"])
	}
}

// The init's program is the host's: a guest that could reach it might change what the host runs next.
func TestInitIsClosedToItsGuest(t *testing.T) {
	g := newTestGuest(t)
	for try, result := range probe(t, g, "init") {
		if result == "ok" {
			t.Errorf("in the guest, %s succeeded", try)
		}
	}
}

func TestInitSurvivesEverySignalFromItsGuest(t *testing.T) {
	g := newTestGuest(t)
	probe(t, g, "signals")
	for i := range 3 {
		if out := sh(t, g, fmt.Sprintf("echo %d", i)); out != fmt.Sprintf("%d\n", i) {
			t.Errorf("after the signals: %q", out)
		}
	}
}

func TestCommandsGetNoFilesOfInit(t *testing.T) {
	g := newTestGuest(t)
	out := sh(t, g, "for f in /proc/self/fd/*; do readlink $f || true; done")
	if strings.Contains(out, "socket") || strings.Contains(out, "memfd") || strings.Contains(out, "uid-slots") {
		t.Errorf("a command holds %s", out)
	}
	if got := sh(t, g, "readlink /proc/self/fd/0"); got != "/dev/null\n" {
		t.Errorf("stdin is %q", got)
	}
}

func TestFilesOfInitAreNotTheHosts(t *testing.T) {
	g := newTestGuest(t)
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", g.record.Init.PID))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(exe, "/memfd:") {
		t.Errorf("init runs %s, want a sealed copy in memory", exe)
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/exe", g.record.Init.PID), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write([]byte{0})
		f.Close()
	}
	if err == nil {
		t.Error("init's program can be written even from the host; it is not sealed")
	}
}
