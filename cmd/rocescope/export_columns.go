package main

import (
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/internal/sink"
)

// exportTable is a table as `export --columns --json` lists it.
type exportTable struct {
	Name    string         `json:"name"`
	Doc     string         `json:"doc"`
	Key     []string       `json:"key"`  // columns that name a row
	Time    string         `json:"time"` // the column by whose hour Parquet files are parted
	QPN     string         `json:"qpn"`  // the column by whose hash they are
	Columns []exportColumn `json:"columns"`
}

type exportColumn struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
	Unit     string `json:"unit"`
	Doc      string `json:"doc"`
}

func exportTables() []exportTable {
	var all []exportTable
	for _, t := range sink.Tables() {
		one := exportTable{Name: t.Name, Doc: t.Doc, Key: t.Key, Time: t.Time, QPN: t.QPN}
		for _, c := range t.Columns {
			one.Columns = append(one.Columns, exportColumn{c.Name, c.Type.String(), c.Nullable, c.Unit, c.Doc})
		}
		all = append(all, one)
	}
	return all
}

// printColumns lists the tables that export writes.
func (a *app) printColumns(form tableForm) error {
	all := exportTables()
	if form.json {
		return a.printJSON(all)
	}
	if form.markdown {
		var b strings.Builder
		b.WriteString("# Tables\n\nWhat `rocescope export` and `rocescope capture --sink` write, as `rocescope export --columns` lists it; docs/export.md says how.\n")
		for _, one := range all {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\nA row is named by %s; Parquet files are parted by the hour of `%s` and a hash of `%s`.\n\n| Column | Type | Unit | Meaning |\n|---|---|---|---|\n",
				one.Name, one.Doc, "`"+strings.Join(one.Key, "`, `")+"`", one.Time, one.QPN)
			for _, c := range one.Columns {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, typeText(c), c.Unit, c.Doc)
			}
		}
		_, err := a.stdout.Write([]byte(b.String()))
		return err
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", one.Name, one.Doc)
		for _, c := range one.Columns {
			fmt.Fprintf(a.stdout, "  %-28s %-9s %-9s %s\n", c.Name, typeText(c), c.Unit, c.Doc)
		}
	}
	return nil
}

// typeText is a column's type; a question mark says that it may be missing.
func typeText(c exportColumn) string {
	if c.Nullable {
		return c.Type + "?"
	}
	return c.Type
}
