package namespace

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver/namespace/guestinit"
)

// stepNamespaces is the step at which most hosts that cannot have guests say so.
const stepNamespaces = "make namespaces"

// surroundings are the facts about a host that explain why a guest cannot be made there.
type surroundings struct {
	root             bool
	inGuest          bool
	container        bool
	noNamespaces     bool // user.max_user_namespaces = 0
	appArmor         bool // kernel.apparmor_restrict_unprivileged_userns = 1
	cloneForbidden   bool // kernel.unprivileged_userns_clone = 0
	noExecutableMemo bool // vm.memfd_noexec = 2
}

func look() surroundings {
	return surroundings{
		root:             os.Geteuid() == 0,
		inGuest:          exists(guestinit.Marker),
		container:        exists("/.dockerenv") || exists("/run/.containerenv") || exists("/run/systemd/container"),
		noNamespaces:     sysctl("user/max_user_namespaces") == "0",
		appArmor:         sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1",
		cloneForbidden:   sysctl("kernel/unprivileged_userns_clone") == "0",
		noExecutableMemo: sysctl("vm/memfd_noexec") == "2",
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func sysctl(name string) string {
	data, _ := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(data))
}

// explain turns a failed step into a refusal with cause and remedy. Other errors stay what they are.
func explain(err error) error {
	var step *stepError
	if !errors.As(err, &step) {
		return err
	}
	switch step.step {
	case stepDisplay, stepWait:
		return driver.Refuse(machine.CodeBootFailed, err, "the guest did not start: %v; nothing of it is left, trying again may help", step)
	}
	return driver.Refuse(machine.CodeIsolation, err, "%s (failed step: %s: %v)", look().remedy(step), step.step, step.err)
}

// remedy says what keeps guests from being made and what can be done, the most certain cause first.
func (s surroundings) remedy(step *stepError) string {
	denied := errors.Is(step.err, unix.EPERM) || errors.Is(step.err, unix.EACCES)
	switch {
	case s.inGuest:
		return "already inside a guest: guests do not nest"
	case s.noNamespaces, errors.Is(step.err, unix.ENOSPC) && step.step == stepNamespaces:
		return "this host allows no more user namespaces (user.max_user_namespaces=" + sysctl("user/max_user_namespaces") +
			"): raise it"
	case s.noExecutableMemo:
		return "this host forbids programs in memory (vm.memfd_noexec=2): set it to 1 or 0"
	case denied && !s.root && s.appArmor:
		return "Ubuntu's kernel.apparmor_restrict_unprivileged_userns=1 blocks guests for this user: install an AppArmor profile " +
			"for this binary that allows userns, or run as root, or use another backend"
	case denied && !s.root && s.cloneForbidden:
		return "this host allows user namespaces to root only (kernel.unprivileged_userns_clone=0): set it to 1, or run as root"
	case denied && s.container:
		return "this relay runs inside a container that may not create namespaces: give it SYS_ADMIN and an unmasked /proc, " +
			"or use another backend"
	case errors.Is(step.err, unix.ENOSYS):
		return "this kernel is too old for guests: Linux 5.14 or newer is needed"
	}
	return fmt.Sprintf("this host cannot make guests for %s", who(s.root))
}

func who(root bool) string {
	if root {
		return "root"
	}
	return "this user; running as root may help"
}

// Steps that fail for reasons of the moment, not of the host.
const (
	stepDisplay = "start the display"
	stepWait    = "wait for the guest"
)
