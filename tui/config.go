package tui

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rocescope/rocescope/internal/config"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/tui/cells"
)

// Config is what the user wants of the screen: the part "tui" of the config file.
type Config struct {
	Theme   string              `yaml:"theme"`
	Mouse   *bool               `yaml:"mouse"`
	Unicode *bool               `yaml:"unicode"`
	FPS     int                 `yaml:"fps"`
	Time    string              `yaml:"time"`
	Columns []string            `yaml:"columns"`
	Filters map[string]string   `yaml:"filters"`
	Keys    map[string][]string `yaml:"keys"`
}

// setting is a row of the table of what the config file may say: from it come the sample file, the schema and docs/tui.md.
type setting struct {
	name, kind, help, sample string
	values                   []string // that it may have; nil = any of its kind
}

var settings = []setting{
	{"theme", "string", "colours; auto asks the terminal whether it is dark", "auto", nil},
	{"mouse", "boolean", "take mouse events; M switches while the screen is open", "true", nil},
	{"unicode", "boolean", "draw with more than ASCII; unset, the locale decides", "true", nil},
	{"fps", "integer", "frames a second at most, 1 to 30; fewer suit a slow line", "10", nil},
	{"time", "string", "how times are shown: r since the first packet, d since the one before, a local, u UTC", "r", []string{"r", "d", "a", "u"}},
	{"columns", "array", "fields shown as columns of the packet list, beside the usual ones", "[infiniband.bth.psn]", nil},
	{"filters", "object", "filters by name, to be used as @name", "{lost: flow.gap or flow.nak}", nil},
	{"keys", "object", "keys for actions, by the names that \"rocescope tui --keys\" lists", "{freeze: [space, f5]}", nil},
}

func (c *Config) mouse() bool { return c.Mouse == nil || *c.Mouse }

// frame is the time between two frames.
func (c *Config) frame() time.Duration {
	if c.FPS <= 0 {
		return time.Second / 10
	}
	return time.Second / time.Duration(c.FPS)
}

// ParseConfig reads a config file. Errors name the line where they can.
func ParseConfig(name string, data []byte) (Config, error) {
	var file struct {
		TUI Config `yaml:"tui"`
	}
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
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: tui.%w", name, err)
	}
	return c, nil
}

// check finds values that cannot be.
func (c *Config) check() error {
	if c.Theme != "" && c.Theme != "auto" && cells.ThemeByName(c.Theme) == nil {
		return fmt.Errorf("theme: there is no %q; there are auto, %s", c.Theme, strings.Join(themeNames(), ", "))
	}
	if c.FPS < 0 || c.FPS > 30 {
		return fmt.Errorf("fps: %d is not from 1 to 30", c.FPS)
	}
	if c.Time != "" && !strings.Contains(" r d a u ", " "+c.Time+" ") {
		return fmt.Errorf("time: %q is none of r, d, a, u", c.Time)
	}
	for _, name := range c.Columns {
		if _, err := filter.LookupColumn(name); err != nil {
			return fmt.Errorf("columns: %w", err)
		}
	}
	for name, text := range c.Filters {
		if strings.ContainsAny(name, " ()!@") {
			return fmt.Errorf("filters: %q is no name for a filter: it is one word", name)
		}
		if _, err := filter.Compile(text); err != nil {
			return fmt.Errorf("filters: %s: %w", name, err)
		}
	}
	_, err := newKeymap(c.Keys)
	return err
}

func themeNames() []string {
	var names []string
	for _, t := range cells.Themes {
		names = append(names, t.Name)
	}
	return names
}

// SampleConfig is a config file with everything in it, as comments.
func SampleConfig() string {
	var b strings.Builder
	b.WriteString("# rocescope's settings. Whatever is commented out is as it is without this file.\n\ntui:\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "  # %s\n", s.help)
		if s.name == "theme" {
			fmt.Fprintf(&b, "  # one of auto, %s\n", strings.Join(themeNames(), ", "))
		}
		fmt.Fprintf(&b, "  # %s: %s\n\n", s.name, s.sample)
	}
	return b.String()
}

// ConfigSchema is the config file's JSON Schema, for editors.
func ConfigSchema() map[string]any {
	properties := map[string]any{}
	for _, s := range settings {
		p := map[string]any{"type": s.kind, "description": s.help}
		switch s.name {
		case "theme":
			p["enum"] = append([]string{"auto"}, themeNames()...)
		case "fps":
			p["minimum"], p["maximum"] = 1, 30
		case "columns":
			p["items"] = map[string]any{"type": "string"}
		case "filters":
			p["additionalProperties"] = map[string]any{"type": "string"}
		case "keys":
			actions := map[string]any{}
			for _, k := range bindings {
				actions[string(k.do)] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": k.help}
			}
			p["properties"], p["additionalProperties"] = actions, false
		}
		if s.values != nil {
			p["enum"] = s.values
		}
		properties[s.name] = p
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "rocescope's config file", "type": "object",
		"properties":           map[string]any{"tui": map[string]any{"type": "object", "properties": properties, "additionalProperties": false}},
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
			for _, key := range k.keys {
				keys = append(keys, "`"+key+"`")
			}
			fmt.Fprintf(&b, "| %s | %s | `%s` |\n", strings.Join(keys, " "), strings.ReplaceAll(k.help, "|", `\|`), k.do)
		} else {
			fmt.Fprintf(&b, "  %-18s %-18s %s\n", strings.Join(k.keys, " "), k.do, k.help)
		}
	}
	return b.String()
}
