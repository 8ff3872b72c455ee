package suite

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/rocescope/rocescope/inject/fault"
)

//go:embed conformance/*.yaml
var conformanceFiles embed.FS

// Conformance is the built-in suite: the cases of all files, as one.
var Conformance = sync.OnceValues(func() (*Scenario, error) {
	list, err := conformanceFiles.ReadDir("conformance")
	if err != nil {
		return nil, err
	}
	all := &Scenario{Name: "conformance", Title: "RoCE v2 conformance, by the fault catalogue"}
	seen := map[string]string{}
	for _, e := range list {
		data, err := conformanceFiles.ReadFile("conformance/" + e.Name())
		if err != nil {
			return nil, err
		}
		s, err := Parse(e.Name(), data)
		if err != nil {
			return nil, err
		}
		for i := range s.Cases {
			c := &s.Cases[i]
			if other := seen[c.ID]; other != "" {
				return nil, fmt.Errorf("%s and %s have both a case %s", other, e.Name(), c.ID)
			}
			seen[c.ID] = e.Name()
			all.Cases = append(all.Cases, *c)
		}
	}
	return all, nil
})

// Row is a row of the fault catalogue, or a reported device failure, and the cases that cover it.
type Row struct {
	ID, What string
	Cases    []string
	Why      string // there is none
}

// Coverage says of every row which cases cover it, or why none does.
func Coverage() ([]Row, error) {
	s, err := Conformance()
	if err != nil {
		return nil, err
	}
	by := map[string][]string{}
	for i := range s.Cases {
		for _, row := range s.Cases[i].Rows {
			by[strings.ToUpper(row)] = append(by[strings.ToUpper(row)], s.Cases[i].ID)
		}
	}
	var all []Row
	for _, f := range fault.Catalogue() {
		all = append(all, Row{f.ID, f.What, by[strings.ToUpper(f.ID)], uncovered[f.ID]})
	}
	for _, d := range failures {
		all = append(all, Row{d.id, d.what, by[strings.ToUpper(d.id)], uncovered[d.id]})
	}
	return all, nil
}

// failure finds a reported device failure.
func failure(id string) *reported {
	for i := range failures {
		if failures[i].id == id {
			return &failures[i]
		}
	}
	return nil
}

// reported is a failure that devices were seen to have.
type reported struct{ id, what string }
