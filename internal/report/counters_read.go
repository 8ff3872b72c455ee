package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// CounterReading is what a device's counters said at one time, by name.
type CounterReading struct {
	Source string                       // as the user named it
	Ports  map[string]map[string]uint64 // by device and port ("mlx5_0/1"); "" where the text does not name any
}

// maxCounterText bounds what is read: a reading of counters is some kilobytes, and anything else is a mistake.
const maxCounterText = 16 << 20

// ReadCounters reads counters from a file, or from a folder with one file for each, as hw_counters is. Of a file, what it
// holds is recognised by its content: the output of ethtool -S, of rdma statistic show, of grep -H . hw_counters/* or of
// head hw_counters/*, JSON of the first two, and any list of names and values, as in CSV.
func ReadCounters(name string) (*CounterReading, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	r := &CounterReading{Source: name, Ports: map[string]map[string]uint64{}}
	if info.IsDir() {
		err = r.readFolder(name)
	} else {
		var text []byte
		if info.Size() > maxCounterText {
			return nil, fmt.Errorf("%s is too large for a reading of counters", name)
		}
		if text, err = os.ReadFile(name); err == nil {
			err = r.parse(text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(r.Ports) == 0 {
		return nil, fmt.Errorf("%s: no counters in it; wanted is the output of ethtool -S, of rdma statistic show or of grep -H . "+
			"/sys/class/infiniband/*/ports/*/hw_counters/*, a copy of that folder, or lines of name,value", name)
	}
	return r, nil
}

// readFolder reads each file below a folder as one counter, or as a list of them if that is what it is.
func (r *CounterReading) readFolder(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 1<<16 { // sysfs says 4096 of each
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil //nolint:nilerr // some counters of sysfs cannot be read; the others can
		}
		if v, ok := number64(strings.TrimSpace(string(text))); ok {
			return r.add(portOf(filepath.ToSlash(name)), filepath.Base(name), v)
		}
		return nil
	})
}

func (r *CounterReading) add(port, name string, v uint64) error {
	if name == "" {
		return nil
	}
	if r.Ports[port] == nil {
		r.Ports[port] = map[string]uint64{}
	}
	if old, twice := r.Ports[port][name]; twice && old != v {
		return fmt.Errorf("the counter %s is there twice, as %d and as %d: one device at a time", name, old, v)
	}
	r.Ports[port][name] = v
	return nil
}

var (
	sysfsPort  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/infiniband/([^/]+)/(?:ports/(\d+)/)?`) })
	headOfFile = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^==> (.+) <==$`) })
	onePair    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.*?)\s*[:,;=\s]\s*("?(?:0x[0-9a-fA-F]+|\d+)"?)$`) })
)

// portOf is the device and port that a path of sysfs names.
func portOf(name string) string {
	m := sysfsPort().FindStringSubmatch(name)
	switch {
	case m == nil:
		return ""
	case m[2] == "":
		return m[1]
	}
	return m[1] + "/" + m[2]
}

func number64(s string) (uint64, bool) {
	s = strings.Trim(s, `"'`)
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil && strings.HasPrefix(s, "0x") {
		v, err = strconv.ParseUint(s[2:], 16, 64)
	}
	return v, err == nil
}

func (r *CounterReading) parse(text []byte) error {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[' && json.Valid(trimmed)) {
		return r.parseJSON(trimmed)
	}
	port, file := "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := headOfFile().FindStringSubmatch(line); m != nil {
			file = m[1]
			continue
		}
		if rest, ok := strings.CutPrefix(line, "link "); ok { // rdma statistic show
			link, counters, _ := strings.Cut(rest, " ")
			port, line = link, counters
		}
		if err := r.parseLine(line, port, file); err != nil {
			return err
		}
	}
	return nil
}

func (r *CounterReading) parseLine(line, port, file string) error {
	if v, ok := number64(line); ok {
		if file == "" {
			return nil // a value without a name
		}
		return r.add(portOf(file), path.Base(file), v)
	}
	words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
	values := 0
	for _, w := range words {
		if _, ok := number64(w); ok {
			values++
		}
	}
	if values > 1 && !strings.Contains(line, ":") { // name value name value
		var name []string
		for _, w := range words {
			v, ok := number64(w)
			if !ok {
				name = append(name, w)
				continue
			}
			if err := r.add(port, strings.Join(name, " "), v); err != nil {
				return err
			}
			name = name[:0]
		}
		return nil
	}
	m := onePair().FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	v, ok := number64(m[2])
	if !ok {
		return nil
	}
	name := strings.Trim(m[1], `"' `)
	if strings.Contains(name, "/") {
		if p := portOf(name); p != "" {
			port = p
		}
		name = path.Base(name)
	}
	return r.add(port, name, v)
}

// parseJSON takes every member that is a whole number, however deep; an ifname and port beside them name the device.
func (r *CounterReading) parseJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	return r.walkJSON("", v)
}

func (r *CounterReading) walkJSON(port string, v any) error {
	var problems []error
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			problems = append(problems, r.walkJSON(port, e))
		}
	case map[string]any:
		if name, ok := v["ifname"].(string); ok {
			port = name
			if n, ok := v["port"].(json.Number); ok {
				port += "/" + n.String()
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if n, ok := v[name].(json.Number); ok {
				if value, ok := number64(n.String()); ok && name != "ifindex" && name != "port" {
					problems = append(problems, r.add(port, name, value))
				}
				continue
			}
			problems = append(problems, r.walkJSON(port, v[name]))
		}
	}
	return errors.Join(problems...)
}

// port chooses the counters to compare: those of the only device there is, or of the only one whose counters moved.
func (r *CounterReading) port(after *CounterReading) (string, error) {
	var both, moved []string
	for _, p := range slices.Sorted(maps.Keys(r.Ports)) {
		if after.Ports[p] == nil {
			continue
		}
		both = append(both, p)
		for name, v := range r.Ports[p] {
			if a, ok := after.Ports[p][name]; ok && a != v && predictors()[name] != nil && predictors()[name].predict != nil {
				moved = append(moved, p)
				break
			}
		}
	}
	switch {
	case len(both) == 1:
		return both[0], nil
	case len(moved) == 1:
		return moved[0], nil
	case len(both) == 0:
		return "", fmt.Errorf("%s is of %s and %s of %s: two readings of one device are wanted", r.Source, devices(r), after.Source, devices(after))
	}
	return "", fmt.Errorf("%s has counters of several devices, %s: leave those of one", r.Source, strings.Join(both, ", "))
}

func devices(r *CounterReading) string {
	var names []string
	for _, p := range slices.Sorted(maps.Keys(r.Ports)) {
		if p == "" {
			p = "a device without a name"
		}
		names = append(names, p)
	}
	return strings.Join(names, ", ")
}
