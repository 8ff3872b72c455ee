package tui

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/tui/cells"
)

// settle has the screen as settings say.
func (s *screen) settle(c *Config) error {
	keys, err := newKeymap(c)
	if err != nil {
		return err
	}
	s.keys, s.columns, s.rules = keys, slices.Clone(c.Columns), nil
	if t := c.theme(c.Theme); t != nil {
		s.theme = t
	}
	for i, f := range timeFormats {
		if f.name == c.Time {
			s.clock = i
		}
	}
	if c.List > 0 {
		s.split = c.List
	}
	for _, text := range slices.Sorted(maps.Keys(c.Colors)) {
		style, _ := cells.MeaningByName(c.Colors[text])
		if s.paint(text, style) != nil {
			return wrong("it selects nothing", "colors", text)
		}
	}
	return nil
}

// useProfile changes to the settings of a profile.
func (s *screen) useProfile(name string) {
	c, err := s.o.Config.Profile(name)
	if err == nil {
		err = s.settle(&c)
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.o.Config, s.profile = c, name
	maps.Copy(s.filter.named, c.Filters)
	maps.Copy(s.filter.named, s.filter.own)
	for _, v := range s.stack {
		if p, ok := v.(*packetsView); ok {
			p.list.shown = nil
		}
		v.refresh(s)
	}
	s.say("Profile %s.", name)
}

// saveProfile keeps how the screen is, under a name.
func (s *screen) saveProfile() {
	s.prompt = newAsk("Save columns, colours, theme, times and layout as which profile?", s.profile, func(s *screen, name string) error {
		name = strings.TrimSpace(name)
		if name == "" || strings.ContainsAny(name, " \t") {
			return errors.New("a profile's name is one word")
		}
		if _, written := s.o.Config.profiles[name]; written && !s.isSaved(name) {
			return fmt.Errorf("%s is in the config file, which is yours to change: choose another name", name)
		}
		p := Config{Theme: s.theme.Name, Time: timeFormats[s.clock].name, List: s.split, Columns: slices.Clone(s.columns), Colors: map[string]string{}}
		for _, r := range s.rules {
			p.Colors[r.text] = cells.Meanings()[r.style.Meaning()]
		}
		delete(s.o.Config.profiles, name)
		s.saved[name] = p
		s.o.Config.AddProfiles(map[string]Config{name: p})
		s.profile = name
		s.say("Saved; rocescope tui --profile %s begins like this.", name)
		return nil
	})
}

func (s *screen) isSaved(profile string) bool { _, ok := s.saved[profile]; return ok }

// kept is what the next run is to know.
func (s *screen) kept() Kept {
	return Kept{History: s.filter.history, Filters: s.filter.own, Split: s.split, Profiles: s.saved}
}
