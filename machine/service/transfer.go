package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed-1e4c9d81/mcp-relay/machine"
	"github.com/seed-1e4c9d81/mcp-relay/machine/service/driver"
)

// push copies a path of this host into the machine.
func (s *Service) push(name, local, remote string) error {
	if err := s.checkLocal(local); err != nil {
		return err
	}
	if err := checkTree(local); err != nil {
		return err
	}
	return s.transfer(name, func(ctx context.Context, g driver.Guest) error { return g.Push(ctx, local, remote) })
}

// pull copies a path of the machine to this host. The target appears whole or not at all.
func (s *Service) pull(name, remote, local string) error {
	if err := s.checkLocal(local); err != nil {
		return err
	}
	return s.transfer(name, func(ctx context.Context, g driver.Guest) error {
		if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
			return hostFailure(err)
		}
		target, err := pullTarget(local, remote)
		if err != nil {
			return err
		}
		return g.Pull(ctx, remote, target)
	})
}

// transfer does one copy, after those that came before it and beside any command.
func (s *Service) transfer(name string, do func(context.Context, driver.Guest) error) error {
	guest, l, err := s.running(name)
	if err != nil {
		return err
	}
	if err := l.transfers.take(l.ctx); err != nil {
		return interrupted("transfer", err)
	}
	defer l.transfers.give()
	ctx, cancel := context.WithTimeout(l.ctx, transferLimit)
	defer cancel()
	return transferFailure(ctx, l, do(ctx, guest))
}

func transferFailure(ctx context.Context, l *live, err error) error {
	var ours *refusal
	var drivers *driver.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return ours
	case l.ctx.Err() != nil:
		return interrupted("transfer", context.Cause(l.ctx))
	case ctx.Err() != nil:
		return uncertain(machine.CodeTransferTimeout, err, "scp failed: not done within %s", transferLimit)
	case errors.Is(err, driver.ErrUnreachable), errors.Is(err, driver.ErrTimeout):
		return uncertain(machine.CodeTransferFailed, err, "scp failed: %v", err)
	case errors.Is(err, driver.ErrUnsafePath):
		return refuse(machine.CodePathRefused, "%v; a transfer cannot contain symlinks or special files", err)
	case errors.Is(err, driver.ErrGone):
		return refuse(machine.CodeMachineGone, "scp failed: the machine ended before or while the files were copied; it is not running on the host any more")
	case errors.Is(err, driver.ErrFull):
		return refuse(machine.CodeTransferFailed, "scp failed: the disk of the guest is full, not that of this host; nothing was copied: %v", err)
	case errors.As(err, &drivers):
		return asRefusal(err)
	}
	return hostFailure(err)
}

// hostFailure words a definite failure of a copy, and names the disk when that is the cause: a guest tells its own by ErrFull.
func hostFailure(err error) *refusal {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return refuse(machine.CodeTransferFailed, "scp failed: the disk of this host is full, not that of the guest; nothing was copied: %v", err)
	}
	return refuse(machine.CodeTransferFailed, "scp failed: %v", err)
}

// checkLocal keeps transfers away from the service's own state: the folder, what is in it and what holds it.
func (s *Service) checkLocal(local string) error {
	if !filepath.IsAbs(local) || strings.ContainsRune(local, 0) {
		return refuse(machine.CodePathRefused, "local_path %q is not an absolute path", local)
	}
	state, err := filepath.EvalSymlinks(s.cfg.StateDir)
	if err != nil {
		return refuse(machine.CodePathRefused, "cannot tell where the service's state is: %v", err)
	}
	target, err := resolveExisting(filepath.Clean(local))
	if err != nil {
		return refuse(machine.CodePathRefused, "cannot tell where local_path %q leads: %v", local, err)
	}
	if within(target, state) || within(state, target) {
		return refuse(machine.CodePathRefused, "local_path %q overlaps machine-service's own state; it holds private lease SSH material or its like", local)
	}
	return nil
}

// resolveExisting follows the symlinks of the part of path that exists.
func resolveExisting(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return resolved, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", errors.New("it is a symlink to nothing")
	}
	parent, err := resolveExisting(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// checkTree refuses a missing source and a source with a symlink or special file in it, before the guest is asked. The
// driver opens the files without following links, so a change meanwhile is refused there.
func checkTree(local string) error {
	return filepath.WalkDir(local, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return refuse(machine.CodeTransferFailed, "no such local path: %s", path)
		case err != nil:
			return refuse(machine.CodeTransferFailed, "cannot read local path: %v", err)
		case !entry.IsDir() && !entry.Type().IsRegular():
			return refuse(machine.CodePathRefused, "%s: a transfer cannot contain symlinks or special files", path)
		}
		return nil
	})
}

// pullTarget is local, or a new name inside it when local is a folder. A symlink under the final name is refused.
func pullTarget(local, remote string) (string, error) {
	info, err := os.Lstat(local)
	if err == nil && info.IsDir() {
		local = filepath.Join(local, filepath.Base(remote))
		info, err = os.Lstat(local)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return local, nil
	case err != nil:
		return "", refuse(machine.CodeTransferFailed, "scp failed: %v", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", refuse(machine.CodePathRefused, "%s: a transfer cannot go through symlinks or special files", local)
	}
	return local, nil
}
