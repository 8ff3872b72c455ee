package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ourPackages are loaded once: go list takes a moment.
var ourPackages = sync.OnceValues(func() (map[string]*gopkg, error) { return loadPackages("../..") })

// TestArchitectureIsTheCodes: the page and its picture say of packages and imports what the code says.
func TestArchitectureIsTheCodes(t *testing.T) {
	all, err := ourPackages()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	page, err := os.ReadFile(architecturePage)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fillPackages(page, all)
	if err != nil || !bytes.Equal(filled, page) {
		t.Errorf("%s is behind the code (make docs brings it up to date): %v", architecturePage, err)
	}
	for name := range all {
		if !bytes.Contains(filled, []byte("| ["+name+"](")) {
			t.Errorf("%s has no row in %s", name, architecturePage)
		}
	}
	drawn, err := drawArchitecture(all)
	if err != nil {
		t.Fatal(err)
	}
	if before, err := os.ReadFile(architecturePicture); err != nil || !bytes.Equal(before, drawn) {
		t.Errorf("%s is behind the code (make docs draws it anew): %v", architecturePicture, err)
	}
	checkDrawing(t, drawn)
	checkNames(t, string(page))
}

// TestPackagesSayWhatIsNotTheirs: a package of the program says in its comment what it leaves to others, in words that the page finds.
func TestPackagesSayWhatIsNotTheirs(t *testing.T) {
	all, err := ourPackages()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range all {
		if p.shipped && name != program && p.leaves() == "" {
			t.Errorf("the comment of %s does not say, in front of its first heading, what it leaves to others "+
				"(“What frames mean belongs to dissect”, “It does not know who asks”, “… is flows' affair”)", name)
		}
	}
}

// checkDrawing: it is whole, and each box and each line has its place within the picture.
func checkDrawing(t *testing.T, drawn []byte) {
	t.Helper()
	for in := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		if _, err := in.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range boxes {
		if !bytes.Contains(drawn, []byte("<title>"+b.pkg+"</title>")) {
			t.Errorf("%s is not in the picture", b.pkg)
		}
		if b.at < 0 || b.at+b.wide > columns {
			t.Errorf("%s stands outside of the picture", b.pkg)
		}
	}
	if bytes.Contains(drawn, []byte("NaN")) {
		t.Error("a line goes nowhere")
	}
}

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	goName = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)$`)
	aTest  = regexp.MustCompile(`^(\S+)/(Test\w+)$`)
	aPath  = regexp.MustCompile(`^[a-z]\w*(/[\w.]+)+$`)
)

// checkNames: files, tests and names of Go that the page mentions are there.
func checkNames(t *testing.T, page string) {
	t.Helper()
	var folders []string
	if err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	declared := map[string][]string{}
	names := func(folder string) []string {
		if _, ok := declared[folder]; !ok {
			declared[folder] = exported(t, folder)
		}
		return declared[folder]
	}
	seen := 0
	for _, m := range quoted.FindAllStringSubmatch(page, -1) {
		switch text := m[1]; {
		case aTest.MatchString(text):
			seen++
			part := aTest.FindStringSubmatch(text)
			if _, err := fileOf(part[1], part[2]); err != nil {
				t.Error(err)
			}
		case goName.MatchString(text):
			seen++
			part := goName.FindStringSubmatch(text)
			if !slices.ContainsFunc(folders, func(f string) bool { return path.Base(f) == part[1] && slices.Contains(names(f), part[2]) }) {
				t.Errorf("%s: no package %s exports %s", architecturePage, part[1], part[2])
			}
		case aPath.MatchString(text):
			seen++
			if _, err := os.Stat(text); err != nil {
				t.Errorf("%s: %v", architecturePage, err)
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d names found in the page", seen)
	}
}

// exported are the names that a folder's package shows.
func exported(t *testing.T, folder string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					all = append(all, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						all = append(all, s.Name.Name)
					}
				}
			}
		}
	}
	return all
}

// TestBuildingRefuses: what the picture would tell wrongly is an error.
func TestBuildingRefuses(t *testing.T) {
	real, err := ourPackages()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(all map[string]*gopkg)
		want   string
	}{
		{func(all map[string]*gopkg) { all["newcomer"] = &gopkg{path: "newcomer", shipped: true} }, "newcomer has no place"},
		{func(all map[string]*gopkg) { delete(all, "internal/annotate") }, "internal/annotate is in the picture, and not in the program"},
		{func(all map[string]*gopkg) { all["internal/version"].imports = []string{"flows"} }, "internal/version imports flows"},
		{func(all map[string]*gopkg) { all["flows"].imports = []string{"internal/engine"} }, "imports go in a circle"},
		{func(all map[string]*gopkg) { all["dissect"].imports = []string{"flows"} }, "dissect imports others"},
		{func(all map[string]*gopkg) { all["internal/index"].imports = []string{"flows"} }, "packets cannot go from internal/engine to internal/index"},
	} {
		all := map[string]*gopkg{}
		for _, name := range slices.Sorted(maps.Keys(real)) {
			p := *real[name]
			all[name] = &p
		}
		c.change(all)
		if _, err := drawArchitecture(all); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want … %s …", err, c.want)
		}
	}
}

// TestWhatAPackageLeaves reads package comments.
func TestWhatAPackageLeaves(t *testing.T) {
	p := gopkg{comment: "Package x does a | b: well. And more.\n\nIt owns c; d belongs to y. It shows e.\nIt does not know\nz.\n\n# Heading\n\nThis belongs to nobody.\n"}
	if got, want := p.is(), `does a \| b: well.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := p.leaves(), "d belongs to y. It does not know z."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := fillPackages([]byte("<!-- packages: gone -->\n<!-- /packages -->"), nil); err == nil {
		t.Error("a chapter that is not there was not noticed")
	}
}
