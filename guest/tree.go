package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-1e4c9d81/mcp-relay/evidence"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
)

// archivePathBudget is how many bytes of paths one archive command carries.
const archivePathBudget = 64 << 10

// treePull is one verified pull of a guest file or folder to a fresh place on the host.
type treePull struct {
	source     string                       // in the guest
	target     string                       // on the host; must not exist
	candidates func(protocol.Fact) []string // host files that may hold the same bytes; may be nil
	gate       func(total int64) error      // asked before the first byte; may be nil
	names      bool                         // refuse names that an evidence package cannot carry
}

// pullTree brings a guest file or folder over: scan, gate, reuse of host copies, archives, and then both sides are compared
// with the scan, so nothing is missing, changed or added. It answers the facts and how many files came from the host.
func (g *Guest) pullTree(ctx context.Context, p treePull) (facts []protocol.Fact, reused int, err error) {
	facts, total, err := g.scan(ctx, p.source)
	if err != nil {
		return nil, 0, err
	}
	if p.names {
		if err := checkNames(facts); err != nil {
			return nil, 0, err
		}
	}
	if p.gate != nil {
		if err := p.gate(total); err != nil {
			return nil, 0, err
		}
	}
	if len(facts) == 1 && facts[0].Path == "" {
		return facts, 0, g.pullKnown(ctx, p.source, p.target, facts[0])
	}
	if err := os.MkdirAll(p.target, 0o700); err != nil {
		return nil, 0, fmt.Errorf("cannot make %s: %w", p.target, err)
	}
	rest := facts
	if p.candidates != nil {
		rest = reuse(facts, p.target, p.candidates)
	}
	if err := g.pullFiles(ctx, p, rest); err != nil {
		return nil, 0, err
	}
	here, err := inventory(p.target)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot check what was pulled from %s: %w", p.source, err)
	}
	if !slices.Equal(here, facts) {
		return nil, 0, fmt.Errorf("checksum mismatch: what was pulled from %s is not what the guest has", p.source)
	}
	again, _, err := g.scan(ctx, p.source)
	if err != nil {
		return nil, 0, err
	}
	if !slices.Equal(again, facts) {
		return nil, 0, fmt.Errorf("cannot pull %s: %w", p.source, errChanged)
	}
	return facts, len(facts) - len(rest), syncTree(p.target)
}

// scan lists a guest file or folder, hashed in the guest. The list travels as a file of its own.
func (g *Guest) scan(ctx context.Context, tree string) ([]protocol.Fact, int64, error) {
	root := g.rec().GuestRoot
	var size protocol.Size
	if err := g.verb(ctx, 0, &size, protocol.VerbSize, root, tree); err != nil {
		return nil, 0, err
	}
	frame := root + "/.inventory-" + newUUID() + ".json"
	defer g.removeInGuest(ctx, frame)
	var want protocol.Fact
	if err := g.verb(ctx, size.Bytes, &want, protocol.VerbScan, root, tree, frame); err != nil {
		return nil, 0, err
	}
	partial, err := g.pullTemp(ctx, frame)
	if err != nil {
		return nil, 0, err
	}
	defer os.Remove(partial)
	got, err := hashFile(partial)
	if err != nil || !same(got, want) {
		return nil, 0, errors.Join(fmt.Errorf("checksum mismatch: the list of %s did not arrive as the guest wrote it", tree), err)
	}
	return readFacts(partial)
}

// readFacts decodes a scan and applies its rules: unique safe relative paths, or one file with an empty path.
func readFacts(file string) ([]protocol.Fact, int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, err
	}
	var facts []protocol.Fact
	if err := json.Unmarshal(data, &facts); err != nil {
		return nil, 0, fmt.Errorf("cannot read the guest's list of files: %w", err)
	}
	sortFacts(facts)
	var total int64
	for i, fact := range facts {
		single := fact.Path == "" && len(facts) == 1
		repeated := i > 0 && facts[i-1].Path == fact.Path
		if fact.Bytes < 0 || len(fact.SHA256) != 64 || repeated || !single && !localPath(fact.Path) {
			return nil, 0, fmt.Errorf("the guest's list of files holds an unusable entry %q", fact.Path)
		}
		total += fact.Bytes
	}
	return facts, total, nil
}

// localPath says that rel stays below whatever it is joined to.
func localPath(rel string) bool {
	return filepath.IsLocal(rel) && path.Clean(rel) == rel && rel != "."
}

// checkNames refuses, with the reason, names that could not be sealed later.
func checkNames(facts []protocol.Fact) error {
	for _, fact := range facts {
		if fact.Path == "" {
			continue
		}
		if err := evidence.SafePath(fact.Path); err != nil {
			return fmt.Errorf("the file %q cannot be carried in an evidence package: %w; rename it in the guest", fact.Path, err)
		}
	}
	return nil
}

// reuse copies what the host has already and answers the rest. A copy is checked after copying; a wrong one is removed and
// the next candidate tried.
func reuse(facts []protocol.Fact, target string, candidates func(protocol.Fact) []string) []protocol.Fact {
	var rest []protocol.Fact
	for _, fact := range facts {
		if !reuseOne(fact, filepath.Join(target, filepath.FromSlash(fact.Path)), candidates(fact)) {
			rest = append(rest, fact)
		}
	}
	return rest
}

func reuseOne(fact protocol.Fact, to string, candidates []string) bool {
	for _, from := range candidates {
		info, err := os.Lstat(from)
		if err != nil || !info.Mode().IsRegular() || info.Size() != fact.Bytes {
			continue
		}
		if err := copyFile(from, to); err != nil {
			continue
		}
		if got, err := hashFile(to); err == nil && same(got, fact) {
			return true
		}
		if os.Remove(to) != nil {
			return false
		}
	}
	return false
}

// pullFiles brings the listed files of a tree in as few archives as the command line allows, or one by one where that fails.
func (g *Guest) pullFiles(ctx context.Context, p treePull, facts []protocol.Fact) error {
	for len(facts) > 0 {
		chunk := archiveChunk(facts)
		facts = facts[len(chunk):]
		err := g.pullArchive(ctx, p.source, p.target, chunk)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		if logged := g.log(eventArchiveFallback, "", map[string]any{"source": p.source, "error": err.Error()}); logged != nil {
			return errors.Join(err, logged)
		}
		for _, fact := range chunk {
			to := filepath.Join(p.target, filepath.FromSlash(fact.Path))
			if exists(to) {
				continue
			}
			if err := g.pullKnown(ctx, p.source+"/"+fact.Path, to, fact); err != nil {
				return err
			}
		}
	}
	return nil
}

func archiveChunk(facts []protocol.Fact) []protocol.Fact {
	n, bytes := 0, 0
	for n < len(facts) && (n == 0 || bytes+len(facts[n].Path)+1 <= archivePathBudget) {
		bytes += len(facts[n].Path) + 1
		n++
	}
	return facts[:n]
}

// freeSpace refuses a pull that the volume of dir cannot hold.
func freeSpace(dir string, needed int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("cannot read the free space of %s: %w", dir, err)
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	if needed > free {
		return fmt.Errorf("not enough room for the evidence in %s: %d bytes needed, %d free, %d short; nothing was pulled and the machine is kept: make room and try again",
			dir, needed, free, needed-free)
	}
	return nil
}

// removeInGuestTime bounds what is tried for a temporary file, also after a cancellation.
const removeInGuestTime = 3 * time.Second

// removeInGuest removes a transfer's temporary file. What remains is no harm: its name is never used again.
func (g *Guest) removeInGuest(ctx context.Context, remote string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeInGuestTime)
	defer cancel()
	_ = g.verb(ctx, 0, &struct{}{}, protocol.VerbRemove, g.rec().GuestRoot, remote)
}
