package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

func newFieldsCommand(a *app) *cobra.Command {
	var form tableForm
	cmd := &cobra.Command{
		Use:   "fields [TEXT]",
		Short: "List the fields: names for -e, -Y and JSON",
		Long: `List the fields: their names for -e, -Y and JSON. They are Wireshark's; what
Wireshark has no name for is below flow., msg. and finding. In front of all
others, "infiniband." may be left out. With TEXT, only what has it in its name or
description.`,
		Example: `  rocescope fields
  rocescope fields psn
  rocescope fields --json | jq -r '.[].name'`,
		Args: arguments(0, 1, "one text to look for"),
		RunE: func(_ *cobra.Command, args []string) error {
			list := fieldRows()
			if len(args) == 1 {
				text := strings.ToLower(args[0])
				list = slices.DeleteFunc(list, func(r fieldRow) bool {
					return !strings.Contains(strings.ToLower(r.Name), text) && !strings.Contains(strings.ToLower(r.Text), text)
				})
				if len(list) == 0 {
					return fmt.Errorf("no field has %q in its name or description", args[0])
				}
			}
			return a.printFields(list, form)
		},
	}
	form.flags(cmd)
	return cmd
}

// fieldRow is a field as `fields` lists it. A name that several layers have is there once for each.
type fieldRow struct {
	Name  string   `json:"name"`
	Text  string   `json:"text"`
	Type  string   `json:"type"`
	Layer string   `json:"layer"`
	Bit   *uint16  `json:"bit,omitempty"`   // from the layer's first, the most significant being 0
	Width *uint16  `json:"width,omitempty"` // in bits
	Known string   `json:"known"`           // "in the packet", "at the packet" (by the packets before it), "at the end"
	Any   []string `json:"any_of,omitempty"`
}

// kindNames are the types of values, as a reader of the list wants to know them.
var kindNames = map[dissect.Kind]string{
	dissect.Dec: "number", dissect.Hex: "number, shown in hexadecimal", dissect.Bool: "bit", dissect.MAC: "hardware address",
	dissect.IPv4Addr: "IPv4 address", dissect.IPv6Addr: "IPv6 address", dissect.Bytes: "bytes", dissect.String: "text", dissect.Epoch: "moment",
	dissect.Interval: "time in seconds", dissect.Text: "word",
}

func fieldRows() []fieldRow {
	type fieldKey struct {
		name  string
		layer dissect.Layer
	}
	var rows []fieldRow
	seen := map[fieldKey]bool{}
	all := dissect.Fields()
	for i := range all {
		f := &all[i]
		if outerPrefix(f.Layer) != "" { // the same fields again, of the headers around a tunnel
			continue
		}
		if seen[fieldKey{f.Name, f.Layer}] { // an element that stands there several times
			continue
		}
		seen[fieldKey{f.Name, f.Layer}] = true
		r := fieldRow{Name: f.Name, Text: f.Text, Type: kindNames[f.Kind], Layer: f.Layer.String(), Known: "in the packet"}
		if f.Layer.Upper() {
			r.Known = "at the packet"
		}
		if f.Get == nil && f.Part == nil {
			r.Bit = &f.Bit
			if f.Width > 0 {
				r.Width = &f.Width
			}
		}
		rows = append(rows, r)
	}
	unions := dissect.FieldUnions()
	var names []string
	for name := range unions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := dissect.LookupField(name)[0]
		rows = append(rows, fieldRow{
			Name: name, Text: "Any of " + strings.Join(unions[name], ", "), Type: kindNames[f.Kind], Layer: f.Layer.String(),
			Known: "in the packet", Any: unions[name],
		})
	}
	tracked := flows.Fields()
	for i := range tracked {
		f := &tracked[i]
		r := fieldRow{Name: f.Name, Text: f.Text, Type: kindNames[f.Kind], Layer: "Tracking", Known: "at the packet"}
		if f.AtEnd {
			r.Known = "at the end"
		}
		rows = append(rows, r)
	}
	return rows
}

func (a *app) printFields(rows []fieldRow, form tableForm) error {
	if form.json {
		return a.printJSON(rows)
	}
	t := table{columns: []string{"field", "what it is", "type"}, groups: "layer"}
	for _, r := range rows {
		text := r.Text
		if r.Known == "at the end" {
			text += " (known at the end of a capture)"
		}
		name := r.Name
		if form.markdown {
			name = "`" + name + "`"
		}
		t.add(r.Layer, name, text, r.Type)
	}
	if form.markdown {
		return a.printMarkdown("Fields", `Names for `+"`-e`, `-Y`"+` and JSON, as `+"`rocescope fields`"+` lists them. They are Wireshark's; what Wireshark has no name for is
at the end, under "Tracking". "infiniband." may be left out in front. A name may stand in several layers: the first that a
packet has gives the value, a filter looks at all.`, &t)
	}
	return a.printTable(&t)
}
