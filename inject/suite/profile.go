package suite

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/internal/config"
)

// Profile is what a device is known not to do: what then is not as required is documented, not failed.
type Profile struct {
	Name   string   `yaml:"name"`
	Title  string   `yaml:"title"`
	Source string   `yaml:"source"` // where the limits are documented
	Lacks  []string `yaml:"lacks"`  // abilities, as the needs of cases name them
	MTU    int      `yaml:"mtu"`    // the largest path MTU; 0 = no limit
	Depth  int      `yaml:"depth"`  // READs and atomics that it answers at a time; 0 = no limit
	Cases  []Known  `yaml:"cases"`  // single cases
}

// Known is a case whose outcome is known to be another one.
type Known struct {
	ID  string `yaml:"id"` // or a row, or a pattern of them
	Why string `yaml:"why"`
}

//go:embed profiles/*.yaml
var profileFiles embed.FS

// Profiles lists the built-in profiles.
func Profiles() ([]*Profile, error) {
	list, err := profileFiles.ReadDir("profiles")
	if err != nil {
		return nil, err
	}
	var all []*Profile
	for _, e := range list {
		data, err := profileFiles.ReadFile("profiles/" + e.Name())
		if err != nil {
			return nil, err
		}
		p, err := ParseProfile(e.Name(), data)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// ParseProfile reads a profile from YAML; name is what errors call it.
func ParseProfile(name string, data []byte) (*Profile, error) {
	d, err := config.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var p Profile
	if err := d.Decode(&p); err != nil {
		return nil, err
	}
	if p.Name == "" {
		return nil, fmt.Errorf("%s: a profile needs a name", name)
	}
	for _, a := range p.Lacks {
		if !slices.Contains(Abilities, a) {
			return nil, fmt.Errorf("%s: lacks cannot name %q; there are %s", name, a, strings.Join(Abilities, ", "))
		}
	}
	for _, k := range p.Cases {
		if _, err := path.Match(k.ID, ""); err != nil || k.ID == "" || k.Why == "" {
			return nil, fmt.Errorf("%s: cases: %q needs an id that can be, and a why", name, k.ID)
		}
	}
	return &p, nil
}

// denies reports whether the device lacks an ability.
func (p *Profile) denies(ability string) bool { return p != nil && slices.Contains(p.Lacks, ability) }

// documents says why another outcome of a case is known; "" where it is not.
func (p *Profile) documents(c *Case) string {
	if p == nil {
		return ""
	}
	for _, n := range c.Needs {
		if p.denies(n) {
			return "the device does not do " + n + ": " + p.Source
		}
	}
	for _, k := range p.Cases {
		for _, name := range append([]string{c.ID}, c.Rows...) {
			if ok, _ := path.Match(strings.ToUpper(k.ID), strings.ToUpper(name)); ok {
				return k.Why + ": " + p.Source
			}
		}
	}
	if p.MTU > 0 && c.Setup.mtu() > p.MTU {
		return fmt.Sprintf("the path MTU is at most %d: %s", p.MTU, p.Source)
	}
	if p.Depth > 0 && c.Setup.Depth > p.Depth {
		return fmt.Sprintf("it answers %d READs and atomics at a time: %s", p.Depth, p.Source)
	}
	return ""
}
