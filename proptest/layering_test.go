package proptest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module, for whatever system it is built.
type source struct {
	path string // within the module, with slashes
	file *ast.File
}

func (s source) dir() string  { return path.Dir(s.path) }
func (s source) room() string { top, _, _ := strings.Cut(s.path, "/"); return top }
func (s source) test() bool   { return strings.HasSuffix(s.path, "_test.go") }

func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, dir := range packages(t) {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, source{path.Join(dir, filepath.Base(name)), file})
		}
	}
	return all
}

// packages lists the folders of the module's packages.
func packages(t *testing.T) []string {
	t.Helper()
	var dirs []string
	decoder := json.NewDecoder(strings.NewReader(goList(t, "-e", "-json=ImportPath", "./...")))
	for {
		var p struct{ ImportPath string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, strings.TrimPrefix(p.ImportPath, module+"/"))
	}
	if len(dirs) < 10 {
		t.Fatalf("go list knows only %v", dirs)
	}
	return dirs
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return string(out)
}

func TestRoomsImportOnlyWhatIsBelowThem(t *testing.T) {
	for _, s := range sources(t) {
		for _, fault := range importFaults(s) {
			t.Error(fault)
		}
	}
}

// importFaults lists the imports of a file that break a rule.
func importFaults(s source) []string {
	var faults []string
	i := slices.IndexFunc(rooms, func(r room) bool { return r.name == s.room() })
	if i < 0 {
		return []string{s.path + " is in no room of the architecture"}
	}
	for _, imported := range s.imports() {
		if inside, ours := strings.CutPrefix(imported, module+"/"); ours {
			target, _, _ := strings.Cut(inside, "/")
			if target != s.room() && !slices.Contains(rooms[i].may, target) {
				faults = append(faults, s.path+" must not import "+imported+": "+rooms[i].reason)
			}
		}
		for _, r := range restricted {
			allowed := r.tests && s.test() || slices.ContainsFunc(r.only, func(only string) bool { return within(s.path, only) })
			if (imported == r.path || strings.HasPrefix(imported, r.path+"/")) && !allowed {
				faults = append(faults, s.path+" must not import "+imported+": "+r.reason)
			}
		}
	}
	return faults
}

// within says whether a file is the one named, or below the folder named.
func within(file, named string) bool {
	return file == named || strings.HasSuffix(named, "/") && strings.HasPrefix(file, named)
}

func TestNothingForbiddenIsLinkedIn(t *testing.T) {
	known := packages(t)
	for _, f := range forbidden {
		if !slices.Contains(known, f.from) {
			continue
		}
		deps := strings.Fields(goList(t, "-e", "-deps", "./"+f.from))
		for _, p := range f.paths {
			if slices.Contains(deps, p) {
				t.Errorf("%s is linked with %s: %s", f.from, p, f.reason)
			}
		}
	}
}

func TestPurePackagesArePure(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if !slices.Contains(pure, s.dir()) || s.test() {
			continue
		}
		seen[s.dir()] = true
		for _, fault := range purityFaults(s) {
			t.Error(fault)
		}
	}
	if !seen["supervisor/restart"] {
		t.Errorf("only %v were looked at", seen)
	}
}

// purityFaults lists what makes a file's behaviour depend on more than its inputs.
func purityFaults(s source) []string {
	var faults []string
	fault := func(what string) { faults = append(faults, s.path+" is in a pure package, and "+what) }
	for _, imported := range s.imports() {
		if slices.ContainsFunc(impure, func(p string) bool { return imported == p || strings.HasPrefix(imported, p+"/") }) {
			fault("imports " + imported)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault("starts a goroutine")
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			fault("uses a channel")
		case *ast.SelectorExpr:
			if name, ok := uses(n, "time", clock); ok {
				fault("uses the clock: time." + name)
			}
		}
		return true
	})
	return faults
}

// uses says whether a selector is one of the package's functions.
func uses(n *ast.SelectorExpr, of string, functions []string) (name string, ok bool) {
	ident, isName := n.X.(*ast.Ident)
	return n.Sel.Name, isName && ident.Name == of && slices.Contains(functions, n.Sel.Name)
}

func TestOnlyTheConfigurationReadsTheEnvironment(t *testing.T) {
	for _, s := range sources(t) {
		for _, fault := range environmentFaults(s) {
			t.Error(fault)
		}
	}
}

func environmentFaults(s source) []string {
	var faults []string
	if s.test() {
		return nil
	}
	for _, r := range readers {
		if within(s.path, r.path) {
			return nil
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if name, reads := uses(selector, "os", environment); reads {
				faults = append(faults, s.path+" reads the environment with os."+name+": "+readers[0].path+" does, "+readers[0].reason)
			}
		}
		return true
	})
	return faults
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		documented[s.dir()] = documented[s.dir()] || s.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment", dir)
		}
	}
}

func TestTheTopOfTheRepositoryIsFixed(t *testing.T) {
	for _, name := range topNames(t) {
		if !slices.Contains(names, name) {
			t.Errorf("%s does not belong at the top of the repository", name)
		}
	}
}

// topNames lists what stands at the top: what is under version control, or all there is where there is none.
func topNames(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files")
	list.Dir = ".."
	out, err := list.Output()
	if err == nil && len(out) > 0 {
		var tops []string
		for line := range strings.Lines(string(out)) {
			top, _, _ := strings.Cut(strings.TrimSpace(line), "/")
			tops = append(tops, top)
		}
		slices.Sort(tops)
		return slices.Compact(tops)
	}
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var tops []string
	for _, entry := range entries {
		if entry.Name() != ".git" {
			tops = append(tops, entry.Name())
		}
	}
	return tops
}

// The rules must find what they are there to find.
func TestRulesBite(t *testing.T) {
	for _, tt := range []struct {
		name, path, code string
		faults           func(source) []string
		want             int
	}{
		{"the gateway imports actors", "mcpgate/x.go", `import "` + module + `/actors"`, importFaults, 1},
		{"evidence imports a guest", "evidence/x.go", `import "` + module + `/guest"`, importFaults, 1},
		{"hollywood elsewhere", "actors/x.go", `import "github.com/anthdm/hollywood/actor"`, importFaults, 1},
		{"hollywood in its place", "actors/engine.go", `import "github.com/anthdm/hollywood/actor"`, importFaults, 0},
		{"the SDK below the gateway", "guest/x.go", `import "github.com/modelcontextprotocol/go-sdk/mcp"`, importFaults, 1},
		{"gopter outside tests", "guest/x.go", `import "github.com/leanovate/gopter"`, importFaults, 1},
		{"gopter in a test", "guest/x_test.go", `import "github.com/leanovate/gopter"`, importFaults, 0},
		{"a room of its own", "util/x.go", ``, importFaults, 1},
		{"everything impure", "supervisor/restart/x.go", `import ("context"; "time"; "math/rand/v2"); var c chan int; func f() { go f(); time.Now(); c <- 1 }`, purityFaults, 6},
		{"a duration is pure", "supervisor/restart/x.go", `import "time"; var d = time.Second; var t = time.Unix(0, 0).Add(d)`, purityFaults, 0},
		{"the environment", "guest/x.go", `import "os"; var home = os.Getenv("HOME")`, environmentFaults, 1},
		{"the environment in its place", "cmd/internal/config/x.go", `import "os"; var home = os.Getenv("HOME")`, environmentFaults, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), tt.path, "package x\n"+tt.code, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.faults(source{tt.path, file}); len(got) != tt.want {
				t.Errorf("faults = %q, want %d", got, tt.want)
			}
		})
	}
}
