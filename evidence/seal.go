package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Seal makes the recording folder dir a package: it analyzes the evidence, writes OPENING.txt and manifest.json, and verifies
// the result. Evidence that contradicts itself is an *InvalidError and nothing is written. After any error dir holds what it
// held before. A package that is sealed already, by the same identity, is verified and answers the same delivery; one of
// another identity is an error. host/steps, which is no part of a package, must be gone. Nobody may write below dir meanwhile.
func Seal(ctx context.Context, dir string, id Identity, now time.Time) (Delivery, error) {
	d, err := seal(ctx, dir, id, now)
	if err != nil {
		return Delivery{}, fmt.Errorf("cannot seal %s: %w", dir, err)
	}
	return d, nil
}

func seal(ctx context.Context, dir string, id Identity, now time.Time) (Delivery, error) {
	if err := checkRealDir(dir); err != nil {
		return Delivery{}, err
	}
	if _, err := os.Lstat(filepath.Join(dir, manifestPath)); err == nil {
		return resealed(ctx, dir, id)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Delivery{}, err
	}
	if _, err := os.Lstat(filepath.Join(dir, stepsDir)); err == nil {
		return Delivery{}, fmt.Errorf("%s is still there", stepsDir)
	}
	a, err := examine(ctx, dir, id)
	if err != nil {
		return Delivery{}, err
	}
	if len(a.problems) > 0 {
		return Delivery{}, &InvalidError{a.problems}
	}
	own, err := writePackage(dir, buildManifest(a, now))
	if err == nil {
		var d Delivery
		if d, err = delivery(ctx, dir); err == nil {
			return d, nil
		}
	}
	return Delivery{}, errors.Join(err, removeNewestFirst(own))
}

// resealed answers for a package that exists.
func resealed(ctx context.Context, dir string, id Identity) (Delivery, error) {
	m, problems, err := readManifest(dir)
	if err != nil {
		return Delivery{}, err
	}
	if len(problems) > 0 {
		return Delivery{}, &InvalidError{problems}
	}
	if m.identity() != id {
		return Delivery{}, fmt.Errorf("it is sealed already, as package %s of recording %s and task %s", m.PackageID, m.SessionID, m.TaskID)
	}
	return delivery(ctx, dir)
}

// writePackage writes the two files of the package itself, the manifest last. It returns those it made, also on error. An
// opening text without a manifest is what a seal that died left, when it reads as one of this recording; any other is not ours to
// take over.
func writePackage(dir string, m Manifest) (own []string, err error) {
	path := filepath.Join(dir, openingPath)
	if old, err := readBounded(path, maxOpening); err == nil {
		if !leftBySeal(string(old), m) {
			return nil, fmt.Errorf("%s exists and was not written by a seal of this recording", openingPath)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := WriteExclusive(path, []byte(m.OpeningInstructions), 0o600); err != nil {
		return nil, err
	}
	own = append(own, path)
	data, err := MarshalRecord(m)
	if err == nil {
		path = filepath.Join(dir, manifestPath)
		err = WriteExclusive(path, data, 0o600)
	}
	if err == nil {
		own = append(own, path)
	}
	return own, err
}

// leftBySeal reports whether text is the opening text of the same recording, sealed at another time.
func leftBySeal(text string, m Manifest) bool {
	for line := range strings.Lines(text) {
		if at, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "sealed at  "); ok {
			m.CreatedAt = at
			return opening(m) == text
		}
	}
	return false
}

func removeNewestFirst(paths []string) error {
	var all error
	for i := len(paths) - 1; i >= 0; i-- {
		all = errors.Join(all, os.Remove(paths[i]))
	}
	return all
}

// delivery verifies the package and words the result.
func delivery(ctx context.Context, dir string) (Delivery, error) {
	r, err := Verify(ctx, dir)
	if err != nil {
		return Delivery{}, err
	}
	if !r.OK {
		return Delivery{}, &InvalidError{r.Problems}
	}
	return Delivery{
		ManifestPath: filepath.Join(absolute(dir), manifestPath), DeliveryVerified: true,
		Snapshots: r.Snapshots, Execution: r.Execution, Findings: r.Findings,
	}, nil
}
