package schema

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// Schema is a schema, or a part of one.
type Schema struct {
	Schema      string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Comment     string             `json:"$comment,omitempty"` // the Go type
	Ref         string             `json:"$ref,omitempty"`
	Type        Types              `json:"type,omitempty"`
	Const       any                `json:"const,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Properties  *Properties        `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  *Schema            `json:"additionalProperties,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	AnyOf       []*Schema          `json:"anyOf,omitempty"`
	Defs        map[string]*Schema `json:"$defs,omitempty"`
}

// dialect is the version of the language.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// Types are the types that a value may have: one is written as a word, several as a list.
type Types []string

// MarshalJSON writes them.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Properties are the members of an object, in the order of the Go type.
type Properties struct {
	names []string
	of    map[string]*Schema
}

// Set adds a member.
func (p *Properties) Set(name string, s *Schema) {
	if p.of == nil {
		p.of = map[string]*Schema{}
	}
	if p.of[name] == nil {
		p.names = append(p.names, name)
	}
	p.of[name] = s
}

// Get returns a member, nil if there is none.
func (p *Properties) Get(name string) *Schema {
	if p == nil {
		return nil
	}
	return p.of[name]
}

// MarshalJSON writes them in order.
func (p *Properties) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, n := range p.names {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(n)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(p.of[n])
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// Of makes the schema of a Go value's type.
func Of(title, description string, v any) *Schema {
	m := &maker{defs: map[string]*Schema{}, names: map[reflect.Type]string{}}
	s := m.of(reflect.TypeOf(v))
	root := *s
	root.Schema, root.Title, root.Description = dialect, title, description
	if len(m.defs) > 0 {
		root.Defs = m.defs
	}
	return &root
}

// maker makes one schema.
type maker struct {
	defs  map[string]*Schema
	names map[reflect.Type]string
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

func (m *maker) of(t reflect.Type) *Schema {
	if t.Kind() == reflect.Pointer {
		return nullable(m.of(t.Elem()))
	}
	switch {
	case t.Implements(jsonMarshaler):
		return &Schema{}
	case t.Implements(textMarshaler):
		return &Schema{Type: Types{"string"}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: Types{"boolean"}}
	case reflect.String:
		return &Schema{Type: Types{"string"}}
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: Types{"number"}}
	case reflect.Slice:
		return &Schema{Type: Types{"array", "null"}, Items: m.of(t.Elem())}
	case reflect.Array:
		return &Schema{Type: Types{"array"}, Items: m.of(t.Elem())}
	case reflect.Map:
		return &Schema{Type: Types{"object", "null"}, Additional: m.of(t.Elem())}
	case reflect.Struct:
		return m.object(t)
	case reflect.Interface:
		return &Schema{}
	}
	return &Schema{Type: Types{"integer"}}
}

// object refers to a struct's definition, and makes it at first sight.
func (m *maker) object(t reflect.Type) *Schema {
	if t.Name() == "" {
		return m.members(t)
	}
	name, known := m.names[t]
	if !known {
		for name = t.Name(); m.defs[name] != nil; name += "_" {
		}
		m.names[t] = name
		m.defs[name] = &Schema{}
		*m.defs[name] = *m.members(t)
		m.defs[name].Comment = t.PkgPath() + "." + t.Name()
	}
	return &Schema{Ref: "#/$defs/" + name}
}

func (m *maker) members(t reflect.Type) *Schema {
	s := &Schema{Type: Types{"object"}, Properties: &Properties{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				part := m.members(inner)
				for _, n := range part.Properties.names {
					s.Properties.Set(n, part.Properties.of[n])
				}
				s.Required = append(s.Required, part.Required...)
				continue
			}
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		s.Properties.Set(name, m.of(f.Type))
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

func nullable(s *Schema) *Schema {
	if s.Ref != "" {
		return &Schema{AnyOf: []*Schema{s, {Type: Types{"null"}}}}
	}
	if len(s.Type) == 0 {
		return s
	}
	for _, t := range s.Type {
		if t == "null" {
			return s
		}
	}
	out := *s
	out.Type = append(append(Types{}, s.Type...), "null")
	return &out
}

// Dialect makes a part of a schema a whole one.
func (s *Schema) Dialect(title, description string) {
	s.Schema, s.Title, s.Description = dialect, title, description
}

// Fix gives a member of the document a value that it must have.
func (s *Schema) Fix(member, value string) {
	of := s
	if s.Ref != "" {
		of = s.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	if p := of.Properties.Get(member); p != nil {
		p.Const = value
	}
}

// Text is the schema as a file.
func (s *Schema) Text() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}
