package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Validate checks a document: it must be what the schema says, and nothing more.
func (s *Schema) Validate(document []byte) error {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	if d.More() {
		return fmt.Errorf("there is more behind the document")
	}
	c := checker{root: s}
	return c.check(s, v, "")
}

type checker struct{ root *Schema }

func (c *checker) check(s *Schema, v any, at string) error {
	if s.Ref != "" {
		def := c.root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
		if def == nil {
			return fmt.Errorf("%s: the schema refers to %s, which is not there", at, s.Ref)
		}
		return c.check(def, v, at)
	}
	if len(s.AnyOf) > 0 {
		return c.any(s.AnyOf, v, at)
	}
	if len(s.Type) > 0 && !slices.Contains(s.Type, typeOf(v)) && !(typeOf(v) == "integer" && slices.Contains(s.Type, "number")) {
		return fmt.Errorf("%s is %s, and should be %s", place(at), typeOf(v), strings.Join(s.Type, " or "))
	}
	if s.Const != nil && s.Const != v {
		return fmt.Errorf("%s is %v, and should be %v", place(at), v, s.Const)
	}
	if text, ok := v.(string); ok && len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		return fmt.Errorf("%s is %q, and should be one of %s", place(at), text, strings.Join(s.Enum, ", "))
	}
	switch v := v.(type) {
	case []any:
		if s.Items != nil {
			for i, one := range v {
				if err := c.check(s.Items, one, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		return c.members(s, v, at)
	}
	return nil
}

// any says what is wrong by the alternative that is meant: the one whose "type" is the document's, or that null is not.
func (c *checker) any(of []*Schema, v any, at string) error {
	var wrong error
	for _, one := range of {
		err := c.check(one, v, at)
		if err == nil {
			return nil
		}
		if m, ok := v.(map[string]any); wrong == nil || ok && one.Properties != nil && one.Properties.Get("type") != nil && one.Properties.Get("type").Const == m["type"] {
			wrong = err
		}
	}
	return wrong
}

func (c *checker) members(s *Schema, v map[string]any, at string) error {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s.%s is missing", at, name)
		}
	}
	if s.Properties == nil && s.Additional == nil {
		return nil // anything
	}
	for name, one := range v {
		to := s.Properties.Get(name)
		if to == nil {
			to = s.Additional
		}
		if to == nil {
			return fmt.Errorf("%s.%s is not in the schema", at, name)
		}
		if err := c.check(to, one, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func place(at string) string {
	if at == "" {
		return "the document"
	}
	return at
}

// typeOf is JSON Schema's word for a value's type.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}
