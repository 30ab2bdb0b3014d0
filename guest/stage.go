package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-1e4c9d81/mcp-relay/guest/frame"
	"github.com/seed-1e4c9d81/mcp-relay/guest/protocol"
	"github.com/seed-1e4c9d81/mcp-relay/machine"
)

const plainTimeout = 30 * time.Second // of /bin/mkdir, /bin/chmod and --version

// StageResult is what relay_stage answers.
type StageResult struct {
	Guest        string             `json:"guest"`
	Staged       bool               `json:"staged"`
	Workspace    string             `json:"workspace"`
	Files        []StagedFile       `json:"files"`
	Extractions  []Declaration      `json:"extractions"`
	Snapshots    SnapshotsReport    `json:"snapshots"`
	Runtime      *protocol.Hello    `json:"runtime,omitempty"`
	Capabilities ImageCapabilitySet `json:"capabilities"`
	Lost         string             `json:"lost,omitempty"` // of a repeated staging: what the guest had and has no more
}

// StagedFile is one file that was pushed and proved to have arrived.
type StagedFile struct {
	Local  string `json:"local"`
	Remote string `json:"remote"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// stageItem is one project file with its place in the guest.
type stageItem struct {
	rel    string // in the project
	remote string
	bytes  int64
}

// Stage makes the guest ready for scripts: the runtime, support files and an optional workspace, each proved by its hash in the
// guest, and the decision whether runs are captured. The mark that it is staged is the last thing written, so a failure
// anywhere leaves a guest that can be staged again. On a staged guest only corrected executable paths are taken, and a runtime that is
// gone or altered is pushed again; when more than that is gone the result is a failed one that says what is lost.
func (g *Guest) Stage(ctx context.Context, in StageInput) (Result, error) {
	result, err := g.stage(ctx, in)
	if err != nil {
		return Result{}, g.fail("stage", err)
	}
	return Result{Value: result, Failed: result.Lost != ""}, nil
}

func (g *Guest) stage(ctx context.Context, in StageInput) (StageResult, error) {
	if err := g.stageRefusal(in); err != nil {
		return StageResult{}, err
	}
	if err := g.checkNode(ctx, in.NodePath); err != nil {
		return StageResult{}, err
	}
	if g.rec().Staged {
		return g.restage(ctx, in)
	}
	files, items, err := g.stageItems(in)
	if err != nil {
		return StageResult{}, err
	}
	defer files.Close()
	target, err := g.target(ctx, in.CuaDriver)
	if err != nil {
		return StageResult{}, err
	}
	err = g.update(func(r *Record) {
		r.Capture = &target.capture
		r.Node, r.CuaDriver = firstOf(in.NodePath, r.Node), target.capture.Driver
	})
	if err != nil {
		return StageResult{}, err
	}
	result, err := g.stageAll(ctx, files, items, target)
	return result, Repeatable(err) // even a refusal: a file that changed meanwhile was refused after others had been pushed
}

// correct takes corrected paths on a staged guest. Nothing is sent; the recording goes on.
func (g *Guest) correct(in StageInput) error {
	return g.update(func(r *Record) {
		r.Node = firstOf(in.NodePath, r.Node)
		if in.CuaDriver == "" || r.Capture == nil || r.Capture.Capture != protocol.CaptureCuaDriver {
			return
		}
		capture := *r.Capture
		capture.Driver = in.CuaDriver
		r.Capture, r.CuaDriver = &capture, in.CuaDriver
	})
}

// stageAll is a first or repeated staging: everything is pushed anew.
func (g *Guest) stageAll(ctx context.Context, files *project, items []stageItem, target guestTarget) (StageResult, error) {
	if err := g.makeGuestDirs(ctx); err != nil {
		return StageResult{}, err
	}
	hello, err := g.pushRuntime(ctx, target)
	if err != nil {
		return StageResult{}, err
	}
	var pushed []StagedFile
	var facts []protocol.Fact
	for _, item := range items {
		fact, err := g.pushProject(ctx, files, item)
		if err != nil {
			return StageResult{}, err
		}
		facts = append(facts, fact)
		pushed = append(pushed, StagedFile{Local: item.rel, Remote: item.remote, SHA256: fact.SHA256, Bytes: fact.Bytes})
	}
	for _, fact := range facts {
		if err := files.check(fact); err != nil {
			return StageResult{}, err
		}
	}
	if err := g.log(eventStage, "", map[string]any{"runtime": hello, "files": pushed, "snapshots": g.rec().captureReport()}); err != nil {
		return StageResult{}, err
	}
	session, err := g.startRecording()
	if err != nil {
		return StageResult{}, err
	}
	err = g.update(func(r *Record) { r.Staged, r.SessionID, r.LastError = true, session, "" })
	if err != nil {
		return StageResult{}, err
	}
	return g.stageResult(pushed, hello), nil
}

func (g *Guest) stageResult(files []StagedFile, hello *protocol.Hello) StageResult {
	r := g.rec()
	if files == nil {
		files = []StagedFile{}
	}
	return StageResult{
		Guest: g.name, Staged: r.Staged, Workspace: r.workspace(), Files: files, Extractions: r.Extractions,
		Snapshots: r.captureReport(), Runtime: hello, Capabilities: imageCapabilities(),
	}
}

// stageRefusal holds the rules that need no file and no guest.
func (g *Guest) stageRefusal(in StageInput) error {
	if err := g.sealed(); err != nil {
		return err
	}
	if in.ResetRecording {
		return Refuse("resetRecording is not available yet; nothing was changed. Finish this guest and acquire another one for a new recording")
	}
	if g.rec().Staged && (in.Workspace != "" || len(in.Files) > 0) {
		return Refuse("guest %q is staged already; only nodePath and cuaDriver can be corrected now. Write further files with a script", g.name)
	}
	if in.NodePath != "" && in.NodePath != "node" && (!path.IsAbs(in.NodePath) || path.Base(in.NodePath) != "node") {
		return Refuse("nodePath must be the absolute guest path of a program named node")
	}
	for _, file := range in.Files {
		if err := frame.CheckPath(file.Path); err != nil {
			return Refuse("the destination %q cannot be used: %v", file.Path, err)
		}
	}
	return nil
}

// stageItems finds the project files of a request and applies its bounds, before anything is sent.
func (g *Guest) stageItems(in StageInput) (*project, []stageItem, error) {
	files, err := openProject(g.rec().Project)
	if err != nil {
		return nil, nil, err
	}
	items, err := g.listItems(files, in)
	if err != nil {
		return nil, nil, errors.Join(err, files.Close())
	}
	return files, items, nil
}

func (g *Guest) listItems(files *project, in StageInput) ([]stageItem, error) {
	var items []stageItem
	for _, file := range in.Files {
		rel, err := files.resolve(file.Local)
		if err != nil {
			return nil, err
		}
		opened, info, err := files.open(rel)
		if err != nil {
			return nil, err
		}
		if err := opened.Close(); err != nil {
			return nil, err
		}
		items = append(items, stageItem{rel: rel, remote: g.rec().guest("support/" + file.Path), bytes: info.Size()})
	}
	if in.Workspace != "" {
		more, err := g.workspaceItems(files, in.Workspace)
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	return items, stageBounds(items)
}

func (g *Guest) workspaceItems(files *project, name string) ([]stageItem, error) {
	rel, err := files.resolve(name)
	if err != nil {
		return nil, err
	}
	info, err := files.root.Lstat(rel)
	if err != nil || !info.IsDir() {
		return nil, Refuse("the workspace %s is not a folder of the project", name)
	}
	list, err := files.tree(rel)
	if err != nil {
		return nil, err
	}
	prefix := filepath.ToSlash(rel) + "/"
	if rel == "." {
		prefix = ""
	}
	var items []stageItem
	for _, file := range list {
		inside := strings.TrimPrefix(file.path, prefix)
		if err := frame.CheckPath(inside); err != nil {
			return nil, Refuse("the workspace file %q cannot be staged: %v", file.path, err)
		}
		items = append(items, stageItem{rel: filepath.FromSlash(file.path), remote: g.rec().workspace() + "/" + inside, bytes: file.bytes})
	}
	return items, nil
}

func stageBounds(items []stageItem) error {
	var total int64
	seen := make(map[string]bool)
	for _, item := range items {
		if seen[item.remote] {
			return Refuse("two files of the request have the same destination %s", item.remote)
		}
		seen[item.remote] = true
		total += item.bytes
	}
	if len(items) > maxStageFiles {
		return tooManyFiles()
	}
	if total > maxStageBytes {
		return Refuse("one request may stage at most %d MiB; these files are %d bytes together", maxStageBytes>>20, total)
	}
	return nil
}

// makeGuestDirs makes the guest root and its folders, where they are not there.
func (g *Guest) makeGuestDirs(ctx context.Context) error {
	r := g.rec()
	return g.plain(ctx, "/bin/mkdir", "-p", "-m", "700", r.GuestRoot, r.workspace(), r.guest("state"), r.guest("support"))
}

// pushProject pushes one project file, by way of a private copy.
func (g *Guest) pushProject(ctx context.Context, files *project, item stageItem) (protocol.Fact, error) {
	if err := os.MkdirAll(g.temp(), 0o700); err != nil {
		return protocol.Fact{}, fmt.Errorf("cannot make the transfer folder: %w", err)
	}
	private := filepath.Join(g.temp(), newUUID())
	defer os.Remove(private)
	fact, err := files.copyOut(item.rel, private)
	if err != nil {
		return protocol.Fact{}, err
	}
	return fact, g.push(ctx, private, item.remote, fact)
}

// localRuntime is the guest runtime for the guest's system, on this host.
func (g *Guest) localRuntime(target guestTarget) (string, protocol.Fact, error) {
	local, err := g.s.opt.Runtime(target.goos, target.goarch)
	if err != nil {
		return "", protocol.Fact{}, fmt.Errorf("cannot stage guest %q: there is no guest runtime for %s/%s: %w", g.name, target.goos, target.goarch, err)
	}
	local, err = filepath.EvalSymlinks(local)
	if err != nil {
		return "", protocol.Fact{}, fmt.Errorf("cannot read the guest runtime: %w", err)
	}
	fact, err := hashFile(local)
	if err != nil {
		return "", protocol.Fact{}, fmt.Errorf("cannot read the guest runtime: %w", err)
	}
	return local, fact, nil
}

// pushRuntime brings the guest runtime over. Before it is there only the guest's own mkdir and chmod can help; then it tells
// its own hash.
func (g *Guest) pushRuntime(ctx context.Context, target guestTarget) (*protocol.Hello, error) {
	local, fact, err := g.localRuntime(target)
	if err != nil {
		return nil, err
	}
	remote := g.rec().guest(protocol.RuntimeName)
	if err := g.copyIn(ctx, local, remote); err != nil {
		return nil, err
	}
	if err := g.plain(ctx, "/bin/chmod", "700", remote); err != nil {
		return nil, err
	}
	var hello protocol.Hello
	if err := g.verb(ctx, fact.Bytes, &hello, protocol.VerbHello); err != nil {
		return nil, fmt.Errorf("the guest runtime was pushed but does not run: %w", err)
	}
	if hello.SHA256 != fact.SHA256 || hello.Protocol != protocol.Version {
		return nil, fmt.Errorf("checksum mismatch: the guest runs another runtime (%s, protocol %d) than the one pushed (%s, protocol %d)",
			hello.SHA256, hello.Protocol, fact.SHA256, protocol.Version)
	}
	return &hello, nil
}

// plain runs a program of the guest itself and requires exit 0.
func (g *Guest) plain(ctx context.Context, argv ...string) error {
	name, err := g.machineName()
	if err != nil {
		return err
	}
	result, err := g.s.opt.API.Exec(ctx, name, machine.ExecRequest{Argv: argv, Timeout: plainTimeout})
	if err != nil {
		return fmt.Errorf("cannot run %s in the guest: %w", argv[0], err)
	}
	if result.Code != 0 {
		return fmt.Errorf("%s failed in the guest with exit %d: %s", argv[0], result.Code, clip(result.Output, 2000))
	}
	return nil
}

// checkNode refuses a corrected Node that does not run.
func (g *Guest) checkNode(ctx context.Context, node string) error {
	if node == "" {
		return nil
	}
	if err := g.plain(ctx, node, "--version"); err != nil {
		return fmt.Errorf("nodePath %s cannot be used: %w", node, err)
	}
	return nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// clip keeps the end of a text that is too long, at a character boundary.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return "..." + strings.ToValidUTF8(text[len(text)-limit:], "")
}
