package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

type person struct {
	Name string          `yaml:"name"`
	Age  int             `yaml:"age"`
	Pets []pet           `yaml:"pets"`
	More map[string]Text `yaml:",inline"`
}

type pet struct {
	Kind string `yaml:"kind"`
	Legs *int   `yaml:"legs"`
}

func decode(t *testing.T, text string, to any) error {
	t.Helper()
	d, err := Parse("file.yaml", []byte(text))
	if err != nil {
		return err
	}
	return d.Decode(to)
}

func TestDecode(t *testing.T) {
	var p person
	if err := decode(t, "name: Ada\nage: 36\npets:\n  - kind: cat\n    legs: 4\nport: 0x12b7\nrate: 10G\n", &p); err != nil {
		t.Fatal(err)
	}
	four := 4
	want := person{"Ada", 36, []pet{{"cat", &four}}, map[string]Text{"port": {"0x12b7", 6, 7}, "rate": {"10G", 7, 7}}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	for _, empty := range []string{"", "\n", "# nothing\n"} {
		if err := decode(t, empty, &p); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestErrorsHaveTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "pets:\n  - kind: cat\n    leg: 4\n", "file.yaml:3: \"leg\" is no key here\n      leg: 4\n      ^"},
		{"a word for a number", "name: Ada\nage: old\n", "file.yaml:2: here should be a whole number, and not \"old\"\n  age: old"},
		{"a word for a list", "pets: cat\n", "file.yaml:1: here should be a list, and not \"cat\"\n  pets: cat"},
		{"a list for a word", "rate: [1, 2]\n", "file.yaml:1: here should be one value, and not a list\n  rate: [1, 2]"},
		{"a key twice", "name: Ada\nname: Bob\n", "file.yaml:2: mapping key \"name\" already defined at line 1\n  name: Bob"},
		{"a second document", "name: Ada\n---\nname: Bob\n", "file.yaml:2: a second document begins: a file has one\n  ---\n  ^"},
		{"no YAML", "name: [Ada\nage: 36\n", "file.yaml:1: did not find expected ',' or ']'\n  name: [Ada"},
		{"no text", "name: \xff\n", "file.yaml: it is no text in UTF-8"},
	} {
		var p person
		err := decode(t, c.text, &p)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, err, c.want)
		}
	}
}

func TestUnknownKeyNamesTheKnown(t *testing.T) {
	err := decode(t, "legs: 4\nkinds: cat\n", &pet{})
	e, ok := err.(*Error)
	if !ok || e.Key != "kinds" || !cmp.Equal(e.Known, []string{"kind", "legs"}) {
		t.Errorf("%#v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("name: Ada\npets: [{kind: cat}]\nrate: &a 1\nport: *a\n")
	f.Add("a: &a [*a]")
	f.Add("<<: {name: x}")
	f.Fuzz(func(t *testing.T, text string) {
		var p person
		if err := decode(t, text, &p); err != nil {
			_ = err.Error()
		}
	})
}
