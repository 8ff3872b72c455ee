package main

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/schema"
)

var (
	aString  = &schema.Schema{Type: schema.Types{"string"}}
	aNumber  = &schema.Schema{Type: schema.Types{"number"}}
	aInteger = &schema.Schema{Type: schema.Types{"integer"}}
)

// showLineSchema is a line of -T jsonl: each field that `fields` lists, and those of the headers around a tunnel. With -e a
// column may have another of its field's names.
func showLineSchema() *schema.Schema {
	s := &schema.Schema{Type: schema.Types{"object"}, Comment: "A packet: its fields by their full names; docs/fields.md says what they are.", Properties: &schema.Properties{}, Additional: &schema.Schema{Type: schema.Types{"string", "number"}}}
	for l := range dissect.NumLayers {
		for _, f := range dissect.LayerFields(l) {
			s.Properties.Set(outerPrefix(l)+f.Name, fieldSchema(f.Kind, f.Width))
		}
	}
	for k := range flows.Fields() {
		f := &flows.Fields()[k]
		s.Properties.Set(f.Name, fieldSchema(f.Kind, 0))
	}
	s.Properties.Set("problems", problemsSchema())
	return s
}

func fieldSchema(k dissect.Kind, width uint16) *schema.Schema {
	if isNumber(k, width) {
		return aNumber
	}
	return aString
}

// problemsSchema is how a packet contradicts itself.
func problemsSchema() *schema.Schema {
	one := &schema.Schema{Type: schema.Types{"object"}, Properties: &schema.Properties{}, Required: []string{"text", "offset"}}
	one.Properties.Set("text", aString)
	one.Properties.Set("offset", aInteger)
	return &schema.Schema{Type: schema.Types{"array"}, Items: one}
}

// showSchema is what -T json prints, laid out as tshark does: strings in layers, those of InfiniBand once more within; with
// -e the columns as lists.
func showSchema() *schema.Schema {
	object := func(members *schema.Schema) *schema.Schema {
		return &schema.Schema{Type: schema.Types{"object"}, Additional: members}
	}
	either := func(of ...*schema.Schema) *schema.Schema { return &schema.Schema{AnyOf: of} }
	source := &schema.Schema{Type: schema.Types{"object"}, Properties: &schema.Properties{}, Required: []string{"layers"}}
	source.Properties.Set("layers", object(either(
		object(either(aString, object(aString))),
		&schema.Schema{Type: schema.Types{"array"}, Items: aString},
	)))
	packet := &schema.Schema{Type: schema.Types{"object"}, Properties: &schema.Properties{}, Required: []string{"_source"}}
	packet.Properties.Set("_source", source)
	packet.Properties.Set("flow", object(aString))
	packet.Properties.Set("problems", problemsSchema())
	return &schema.Schema{Type: schema.Types{"array"}, Items: packet}
}
