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
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

// archivePathBudget is how many bytes of paths one archive command carries.
const archivePathBudget = 64 << 10

// archiveBudget is how many bytes of content one archive carries at most, unless a single file has more: with its frames it stays below
// what a transfer may be.
const archiveBudget = machine.MaxTransfer / 2

// treePull is one verified pull of a guest file or folder to a fresh place on the host.
type treePull struct {
	source     string                       // in the guest
	target     string                       // on the host; must not exist
	candidates func(protocol.Fact) []string // host files that may hold the same bytes; may be nil
	names      bool                         // refuse names that an evidence package cannot carry
}

// pullTree brings a guest file or folder over. Its size is compared with the room on the host before a byte of it is read; then scan,
// reuse of host copies, archives, and at last both sides are compared with the scan, so nothing is missing, changed or added. It
// answers the facts and how many files came from the host.
func (g *Guest) pullTree(ctx context.Context, p treePull) (facts []protocol.Fact, reused int, err error) {
	size, err := g.measure(ctx, p.source)
	if err != nil {
		return nil, 0, err
	}
	if err := g.affordable(size); err != nil {
		return nil, 0, err
	}
	facts, size, err = g.scan(ctx, p.source, size.Bytes)
	if err != nil {
		return nil, 0, err
	}
	if p.names {
		if err := checkNames(facts); err != nil {
			return nil, 0, err
		}
	}
	if err := g.affordable(size); err != nil { // it may have grown
		return nil, 0, err
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
	again, _, err := g.scan(ctx, p.source, size.Bytes)
	if err != nil {
		return nil, 0, err
	}
	if !slices.Equal(again, facts) {
		return nil, 0, fmt.Errorf("cannot pull %s: %w", p.source, errChanged)
	}
	return facts, len(facts) - len(rest), syncTree(p.target)
}

// measure asks how large a guest file or folder is. Nothing of it is read.
func (g *Guest) measure(ctx context.Context, tree string) (protocol.Size, error) {
	var size protocol.Size
	err := g.verb(ctx, 0, &size, protocol.VerbSize, g.rec().GuestRoot, tree)
	return size, err
}

// affordable refuses a pull that cannot work: a file that no transfer carries, or more than the evidence's volume has room for. A
// sparse file of any size costs a guest nothing.
func (g *Guest) affordable(size protocol.Size) error {
	largest := size.Largest
	if size.Files == 1 {
		largest = size.Bytes // also of a runtime that does not tell the largest file
	}
	if largest > machine.MaxTransfer {
		return fmt.Errorf("a file of %d bytes is larger than a transfer may be: at most %d bytes, %d too many; nothing was read or pulled and the machine is kept: "+
			"make it smaller or delete it in the guest with relay_script, or call relay_release", largest, int64(machine.MaxTransfer), largest-machine.MaxTransfer)
	}
	return freeSpace(g.rec().HostRoot, size.Bytes)
}

// scan lists a guest file or folder of about so many bytes, hashed in the guest. The list travels as a file of its own.
func (g *Guest) scan(ctx context.Context, tree string, bytes int64) ([]protocol.Fact, protocol.Size, error) {
	var none protocol.Size
	root := g.rec().GuestRoot
	frame := root + "/.inventory-" + newUUID() + ".json"
	defer g.removeInGuest(ctx, frame)
	var want protocol.Fact
	if err := g.verb(ctx, bytes, &want, protocol.VerbScan, root, tree, frame); err != nil {
		return nil, none, err
	}
	partial, err := g.pullTemp(ctx, frame)
	if err != nil {
		return nil, none, err
	}
	defer os.Remove(partial)
	got, err := hashFile(partial)
	if err != nil || !same(got, want) {
		return nil, none, errors.Join(fmt.Errorf("checksum mismatch: the list of %s did not arrive as the guest wrote it", tree), err)
	}
	return readFacts(partial)
}

// readFacts decodes a scan and applies its rules: unique safe relative paths, or one file with an empty path.
func readFacts(file string) ([]protocol.Fact, protocol.Size, error) {
	var size protocol.Size
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, size, err
	}
	var facts []protocol.Fact
	if err := json.Unmarshal(data, &facts); err != nil {
		return nil, size, fmt.Errorf("cannot read the guest's list of files: %w", err)
	}
	sortFacts(facts)
	for i, fact := range facts {
		single := fact.Path == "" && len(facts) == 1
		repeated := i > 0 && facts[i-1].Path == fact.Path
		if fact.Bytes < 0 || len(fact.SHA256) != 64 || repeated || !single && !localPath(fact.Path) {
			return nil, size, fmt.Errorf("the guest's list of files holds an unusable entry %q", fact.Path)
		}
		size.Files++
		size.Bytes += fact.Bytes
		size.Largest = max(size.Largest, fact.Bytes)
	}
	return facts, size, nil
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
	n, names, content := 0, 0, int64(0)
	for n < len(facts) && (n == 0 || names+len(facts[n].Path)+1 <= archivePathBudget && content+facts[n].Bytes <= archiveBudget) {
		names += len(facts[n].Path) + 1
		content += facts[n].Bytes
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
		return fmt.Errorf("not enough room for the evidence in %s: %d bytes needed, %d free, %d short; nothing was read or pulled and the machine is kept: make room and try again",
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
