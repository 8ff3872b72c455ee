package fault

import (
	"slices"
	"strings"
)

// Fault is a row of the list of faults: what can go wrong on the wire, and what a device has to make of it.
type Fault struct {
	ID      string
	Section string
	What    string
	Role    string // of the device: R responder, Q requester, B both
	ICRC    string // ok: right all the same; stale or wrong; n/a: what changes is not covered; -: does not matter
	Outcome string // required of the device
	Notes   string // recovery to check, or exceptions
	Source  string // of the requirement
	Open    string // what is not confirmed of it; "" = nothing
	// Rule makes it, in words (see Parse); its parameters may be replaced.
	Rule string
	// Otherwise says how it comes about where no rule makes it.
	Otherwise string
}

// Catalogue lists the faults.
func Catalogue() []Fault { return slices.Clone(catalogue) }

// Find finds a fault by its ID, without regard to case; nil where there is none.
func Find(id string) *Fault {
	for i := range catalogue {
		if strings.EqualFold(catalogue[i].ID, id) {
			return &catalogue[i]
		}
	}
	return nil
}

// Params are the parameters of a fault's rule with the values that they have unless others are given.
func (f *Fault) Params() []Param {
	d, err := parseDraft(f.Rule)
	if f.Rule == "" || err != nil {
		return nil
	}
	words, err := split(d.do)
	if err != nil {
		return nil
	}
	var all []Param
	var action *Action
	for _, w := range words {
		if w.key == "" {
			action = findAction(w.value)
			continue
		}
		p := Param{Name: w.key, Default: w.value, What: "the field's new value"}
		if i := byName(action.Params, w.key); i >= 0 {
			p.What = action.Params[i].What
		}
		all = append(all, p)
	}
	for _, s := range selectors {
		if v, ok := d.selected[s.Name]; ok {
			all = append(all, Param{s.Name, v, s.What})
		}
	}
	return all
}

// Outcomes says what the words in capitals of Fault.Outcome mean, in the order in which they should be read.
func Outcomes() [][2]string { return slices.Clone(outcomes) }

// Sources says what the tags in brackets of Fault.Source mean.
func Sources() [][2]string { return slices.Clone(sources) }
