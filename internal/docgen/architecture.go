package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	architecturePage    = "docs/architecture.md"
	architecturePicture = "docs/img/architecture.svg"

	ourModule = "github.com/rocescope/rocescope/"
	program   = "cmd/rocescope"
)

// gopkg is a package of ours, by its path below the module.
type gopkg struct {
	path    string
	comment string   // the package comment
	imports []string // of ours, sorted
	shipped bool     // part of the program
}

// loadPackages are all packages below dir, as they are for Linux.
func loadPackages(dir string) (map[string]*gopkg, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]*gopkg{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var l struct {
			ImportPath, Dir  string
			GoFiles, Imports []string
		}
		if err := in.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		p := &gopkg{path: strings.TrimPrefix(l.ImportPath, ourModule)}
		for _, i := range l.Imports {
			if ours, ok := strings.CutPrefix(i, ourModule); ok {
				p.imports = append(p.imports, ours)
			}
		}
		for _, file := range l.GoFiles {
			tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(l.Dir, file), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				return nil, err
			}
			p.comment += tree.Doc.Text()
		}
		all[p.path] = p
	}
	if all[program] == nil {
		return nil, fmt.Errorf("there is no %s below %s", program, dir)
	}
	ship(all, program)
	return all, nil
}

// ship marks a package and what it needs.
func ship(all map[string]*gopkg, path string) {
	if p := all[path]; !p.shipped {
		p.shipped = true
		for _, i := range p.imports {
			ship(all, i)
		}
	}
}

// chapters are the packages' tables, by the name in the page's mark; the first pattern that fits a path decides.
var chapters = []struct {
	name, paths string
}{
	{"outside", `^(dissect/gopacketlayer|internal/(bench|dist|docgen|testkit)(/.*)?|lab(/.*)?)$`},
	{"otherend", `^inject/`},
	{"shared", `^internal/(config|crash|version|xsk|privacy|schema)$`},
	{"program", `^(cmd/rocescope|tui(/.*)?|internal/(annotate|convert|diff|events|exchange|index|packetline|report|sink)(/.*)?)$`},
	{"packets", `.`},
}

// packageTable has a row for each package of a chapter.
func packageTable(all map[string]*gopkg, chapter string) ([]byte, error) {
	known := slices.ContainsFunc(chapters, func(c struct{ name, paths string }) bool { return c.name == chapter })
	if !known {
		return nil, fmt.Errorf("no chapter of packages is called %q", chapter)
	}
	var b bytes.Buffer
	b.WriteString("| package | is | leaves to others | imports |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, c := range chapters {
			if !regexp.MustCompile(c.paths).MatchString(name) {
				continue
			}
			if c.name == chapter {
				p := all[name]
				imports := strings.Join(p.imports, ", ")
				if name == program {
					imports = "whatever a command needs"
				}
				fmt.Fprintf(&b, "| [%s](../%[1]s) | %s | %s | %s |\n", name, p.is(), p.leaves(), imports)
			}
			break
		}
	}
	return b.Bytes(), nil
}

var beginsWith = regexp.MustCompile(`^(Package|Command) \S+ `)

// is is the first sentence of the package comment, without its beginning.
func (p *gopkg) is() string {
	return beginsWith.ReplaceAllString(cell(new(doc.Package).Synopsis(p.comment)), "")
}

// leaving is how a package comment says what is not the package's affair.
var leaving = regexp.MustCompile(`\bbelongs? to |\bdo(es)? not know |\bknows? (no|nothing)\b|'s? affair\b|\b(tracks|judges|prints) nothing\b`)

// leaves is what a package does not own: the sentences that say so, in front of the first heading of its comment.
func (p *gopkg) leaves() string {
	text, _, _ := strings.Cut(p.comment, "\n# ")
	var found []string
	for _, paragraph := range strings.Split(text, "\n\n") {
		for _, sentence := range strings.SplitAfter(cell(paragraph), ". ") {
			parts := strings.Split(strings.TrimRight(sentence, " ."), "; ")
			parts = slices.DeleteFunc(parts, func(part string) bool { return !leaving.MatchString(part) })
			if len(parts) > 0 {
				found = append(found, strings.Join(parts, "; ")+".")
			}
		}
	}
	return strings.Join(found, " ")
}

// cell is text in a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

var packageBlock = regexp.MustCompile(`(?s)(<!-- packages: (\w+) -->\n).*?(<!-- /packages -->)`)

// fillPackages replaces the tables of packages in a page.
func fillPackages(page []byte, all map[string]*gopkg) ([]byte, error) {
	var failed error
	filled := packageBlock.ReplaceAllFunc(page, func(old []byte) []byte {
		part := packageBlock.FindSubmatch(old)
		table, err := packageTable(all, string(part[2]))
		if err != nil {
			failed = errors.Join(failed, err)
			return old
		}
		return slices.Concat(part[1], table, part[3])
	})
	return filled, failed
}

// writeArchitecture brings the page of the architecture and its picture up to date with the code.
func writeArchitecture() error {
	all, err := loadPackages(".")
	if err != nil {
		return err
	}
	page, err := os.ReadFile(architecturePage)
	if err != nil {
		return err
	}
	if page, err = fillPackages(page, all); err != nil {
		return fmt.Errorf("%s: %w", architecturePage, err)
	}
	if err := write(architecturePage, page); err != nil {
		return err
	}
	drawn, err := drawArchitecture(all)
	if err != nil {
		return fmt.Errorf("%s: %w", architecturePicture, err)
	}
	return write(architecturePicture, drawn)
}

// within says whether a package lies in the folder of another.
func within(name, folder string) bool { return name == folder || path.Dir(name) == folder }
