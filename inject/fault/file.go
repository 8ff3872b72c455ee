package fault

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/internal/config"
)

// rulesFile is a file of rules.
type rulesFile struct {
	Seed  *config.Text `yaml:"seed"`
	Rules []ruleText   `yaml:"rules"`
}

// ruleText is a rule of it: actions or a fault of the catalogue, a filter, and the selectors.
type ruleText struct {
	Do          *config.Text `yaml:"do"`
	Fault       *config.Text `yaml:"fault"`
	When        *config.Text `yaml:"when"`
	Name        *config.Text `yaml:"name"`
	Way         *config.Text `yaml:"way"`
	Nth         *config.Text `yaml:"nth"`
	Every       *config.Text `yaml:"every"`
	Count       *config.Text `yaml:"count"`
	Probability *config.Text `yaml:"probability"`
	After       *config.Text `yaml:"after"`
	Before      *config.Text `yaml:"before"`
}

// keys are the parts that are there, by their keys.
func (t *ruleText) keys() map[string]*config.Text {
	all := map[string]*config.Text{
		"do": t.Do, "fault": t.Fault, "when": t.When, "name": t.Name, "way": t.Way, "nth": t.Nth, "every": t.Every, "count": t.Count,
		"probability": t.Probability, "after": t.After, "before": t.Before,
	}
	for key, v := range all {
		if v == nil {
			delete(all, key)
		}
	}
	return all
}

// ReadFile reads rules from a YAML file.
func ReadFile(name string) (*Set, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return ParseFile(name, data)
}

// ParseFile reads rules from YAML; name is what errors call it.
func ParseFile(name string, data []byte) (*Set, error) {
	doc, err := config.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var file rulesFile
	if err := doc.Decode(&file); err != nil {
		return nil, explained(err)
	}
	if len(file.Rules) == 0 {
		return nil, doc.Error(0, 0, "it has no rules: a list of {when: FILTER, nth: 3, do: drop}")
	}
	s := &Set{Seed: 1}
	if t := file.Seed; t != nil {
		if s.Seed, err = strconv.ParseUint(t.Value, 0, 64); err != nil {
			return nil, doc.Error(t.Line, t.Column, "seed: %q is no number", t.Value)
		}
	}
	for i := range file.Rules {
		r, err := file.Rules[i].compile(doc)
		if err != nil {
			return nil, err
		}
		s.Rules = append(s.Rules, r)
	}
	return s, nil
}

// compile makes the rule.
func (t *ruleText) compile(doc *config.Document) (*Rule, error) {
	keys := t.keys()
	first := &config.Text{}
	for _, v := range keys {
		if first.Line == 0 || v.Line < first.Line {
			first = v
		}
	}
	d := &draft{selected: map[string]string{}}
	for key, v := range keys {
		if byName(selectors, key) >= 0 {
			d.selected[key] = v.Value
		}
	}
	if t.When != nil {
		d.when = t.When.Value
	}
	at := func(err error, fallback string) error {
		place, reason := first, err.Error()
		var e *draftError
		if errors.As(err, &e) && keys[e.key] != nil {
			place = keys[e.key]
		} else if keys[fallback] != nil {
			place = keys[fallback]
		}
		return doc.Error(place.Line, place.Column, "%s", reason)
	}
	var err error
	switch {
	case t.Do != nil && t.Fault != nil:
		return nil, at(errors.New("do and fault cannot both be: a fault of the catalogue says what to do"), "fault")
	case t.Do != nil:
		d.do = t.Do.Value
	case t.Fault != nil:
		var words []word
		if words, err = split(t.Fault.Value); err != nil || len(words) == 0 {
			return nil, at(fmt.Errorf("%q is no name of a fault", t.Fault.Value), "fault")
		}
		f := Find(words[0].value)
		if f == nil {
			return nil, at(fmt.Errorf("there is no fault %s%s; rocescope faults lists them", words[0].value, near(words[0].value, names(Catalogue(), func(f *Fault) string { return f.ID }))), "fault")
		}
		if d, err = d.of(f, words[1:]); err != nil {
			return nil, at(err, "fault")
		}
	default:
		return nil, at(errors.New("the rule does nothing: do: says what, or fault: names one of the catalogue"), "")
	}
	if strings.TrimSpace(d.do) == "" {
		return nil, at(fmt.Errorf("do: is empty; there are %s", strings.Join(actionNames(), ", ")), "do")
	}
	r, err := d.compile()
	if err != nil {
		return nil, at(err, "do")
	}
	return r, nil
}

// explained adds to an unknown key which there are.
func explained(err error) error {
	var e *config.Error
	if errors.As(err, &e) && e.Key != "" {
		e.Reason = fmt.Sprintf("%q is no key here%s; there are %s", e.Key, near(e.Key, e.Known), strings.Join(e.Known, ", "))
	}
	return err
}
