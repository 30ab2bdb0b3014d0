package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tempCheckPrefix begins the name of a check's folder among the temporary files; the owner and a random part follow.
const tempCheckPrefix = "mcp-relay-check-"

// clearCheck ends what is left of the guest of a check whose process is gone or done, and removes its folder. It may be
// repeated, and done by several at once.
//
// A folder without a record, or with one that cannot be read, names no process: init did nothing before the record was
// durable and ended with the process that made it.
func clearCheck(folder string) error {
	r, err := readRecord(folder)
	if err == nil {
		err = eraseCheck(folder, r)
	} else {
		err = removeFiles(folder)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func eraseCheck(folder string, r *record) error {
	handle, err := holdInit(r)
	if err != nil {
		return err
	}
	if handle != nil {
		defer handle.Close()
	}
	return erase(folder, r, handle)
}

// sweepTempChecks removes what processes without a state folder left of their checks when they were killed: doctors. It
// touches only folders of this user that nobody else can write to, and whose owner is dead.
func sweepTempChecks() (removed []string, err error) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return nil, nil // no temporary files, no folders among them
	}
	var errs []error
	for _, e := range entries {
		folder := filepath.Join(os.TempDir(), e.Name())
		if !abandonedCheck(folder) {
			continue
		}
		if err := clearCheck(folder); err != nil {
			errs = append(errs, fmt.Errorf("cannot clear %s: %w", folder, err))
			continue
		}
		removed = append(removed, "folder "+folder)
	}
	return removed, errors.Join(errs...)
}

func abandonedCheck(folder string) bool {
	rest, ok := strings.CutPrefix(filepath.Base(folder), tempCheckPrefix)
	if !ok {
		return false
	}
	text, _, _ := strings.Cut(rest, "-")
	by, ok := parseOwner(text)
	if !ok {
		return false
	}
	var st unix.Stat_t
	if err := unix.Lstat(folder, &st); err != nil {
		return false
	}
	private := st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o077 == 0 && int(st.Uid) == os.Geteuid()
	return private && leftBehind(by, st)
}

// abandonedAfter is how old something must be whose owner this process cannot see, because it counts pids otherwise, to
// be taken for left behind: it is of use to its owner within minutes.
const abandonedAfter = time.Hour

func leftBehind(by owner, st unix.Stat_t) bool {
	if by.visible() {
		return by.dead()
	}
	return time.Since(time.Unix(st.Ctim.Unix())) > abandonedAfter
}
