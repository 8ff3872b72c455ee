package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/rocescope/rocescope"

// directions says which packages of ours a package may import, by the path below the module; tests are free. A pattern's
// star stands for one path element, and "all" for everything but the test kit. Data flows captures → dissect → flows → what
// people look at; imports run the other way and never in a circle. A new package needs a row here: think about where it
// belongs before you add one.
var directions = []struct {
	pkg string
	may []string
}{
	{"dissect", nil}, // and nothing but the standard library: TestDissectStandsAlone
	{"dissect/gopacketlayer", []string{"dissect"}},
	{"flows", []string{"dissect", "flows/iwarp"}},
	{"flows/iwarp", []string{"dissect"}},
	{"internal/filter", []string{"dissect", "flows"}},
	{"internal/xsk", nil},
	{"internal/crash", nil}, // for whoever starts goroutines
	{"captures", []string{"dissect", "internal/xsk", "internal/crash"}},
	{"captures/samples", nil},
	{"internal/privacy", []string{"dissect", "flows"}},
	{"internal/engine", []string{"captures", "dissect", "flows", "internal/filter", "internal/privacy"}},
	{"inject/*", []string{"inject/*", "dissect", "flows", "captures", "internal/xsk", "internal/filter", "internal/config", "internal/crash"}},
	{"internal/sink", []string{"flows", "flows/iwarp", "dissect"}},
	{"internal/sink/*", []string{"internal/sink", "flows", "dissect"}},
	{"internal/report", []string{"flows", "flows/*", "dissect"}},
	{"internal/report/*", []string{"internal/report", "flows", "dissect"}},
	{"internal/schema", nil},
	{"internal/diff", []string{"captures", "dissect", "flows", "internal/engine", "internal/events", "internal/privacy", "internal/report", "internal/report/html"}},
	{"internal/events", []string{"dissect", "flows", "internal/engine"}},
	{"internal/annotate", []string{"captures", "dissect", "flows", "internal/engine"}},
	{"internal/index", []string{"captures", "dissect", "flows", "internal/filter", "internal/engine", "internal/crash"}},
	{"internal/convert", []string{"captures", "dissect"}},
	{"internal/packetline", []string{"flows", "dissect"}},
	{"tui", []string{"tui/*", "flows", "dissect", "captures", "internal/filter", "internal/engine", "internal/index", "internal/config", "internal/packetline", "internal/report", "internal/crash", "internal/privacy"}},
	{"tui/*", []string{"tui/cells", "flows", "dissect"}},
	{"internal/config", nil},
	{"internal/exchange", []string{"flows", "internal/config"}},
	{"internal/version", nil},
	{"cmd/rocescope", []string{"all"}},

	{"lab", []string{"lab/control"}},
	{"lab/control", nil},
	{"lab/agent", []string{"lab/control"}},
	{"lab/play", []string{"inject/*", "dissect"}},
	{"lab/interop", []string{"lab", "lab/play", "inject/*", "dissect"}},
	{"lab/conformance", []string{"lab", "inject/*", "dissect", "captures/samples"}},
	{"lab/inline", []string{"lab", "flows", "dissect", "captures", "internal/diff"}},
	{"lab/cmd/lab", []string{"lab", "lab/interop", "lab/conformance", "lab/inline", "lab/upper", "inject/suite"}},
	{"lab/upper", []string{"lab"}},

	{"internal/testkit", []string{"dissect"}}, // imported by tests only
	{"internal/testkit/cmd/*", nil},
	{"internal/docgen", nil},
	{"internal/dist", nil},
	{"internal/bench", []string{"internal/bench/page", "internal/bench/measure", "internal/bench/traffic", "dissect", "captures", "flows"}},
	{"internal/bench/traffic", []string{"dissect"}},
	{"internal/bench/page", nil},
	{"internal/bench/measure", nil},
	{"internal/bench/scale", []string{"internal/bench/page", "internal/bench/measure", "internal/bench/traffic", "dissect", "flows"}},
	{"internal/bench/screen", []string{"internal/bench/page", "internal/bench/measure", "internal/bench/traffic", "captures", "internal/engine", "internal/filter", "internal/index"}},
	{"internal/bench/rnic", []string{"internal/bench/page", "internal/bench/measure", "dissect", "inject/connect", "inject/load", "inject/peer", "inject/port", "inject/rnic"}},
	{"internal/bench/wire", []string{"internal/bench/page", "internal/bench/measure", "dissect", "captures", "flows", "internal/engine", "internal/xsk", "inject/fault", "inject/port", "inject/stream", "inject/wire"}},
}

// listed is what `go list -json` says about a package.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	Imports    []string
}

func goList(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,Standard,GoFiles,Imports"}, args...)...)
	cmd.Dir = ModuleRoot(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestDependencyDirections(t *testing.T) {
	for _, p := range goList(t, "./...") {
		if p.ImportPath == module || len(p.GoFiles) == 0 { // a folder with tests only
			continue
		}
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		row := slices.IndexFunc(directions, func(d struct {
			pkg string
			may []string
		},
		) bool {
			return matches(d.pkg, name)
		})
		if row < 0 {
			t.Errorf("%s is a new package: give it a row in directions, in depcheck_test.go", name)
			continue
		}
		for _, imported := range p.Imports {
			target, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			if strings.HasPrefix(target, "internal/testkit") {
				t.Errorf("%s imports %s, which is for tests only", name, target)
				continue
			}
			if !slices.ContainsFunc(directions[row].may, func(may string) bool { return may == "all" || matches(may, target) }) {
				t.Errorf("%s imports %s; it may import %v", name, target, directions[row].may)
			}
		}
	}
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// TestDissectStandsAlone keeps the decoder free of everything but the standard library, gopacket included.
func TestDissectStandsAlone(t *testing.T) {
	for _, p := range goList(t, "-deps", "./dissect") {
		if !p.Standard && p.ImportPath != module+"/dissect" {
			t.Errorf("dissect depends on %s", p.ImportPath)
		}
	}
}

// TestPublicSignatures keeps internal types out of what other people's programs can call: they could not name them. The screen is
// the program's own, and lies beside the others for its name's sake.
func TestPublicSignatures(t *testing.T) {
	for _, p := range goList(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/") || name == "tui" {
			continue
		}
		for _, file := range p.GoFiles {
			for _, where := range internalInSignatures(t, filepath.Join(p.Dir, file)) {
				t.Errorf("%s: %s mentions an internal type", name, where)
			}
		}
	}
}

func internalInSignatures(t *testing.T, file string) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Log(err) // the build says it better
		return nil
	}
	internal := map[string]bool{}
	for _, spec := range tree.Imports {
		if at, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(at, module+"/internal/") {
			local := path.Base(at)
			if spec.Name != nil {
				local = spec.Name.Name
			}
			internal[local] = true
		}
	}
	if len(internal) == 0 {
		return nil
	}
	look := func(name string, node ast.Node) {
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				// Private fields of exported structs are nobody's business.
				if len(n.Names) > 0 && !slices.ContainsFunc(n.Names, func(i *ast.Ident) bool { return i.IsExported() }) {
					_, inFunc := node.(*ast.FuncType)
					return inFunc
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] {
					found = append(found, set.Position(n.Pos()).String()+": "+name)
				}
			}
			return true
		})
	}
	for _, decl := range tree.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				look(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						look(s.Name.Name, s.Type)
					}
				case *ast.ValueSpec:
					if s.Type != nil && slices.ContainsFunc(s.Names, func(i *ast.Ident) bool { return i.IsExported() }) {
						look(s.Names[0].Name, s.Type)
					}
				}
			}
		}
	}
	return found
}
