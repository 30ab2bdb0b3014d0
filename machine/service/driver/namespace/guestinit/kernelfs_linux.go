package guestinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are the host's device files that a guest has too.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

func makeDevices(dev string, cfg SetupConfig) error {
	for _, name := range devices {
		target := filepath.Join(dev, name)
		if err := os.WriteFile(target, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", name, err)
		}
	}
	for _, dir := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dev, dir), 0o755); err != nil {
			return err
		}
	}
	options := "newinstance,ptmxmode=0666,mode=620"
	if cfg.ManyUIDs {
		options += ",gid=5" // tty
	}
	if err := unix.Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mount devpts: %w", err)
	}
	if err := mountMemory(dev+"/shm", 0o1777, max(cfg.DiskMB/2, 1)); err != nil {
		return fmt.Errorf("mount shm: %w", err)
	}
	links := map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
	for link, target := range links {
		if err := os.Symlink(target, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	return nil
}

// Parts of /proc that speak of the host or act on it.
var (
	hiddenProcFiles = []string{"kcore", "keys", "key-users", "kallsyms", "kmsg", "kpagecount", "kpageflags", "kpagecgroup",
		"latency_stats", "sched_debug", "sysrq-trigger", "timer_list", "timer_stats"}
	hiddenProcDirs   = []string{"acpi", "scsi"}
	readOnlyProcDirs = []string{"sys", "irq", "bus", "fs", "driver", "tty"}
)

func maskProc() error {
	for _, name := range hiddenProcFiles {
		if err := missingIsFine(unix.Mount("/dev/null", "/proc/"+name, "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("hide %s: %w", name, err)
		}
	}
	for _, name := range hiddenProcDirs {
		err := unix.Mount("tmpfs", "/proc/"+name, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "mode=555,size=4k")
		if err := missingIsFine(err); err != nil {
			return fmt.Errorf("hide %s: %w", name, err)
		}
	}
	for _, name := range readOnlyProcDirs {
		if err := missingIsFine(bindReadOnly("/proc/"+name, "/proc/"+name)); err != nil {
			return err
		}
	}
	return nil
}

func missingIsFine(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
