package tui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/internal/config"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/tui/cells"
)

// Config is what the user wants of the screen: the part "tui" of the config file, and each of its profiles.
type Config struct {
	Theme        string                       `yaml:"theme" json:",omitempty"`
	Mouse        *bool                        `yaml:"mouse" json:",omitempty"`
	Unicode      *bool                        `yaml:"unicode" json:",omitempty"`
	FPS          int                          `yaml:"fps" json:",omitempty"`
	LowBandwidth *bool                        `yaml:"low-bandwidth" json:",omitempty"`
	Time         string                       `yaml:"time" json:",omitempty"`
	Digits       string                       `yaml:"digits" json:",omitempty"`
	List         int                          `yaml:"list" json:",omitempty"`
	Columns      []string                     `yaml:"columns" json:",omitempty"`
	Colors       map[string]string            `yaml:"colors" json:",omitempty"`
	Filters      map[string]string            `yaml:"filters" json:",omitempty"`
	Copy         string                       `yaml:"copy" json:",omitempty"`
	Themes       map[string]map[string]string `yaml:"themes" json:",omitempty"`
	Actions      map[string]UserAction        `yaml:"actions" json:",omitempty"`
	Keys         map[string][]string          `yaml:"keys" json:",omitempty"`

	profiles map[string]Config // those of the file, each with what it is based on
	origin   map[string]string // of settings by their names; unset: as they are without a file
}

// configFile is the file as it is written.
type configFile struct {
	TUI      Config            `yaml:"tui"`
	Profiles map[string]Config `yaml:"profiles"`
}

// setting is a row of the table of what the config file may say: from it come the sample file, the schema, `config show` and
// docs/tui.md.
type setting struct {
	name, kind, help string
	standard         string   // what holds where nothing is said
	sample           string   // in the sample file; "" = standard
	values           []string // that it may have; nil = any of its kind
}

var settings = []setting{
	{"theme", "string", "colours; auto asks the terminal whether it is dark", "auto", "", nil},
	{"mouse", "boolean", "take mouse events; M switches while the screen is open", "true", "", nil},
	{"unicode", "boolean", "draw with more than ASCII; unset, the locale decides", "as the locale", "true", nil},
	{"fps", "integer", "frames a second at most, 1 to 30; fewer suit a slow line", "10", "", nil},
	{"low-bandwidth", "boolean", "for slow lines: two frames a second, ASCII, sixteen colours, unless said otherwise", "false", "", nil},
	{"time", "string", "how times are shown: r since the first packet, d since the one before, a local, u UTC", "r", "", []string{"r", "d", "a", "u"}},
	{"digits", "string", "what digits do: views opens a view, count counts the next key as in vi; with alt they do the other", "views", "", []string{"views", "count"}},
	{"list", "integer", "how much of the height lists get in front of what explains them, 20 to 80 hundredths", "as left last", "45", nil},
	{"columns", "array", "fields shown as columns of the packet list, beside the usual ones", "none", "[infiniband.bth.psn]", nil},
	{"colors", "object", "colours of packets that a filter selects, by what a theme gives colours to", "none", "{flow.nak: bad, infiniband.cnp: congestion}", nil},
	{"filters", "object", "filters by name, to be used as @name", "none", "{lost: flow.gap or flow.nak}", nil},
	{"copy", "string", "a command that takes over what is copied, from its standard input; unset, the terminal does (OSC 52)", "by the terminal", "wl-copy", nil},
	{"themes", "object", "themes of your own: meanings and how they look, over the theme \"base\"", "none", "{mine: {base: dark, bad: 208 bold, cursor: 231 on 24}}", nil},
	{"actions", "object", "commands of your own; see docs/tui.md for what {{.Names}} there are", "none", "{decode: {key: f5, command: \"tshark -r {{.File}} -V -Y frame.number=={{.Packet}}\", output: window}}", nil},
	{"keys", "object", "keys for actions, by the names that \"rocescope tui --keys\" lists", "none", "{freeze: [space, f5]}", nil},
}

func on(b *bool) bool { return b != nil && *b }

func (c *Config) mouse() bool { return c.Mouse == nil || *c.Mouse }

// frame is the time between two frames.
func (c *Config) frame() time.Duration {
	switch {
	case c.FPS > 0:
		return time.Second / time.Duration(c.FPS)
	case on(c.LowBandwidth):
		return time.Second / 2
	}
	return time.Second / 10
}

// settingError is what is wrong with a setting.
type settingError struct {
	path   []string
	reason string
}

func (e *settingError) Error() string { return strings.Join(e.path, ".") + ": " + e.reason }

func wrong(reason string, path ...string) error { return &settingError{path, reason} }

// ParseConfig reads a config file, with one of its profiles over what holds for all; "" for none. Errors name the line.
func ParseConfig(name string, data []byte, profile string) (Config, error) {
	var file configFile
	d, err := config.Parse(name, data)
	if err != nil {
		return file.TUI, err
	}
	if err := d.Decode(&file); err != nil {
		var e *config.Error
		if errors.As(err, &e) && e.Key != "" {
			for _, k := range e.Known {
				if filter.Distance(e.Key, k, 2) <= 2 {
					e.Reason += fmt.Sprintf("; did you mean %q?", k)
					return file.TUI, e
				}
			}
			e.Reason += "; there are " + strings.Join(e.Known, ", ")
		}
		return file.TUI, err
	}
	c := file.TUI
	c.origin = map[string]string{}
	c.said(&file.TUI, func(setting string) string { return d.Where("tui", setting) })
	if err := c.check(); err != nil {
		return c, placed(d, err, "tui")
	}
	c.profiles = map[string]Config{}
	for _, p := range slices.Sorted(maps.Keys(file.Profiles)) {
		of := file.Profiles[p]
		whole := c.over(&of)
		whole.said(&of, func(setting string) string { return "profile " + p + ", " + d.Where("profiles", p, setting) })
		if err := whole.check(); err != nil {
			return c, placed(d, err, "profiles", p)
		}
		c.profiles[p] = whole
	}
	if profile != "" {
		return c.Profile(profile)
	}
	return c, nil
}

// placed is an error with its place in the file.
func placed(d *config.Document, err error, in ...string) error {
	var e *settingError
	if !errors.As(err, &e) {
		return err
	}
	line, column := d.Place(append(in, e.path...)...)
	return d.Error(line, column, "%s.%s", strings.Join(in, "."), e)
}

// said notes where the settings come from that a part of the file has.
func (c *Config) said(part *Config, where func(setting string) string) {
	for _, s := range settings {
		if !part.field(s.name).IsZero() {
			c.origin[s.name] = where(s.name)
		}
	}
}

// Say sets where a setting comes from that did not come from the file.
func (c *Config) Say(setting, where string) {
	if c.origin == nil {
		c.origin = map[string]string{}
	}
	c.origin[setting] = where
}

// field is a setting by its name.
func (c *Config) field(name string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == name {
			return v.Field(i)
		}
	}
	panic("no setting is called " + name)
}

// over is the settings with those of a profile over them: what a profile says holds, what it names is added.
func (c *Config) over(p *Config) Config {
	out := *c
	out.origin = maps.Clone(c.origin)
	for _, s := range settings {
		mine, its := out.field(s.name), p.field(s.name)
		switch {
		case its.IsZero():
		case its.Kind() == reflect.Map && !mine.IsZero():
			both := reflect.MakeMap(its.Type())
			for _, from := range []reflect.Value{mine, its} {
				for _, k := range from.MapKeys() {
					both.SetMapIndex(k, from.MapIndex(k))
				}
			}
			mine.Set(both)
		default:
			mine.Set(its)
		}
	}
	return out
}

// Profiles are the names of the profiles that there are.
func (c *Config) Profiles() []string { return slices.Sorted(maps.Keys(c.profiles)) }

// AddProfiles makes profiles known that are not in the file, of which one that cannot be is left out.
func (c *Config) AddProfiles(saved map[string]Config) {
	if c.profiles == nil {
		c.profiles = map[string]Config{}
	}
	for name, p := range saved {
		whole := c.over(&p)
		if _, there := c.profiles[name]; !there && whole.check() == nil {
			if whole.origin == nil {
				whole.origin = map[string]string{}
			}
			whole.said(&p, func(string) string { return "profile " + name + ", saved by the screen" })
			c.profiles[name] = whole
		}
	}
}

// Profile is the settings of a profile.
func (c *Config) Profile(name string) (Config, error) {
	p, ok := c.profiles[name]
	if !ok {
		if all := c.Profiles(); len(all) > 0 {
			return *c, fmt.Errorf("there is no profile %q; there are %s", name, strings.Join(all, ", "))
		}
		return *c, fmt.Errorf("there is no profile %q; the config file has them under \"profiles\"", name)
	}
	p.profiles = c.profiles
	return p, nil
}

// Value is a setting, how it is and where that comes from, as `config show` prints it.
type Value struct {
	Setting string `json:"setting"` // its name in the config file
	Value   string `json:"value"`   // as JSON where it is no plain value
	Origin  string `json:"origin"`  // a file and its line, a profile, an option, or "standard"
}

// Values are all settings, each with where it comes from.
func (c *Config) Values() []Value {
	var all []Value
	for _, s := range settings {
		v := Value{s.name, s.standard, "standard"}
		if f := c.field(s.name); !f.IsZero() {
			text, _ := json.Marshal(f.Interface()) // no channels or functions are in it
			v.Value, v.Origin = strings.Trim(string(text), `"`), c.origin[s.name]
		}
		all = append(all, v)
	}
	return all
}

// check finds values that cannot be.
func (c *Config) check() error {
	for name, looks := range c.Themes {
		if cells.ThemeByName(name) != nil || name == "auto" {
			return wrong("this theme is there already: choose another name", "themes", name)
		}
		if _, meaning, err := cells.NewTheme(name, looks); err != nil {
			return wrong(err.Error(), "themes", name, meaning)
		}
	}
	if c.Theme != "" && c.Theme != "auto" && c.theme(c.Theme) == nil {
		return wrong(fmt.Sprintf("there is no %q; there are auto, %s", c.Theme, strings.Join(c.themeNames(), ", ")), "theme")
	}
	if c.FPS < 0 || c.FPS > 30 {
		return wrong(fmt.Sprintf("%d is not from 1 to 30", c.FPS), "fps")
	}
	if c.List != 0 && (c.List < leastSplit || c.List > mostSplit) {
		return wrong(fmt.Sprintf("%d is not from %d to %d", c.List, leastSplit, mostSplit), "list")
	}
	for _, s := range settings {
		if f := c.field(s.name); s.values != nil && !f.IsZero() && !slices.Contains(s.values, f.String()) {
			return wrong(fmt.Sprintf("%q is none of %s", f.String(), strings.Join(s.values, ", ")), s.name)
		}
	}
	for _, name := range c.Columns {
		if _, err := filter.LookupColumn(name); err != nil {
			return wrong(err.Error(), "columns")
		}
	}
	for name, text := range c.Filters {
		if strings.ContainsAny(name, " ()!@") {
			return wrong("this is no name for a filter: it is one word", "filters", name)
		}
		if _, err := filter.Compile(text); err != nil {
			return wrong(err.Error(), "filters", name)
		}
	}
	for text, meaning := range c.Colors {
		if _, err := filter.Compile(text); err != nil {
			return wrong(err.Error(), "colors", text)
		}
		if _, ok := cells.MeaningByName(meaning); !ok {
			return wrong(fmt.Sprintf("%q has no colour; there are %s", meaning, strings.Join(cells.Meanings(), ", ")), "colors", text)
		}
	}
	for name, a := range c.Actions {
		if err := a.check(name); err != nil {
			return err
		}
	}
	_, err := newKeymap(c)
	return err
}

// theme finds a theme: one of the file's, or one that is built in; nil if there is none of the name.
func (c *Config) theme(name string) *cells.Theme {
	if looks, ok := c.Themes[name]; ok {
		t, _, err := cells.NewTheme(name, looks)
		if err != nil {
			return nil
		}
		return t
	}
	return cells.ThemeByName(name)
}

// HasTheme says whether there is a theme of that name.
func (c *Config) HasTheme(name string) bool { return c.theme(name) != nil }

func (c *Config) themeNames() []string {
	var names []string
	for _, t := range cells.Themes {
		names = append(names, t.Name)
	}
	return append(names, slices.Sorted(maps.Keys(c.Themes))...)
}

// SampleConfig is a config file with everything in it, as comments.
func SampleConfig() string {
	var b strings.Builder
	b.WriteString("# rocescope's settings. Whatever is commented out is as it is without this file, or an example.\n\ntui:\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "  # %s\n", s.help)
		if s.name == "theme" {
			fmt.Fprintf(&b, "  # one of auto, %s\n", strings.Join(new(Config).themeNames(), ", "))
		}
		fmt.Fprintf(&b, "  # %s: %s\n\n", s.name, cmp.Or(s.sample, s.standard))
	}
	b.WriteString("# Settings for an occasion, over those above: rocescope tui --profile lab\n# profiles:\n#   lab:\n#     columns: [infiniband.bth.psn]\n#     time: d\n")
	return b.String()
}

// ConfigSchema is the config file's JSON Schema, for editors.
func ConfigSchema() map[string]any {
	properties := map[string]any{}
	for _, s := range settings {
		p := map[string]any{"type": s.kind, "description": s.help}
		texts := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
		switch s.name {
		case "fps":
			p["minimum"], p["maximum"] = 1, 30
		case "list":
			p["minimum"], p["maximum"] = leastSplit, mostSplit
		case "columns":
			p["items"] = map[string]any{"type": "string"}
		case "filters":
			p["additionalProperties"] = map[string]any{"type": "string"}
		case "colors":
			p["additionalProperties"] = map[string]any{"type": "string", "enum": cells.Meanings()}
		case "themes":
			p["additionalProperties"] = texts
		case "actions":
			p["additionalProperties"] = actionSchema()
		case "keys":
			actions := map[string]any{}
			for _, k := range bindings {
				actions[string(k.do)] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": k.help}
			}
			p["properties"], p["additionalProperties"] = actions, map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
		}
		if s.values != nil {
			p["enum"] = s.values
		}
		properties[s.name] = p
	}
	part := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "rocescope's config file", "type": "object",
		"properties": map[string]any{
			"tui":      part,
			"profiles": map[string]any{"type": "object", "description": "settings for an occasion, over those of tui", "additionalProperties": part},
		},
		"additionalProperties": false,
	}
}

// KeyTable is the key table as text, or as Markdown: docs/keys.md.
func KeyTable(markdown bool) string {
	var b strings.Builder
	if markdown {
		b.WriteString("# Keys\n\nGenerated from the key table by `make docs`. The names are those of the palette (`:`) and of the config file,\nwhere each can have other keys: see [tui.md](tui.md).\n")
	}
	last := ""
	for _, k := range bindings {
		if k.group != last {
			if markdown {
				fmt.Fprintf(&b, "\n## %s\n\n| key | does | name |\n|---|---|---|\n", k.group)
			} else {
				fmt.Fprintf(&b, "%s%s\n", map[bool]string{true: "\n", false: ""}[last != ""], k.group)
			}
			last = k.group
		}
		if markdown {
			var keys []string
			for _, key := range k.shown() {
				keys = append(keys, "`"+key+"`")
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` |\n", strings.Join(keys, " "), strings.ReplaceAll(k.help, "|", `\|`), k.do)
		} else {
			fmt.Fprintf(&b, "  %-18s %-18s %s\n", strings.Join(k.shown(), " "), k.do, k.help)
		}
	}
	return b.String()
}
