package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/internal/diff"
	"github.com/rocescope/rocescope/internal/events"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/schema"
	"github.com/rocescope/rocescope/internal/sink"
	"github.com/rocescope/rocescope/internal/sink/text"
	"github.com/rocescope/rocescope/internal/version"
	"github.com/rocescope/rocescope/tui"
)

// schemaRow is one form of JSON that this program prints.
type schemaRow struct {
	name  string // of the file below docs/schema
	id    string // the document's member "schema"; "" = it has none
	print string // the command line that prints it
	lines bool   // a document a line
	value any    // what it is made from: a Go value, or a *schema.Schema
}

// schemaRows is every form of JSON that this program prints. A new one needs a row: the tests look up all that they print.
func schemaRows() []schemaRow {
	rows := []schemaRow{
		{"analysis", report.Schema, "analyze --json", false, report.Document{}},
		{"message", report.MessageSchema, "analyze --messages --json", true, report.Message{}},
		{"shadow", "rocescope.shadow/1", "analyze --shadow-json", false, shadowDocument{}},
		{"diff", diff.Schema, "diff --json", false, diff.Document{}},
		{"events", events.Schema, "analyze --events", true, eventSchema()},
		{"show", "", "show -T json", false, showSchema()},
		{"show-lines", "", "show -T jsonl", true, showLineSchema()},
		{"test", suite.Schema, "test --json", false, suite.Result{}},
		{"inject", "rocescope.inject/1", "inject --json", false, injectDocument{}},
		{"wire", "rocescope.wire/1", "wire --json", false, wireDocument{}},
		{"bench", benchSchema, "bench --json", false, benchDocument{}},
		{"bringup", bringupSchema, "bringup --json", false, bringupDocument{}},
		{"replay", "rocescope.replay/1", "replay --json", false, replayDocument{}},
		{"serve", "", "serve --json", true, serveLine{}},
		{"misbehaviours", "", "serve --misbehave list --json", false, []misbehaviourLine{}},
		{"fields", "", "fields --json", false, []fieldRow{}},
		{"opcodes", "", "opcodes --json", false, []opcodeRow{}},
		{"findings", "", "findings --json", false, []findingRow{}},
		{"finding", "", "findings ID --json", false, findingRow{}},
		{"faults", "", "faults --json", false, []faultRow{}},
		{"fault", "", "faults ID --json", false, faultRow{}},
		{"actions", "", "faults --actions --json", false, []actionRow{}},
		{"tables", "", "export --columns --json", false, []exportTable{}},
		{"config", "", "config show --json", false, []tui.Value{}},
		{"version", "", "version --json", false, version.Info{}},
	}
	for _, t := range sink.Tables() {
		rows = append(rows, schemaRow{"record-" + t.Name, text.Schema, "export --to jsonl --tables " + t.Name, true, recordSchema(t)})
	}
	return rows
}

// of makes a row's schema.
func (r *schemaRow) of() *schema.Schema {
	title, about := "rocescope "+r.print, "What \"rocescope "+r.print+"\" prints."
	if r.lines {
		about = "A line of what \"rocescope " + r.print + "\" prints."
	}
	s, ready := r.value.(*schema.Schema)
	if !ready {
		s = schema.Of(title, about, r.value)
	} else {
		s.Dialect(title, about)
	}
	if r.id != "" && s.AnyOf == nil {
		s.Fix("schema", r.id)
	}
	return s
}

// eventSchema is the schema of a line of an event log: each type has its members, those of packets where there is one.
func eventSchema() *schema.Schema {
	whole := &schema.Schema{Comment: "An event; docs/events.md says what the types mean."}
	for _, t := range events.Types() {
		one := &schema.Schema{Type: schema.Types{"object"}, Description: t.Text, Properties: &schema.Properties{}, Required: []string{"type"}}
		one.Properties.Set("type", &schema.Schema{Type: schema.Types{"string"}, Const: t.Name})
		for _, f := range append([]string{"frame", "time_ns"}, t.Fields...) {
			one.Properties.Set(f, eventMember(f))
		}
		whole.AnyOf = append(whole.AnyOf, one)
	}
	return whole
}

// eventMember is the schema of a member of an event.
func eventMember(name string) *schema.Schema {
	switch name {
	case "files":
		return &schema.Schema{Type: schema.Types{"array"}, Items: &schema.Schema{Type: schema.Types{"string"}}}
	case "presumed":
		return &schema.Schema{Type: schema.Types{"boolean"}}
	case "direction":
		return &schema.Schema{Type: schema.Types{"string"}, Enum: []string{"a_to_b", "b_to_a"}}
	case "severity":
		return &schema.Schema{Type: schema.Types{"string"}, Enum: []string{"note", "warning", "error"}}
	case "qp":
		return &schema.Schema{Type: schema.Types{"string"}, Enum: []string{"a", "b"}}
	case "schema":
		return &schema.Schema{Type: schema.Types{"string"}, Const: events.Schema}
	case "program", "src", "dst", "opcode", "code", "message", "operation", "status", "id", "summary", "transport", "evidence", "a", "b",
		"state", "state_a", "state_b", "why", "way", "peer", "from", "error":
		return &schema.Schema{Type: schema.Types{"string"}}
	}
	return &schema.Schema{Type: schema.Types{"integer"}}
}

// recordSchema is the schema of a row of a table.
func recordSchema(t *sink.Table) *schema.Schema {
	s := &schema.Schema{Type: schema.Types{"object"}, Comment: t.Doc, Properties: &schema.Properties{}}
	add := func(name string, member *schema.Schema) {
		s.Properties.Set(name, member)
		s.Required = append(s.Required, name)
	}
	add("schema", &schema.Schema{Type: schema.Types{"string"}})
	add("record", &schema.Schema{Type: schema.Types{"string"}, Const: t.Name})
	for _, c := range t.Columns {
		kind := "integer"
		switch c.Type {
		case sink.Bool:
			kind = "boolean"
		case sink.Text, sink.Time:
			kind = "string"
		case sink.Float64:
			kind = "number"
		}
		about := c.Doc
		if c.Unit != "" {
			about += " (" + c.Unit + ")"
		}
		types := schema.Types{kind}
		if c.Nullable {
			types = append(types, "null")
		}
		add(c.Name, &schema.Schema{Type: types, Description: about})
	}
	return s
}

func newSchemaCommand(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of what --json prints",
		Long: `Print the JSON Schema (2020-12) of a form of JSON that this program prints, or list them all.
They are also in docs/schema. Within a version (/1) members may be added, and never change or go.`,
		Example: `  rocescope schema
  rocescope schema analysis > analysis.schema.json`,
		Args: arguments(0, 1, "one schema's name"),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, r := range schemaRows() {
				names = append(names, cobra.CompletionWithDesc(r.name, r.print))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			rows := schemaRows()
			switch {
			case dir != "":
				return writeSchemas(dir, rows)
			case len(args) == 0:
				for _, r := range rows {
					fmt.Fprintf(a.stdout, "%-20s rocescope %s\n", r.name, r.print)
				}
				return nil
			}
			var names []string
			for i := range rows {
				if rows[i].name == args[0] {
					return a.printJSON(rows[i].of())
				}
				names = append(names, rows[i].name)
			}
			return errUsage("there is no schema %q: there are %s", args[0], strings.Join(names, ", "))
		},
	}
	cmd.Flags().StringVar(&dir, "write", "", "write all of them into this `folder`")
	return cmd
}

// writeSchemas writes a file for each schema.
func writeSchemas(dir string, rows []schemaRow) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	for i := range rows {
		text, err := rows[i].of().Text()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, rows[i].name+".json"), text, 0o644); err != nil {
			return fmt.Errorf("write a schema: %w", err)
		}
	}
	return nil
}
