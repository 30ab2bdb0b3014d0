package guestinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// site is where the new root is built. It is mounted over in the guest's own mount namespace only: the host's directory
// is neither changed nor visible.
const site = "/tmp"

// programDirs are the host's directories that a guest sees, read-only and with whatever is mounted below them. Symlinks
// among them (/bin -> usr/bin) are made again as symlinks.
var programDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/var/lib/dpkg",
}

// ownDirs are made in the guest's own memory.
var ownDirs = []struct {
	path string
	mode fs.FileMode
}{
	{"/boot", 0o755}, {"/dev", 0o755}, {"/etc", 0o755}, {"/home", 0o755}, {"/media", 0o755}, {"/mnt", 0o755},
	{"/proc", 0o555}, {"/root", 0o700}, {"/run", 0o755}, {"/run/lock", 0o1777}, {"/srv", 0o755}, {"/sys", 0o555},
	{"/tmp", 0o1777}, {"/tmp/.X11-unix", 0o1777}, {"/tmp/.ICE-unix", 0o1777},
	{"/var", 0o755}, {"/var/cache", 0o755}, {"/var/lib", 0o755}, {"/var/lib/xkb", 0o755}, {"/var/log", 0o755},
	{"/var/spool", 0o755}, {"/var/tmp", 0o1777},
}

// Marker is a file that every guest has.
const Marker = "/run/mcp-relay-guest"

func rootSteps(cfg SetupConfig) []step {
	return []step{
		{"make mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount the root file system", func() error { return mountMemory(site, 0o755, cfg.DiskMB) }},
		{"make directories", makeOwnDirs},
		{"bind the host's programs", bindPrograms},
		{"build /etc", func() error { return buildEtc(site, cfg) }},
		{"mount /proc", func() error {
			return unix.Mount("proc", site+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}},
		{"make devices", func() error { return makeDevices(site+"/dev", cfg) }},
		{"leave the host's root", pivot},
		{"mask /proc", maskProc},
		{"mark the root", func() error { return os.WriteFile(Marker, []byte(cfg.Name+"\n"), 0o444) }},
	}
}

// mountMemory mounts a file system in memory that holds at most that much, in files of 4 KiB and more on average.
func mountMemory(dir string, mode, sizeMB int) error {
	options := fmt.Sprintf("mode=%o,size=%dm,nr_inodes=%d", mode, sizeMB, 1024+sizeMB*256)
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
}

func makeOwnDirs() error {
	unix.Umask(0o022)
	for _, d := range ownDirs {
		path := site + d.path
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := unix.Chmod(path, uint32(d.mode)); err != nil {
			return &fs.PathError{Op: "chmod", Path: path, Err: err}
		}
	}
	for link, target := range map[string]string{"/var/run": "/run", "/var/lock": "/run/lock"} {
		if err := os.Symlink(target, site+link); err != nil {
			return err
		}
	}
	return nil
}

func bindPrograms() error {
	for _, dir := range programDirs {
		if err := show(dir, site+dir); err != nil {
			return err
		}
	}
	return nil
}

// show makes a directory of the host visible, or repeats it when it is a symlink. One that is missing is left out.
func show(source, target string) error {
	info, err := os.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(to, target)
	}
	if !info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return bindReadOnly(source, target)
}

// bindReadOnly mounts source, with all mounts below it, at target. It is read-only from its first moment: nothing of the
// host can be written, not even by its owner, and no mode, time or attribute can be changed.
func bindReadOnly(source, target string) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", source, err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make %s read-only: %w", source, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", source, err)
	}
	return nil
}

// pivot makes site the root and lets go of the host's.
func pivot() error {
	if err := unix.Chdir(site); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return unix.Chdir("/")
}
