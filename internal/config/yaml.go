package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Document is a YAML document that is well-formed.
type Document struct {
	name  string
	lines []string
	root  *yaml.Node // nil for an empty one
}

// Error is what is wrong at a place of a file.
type Error struct {
	File         string
	Line, Column int // from 1; 0 = not known
	Reason       string
	Excerpt      string   // the line
	Key          string   // that is not known, if this is what is wrong
	Known        []string // the keys that could be there
}

func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text += ":" + strconv.Itoa(e.Line)
	}
	text += ": " + e.Reason
	if e.Excerpt == "" {
		return text
	}
	text += "\n  " + e.Excerpt
	if e.Column > 0 {
		text += "\n  " + strings.Repeat(" ", e.Column-1) + "^"
	}
	return text
}

// Parse reads a document; name is what errors call it.
func Parse(name string, data []byte) (*Document, error) {
	d := &Document{name: name, lines: strings.Split(string(data), "\n")}
	if !utf8.Valid(data) {
		return nil, &Error{File: name, Reason: "it is no text in UTF-8"}
	}
	in := yaml.NewDecoder(bytes.NewReader(data))
	var root, more yaml.Node
	switch err := in.Decode(&root); {
	case errors.Is(err, io.EOF):
		return d, nil
	case err != nil:
		return nil, d.syntax(err)
	}
	switch err := in.Decode(&more); {
	case err == nil:
		return nil, d.Error(more.Line, more.Column, "a second document begins: a file has one")
	case !errors.Is(err, io.EOF):
		return nil, d.syntax(err)
	}
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		d.root = root.Content[0]
	}
	return d, nil
}

// Decode stores the document in what to points to, a struct whose fields have their keys as `yaml` tags. An empty document
// changes nothing.
func (d *Document) Decode(to any) error {
	if d.root == nil {
		return nil
	}
	if err := d.check(d.root, reflect.TypeOf(to), 0); err != nil {
		return err
	}
	err := d.root.Decode(to)
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) && len(wrong.Errors) > 0 {
		return d.syntax(errors.New(wrong.Errors[0]))
	}
	if err != nil {
		return d.syntax(err)
	}
	return nil
}

// Error is an error at a place of the document.
func (d *Document) Error(line, column int, format string, args ...any) *Error {
	e := &Error{File: d.name, Line: line, Column: column, Reason: fmt.Sprintf(format, args...)}
	if line >= 1 && line <= len(d.lines) {
		e.Excerpt = strings.TrimRight(d.lines[line-1], "\r")
	}
	if column > len(e.Excerpt) || strings.ContainsRune(e.Excerpt, '\t') {
		e.Column = 0
	}
	return e
}

// Place is where in the document the deepest key of a path is that is there; 0 without any.
func (d *Document) Place(path ...string) (line, column int) {
	n := d.root
	for _, key := range path {
		if n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n == nil || n.Kind != yaml.MappingNode {
			return line, column
		}
		found := false
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				line, column = n.Content[i].Line, n.Content[i].Column
				n, found = n.Content[i+1], true
				break
			}
		}
		if !found {
			return line, column
		}
	}
	return line, column
}

// Where is Place as text: the file's name and the line.
func (d *Document) Where(path ...string) string {
	if line, _ := d.Place(path...); line > 0 {
		return d.name + ":" + strconv.Itoa(line)
	}
	return d.name
}

var (
	atLine = regexp.MustCompile(`^(?:yaml: )*(?:unmarshal errors:\s*)?line (\d+): (.*)$`)
	ofKind = regexp.MustCompile("^cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)$")
)

// syntax is an error of package yaml with its place.
func (d *Document) syntax(err error) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := atLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = m[2]
	}
	if m := ofKind.FindStringSubmatch(text); m != nil {
		text = kindText(m[1], m[2], m[3])
	}
	return d.Error(line, 0, "%s", text)
}

var kinds = map[string]string{
	"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "seq": "a list", "map": "keys and values", "null": "nothing",
}

func kindText(is, value, want string) string {
	got := kinds[is]
	if got == "" {
		got = is
	}
	switch w := strings.TrimLeft(want, "*"); {
	case strings.HasPrefix(w, "[]"):
		want = kinds["seq"]
	case strings.HasPrefix(w, "int"), strings.HasPrefix(w, "uint"):
		want = kinds["int"]
	case strings.HasPrefix(w, "float"):
		want = kinds["float"]
	case w == "bool", w == "string":
		want = kinds[map[string]string{"bool": "bool", "string": "str"}[w]]
	default:
		want = kinds["map"]
	}
	if value != "" {
		got = strconv.Quote(value)
	}
	return fmt.Sprintf("here should be %s, and not %s", want, got)
}

// deepest is how deep documents go.
const deepest = 64

var (
	decodesYAML = reflect.TypeFor[yaml.Unmarshaler]()
	anyNode     = reflect.TypeFor[yaml.Node]()
)

// check finds keys that the type does not have.
func (d *Document) check(n *yaml.Node, t reflect.Type, depth int) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case depth > deepest:
		return d.Error(n.Line, n.Column, "this is too deep")
	case reflect.PointerTo(t).Implements(decodesYAML) || t == anyNode:
		return nil
	case n.Kind == yaml.SequenceNode && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		for _, item := range n.Content {
			if err := d.check(item, t.Elem(), depth+1); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 1; i < len(n.Content); i += 2 {
			if err := d.check(n.Content[i], t.Elem(), depth+1); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		return d.checkStruct(n, t, depth)
	}
	return nil
}

func (d *Document) checkStruct(n *yaml.Node, t reflect.Type, depth int) error {
	fields, rest := fieldsOf(t)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		of, known := fields[key.Value]
		switch {
		case key.Value == "<<" && key.Tag == "!!merge":
			of = t
		case !known && rest == nil:
			e := d.Error(key.Line, key.Column, "%q is no key here", key.Value)
			e.Key = key.Value
			for name := range fields {
				e.Known = append(e.Known, name)
			}
			slices.Sort(e.Known)
			return e
		case !known:
			of = rest
		}
		if err := d.check(value, of, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf are the keys of a struct. rest is the type of the values of all other keys, if it has an inline map for them.
func fieldsOf(t reflect.Type) (fields map[string]reflect.Type, rest reflect.Type) {
	fields = map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case strings.Contains(options, "inline") && f.Type.Kind() == reflect.Map:
			rest = f.Type.Elem()
		case strings.Contains(options, "inline"):
			inner, innerRest := fieldsOf(f.Type)
			for k, v := range inner {
				fields[k] = v
			}
			if innerRest != nil {
				rest = innerRest
			}
		case name == "":
			fields[strings.ToLower(f.Name)] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields, rest
}

// Text is a single value as it was written: a number, a word, true. It knows its place.
type Text struct {
	Value        string
	Line, Column int
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *Text) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: here should be one value, and not %s", n.Line, kinds[map[yaml.Kind]string{yaml.SequenceNode: "seq", yaml.MappingNode: "map"}[n.Kind]])
	}
	*t = Text{n.Value, n.Line, n.Column}
	return nil
}
