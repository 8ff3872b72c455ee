package convert

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

// maxVars is how many signals of a dump may have names of interest.
const maxVars = 4096

// vcdVar is a declared signal.
type vcdVar struct {
	id    string
	width int
}

// vcd reads a value change dump (IEEE 1364-2005, clause 18).
type vcd struct {
	lines
	o      *Stream
	words  [][]byte
	scopes []string
	unit   uint64 // femtoseconds
	names  []string
	vars   []vcdVar
	byID   map[string]uint16 // the signals that an identifier stands for, a bit each
	width  [numSignals]int
	now    [numSignals]value // as of the current time
	was    [numSignals]value // before it, which is what a rising edge takes
}

// VCD reads a simulator's value change dump. A beat is what the signals were
// before a rising edge of the clock. It calls emit for each frame; the frame is
// valid until emit returns.
func VCD(r io.Reader, o Stream, emit func(*Frame) error) error {
	d := &vcd{lines: *newLines(r), o: &o}
	if err := d.header(); err != nil {
		return err
	}
	at, err := o.resolve(d.names)
	if err != nil {
		return &LineError{d.line, err}
	}
	if at[sigClock] < 0 {
		return d.errorf("no signal is the clock; name it with --signal clk=NAME (there are %s)", list(d.names))
	}
	a := assembler{o: &o, emit: emit}
	d.byID = map[string]uint16{}
	for s, i := range at {
		if i < 0 {
			continue
		}
		v := d.vars[i]
		if v.width > maxWidth*8 {
			return d.errorf("%s has %d bits, more than the %d that are read", d.names[i], v.width, maxWidth*8)
		}
		a.present[s], d.width[s] = true, v.width
		d.byID[v.id] |= 1 << s
		d.now[s].resize(v.width)
		for b := range d.now[s].unknown {
			d.now[s].unknown[b] = 0xFF
		}
		d.was[s].copyFrom(&d.now[s])
	}
	return d.changes(&a)
}

// word is the next word of the dump.
func (d *vcd) word() ([]byte, error) {
	for len(d.words) == 0 {
		b, err := d.next()
		if err != nil {
			return nil, err
		}
		d.words = bytes.Fields(b)
	}
	w := d.words[0]
	d.words = d.words[1:]
	return w, nil
}

// section reads the words up to $end; it keeps the first eight.
func (d *vcd) section() (words []string, err error) {
	for {
		w, err := d.word()
		if err != nil {
			return nil, d.early(err)
		}
		if string(w) == "$end" {
			return words, nil
		}
		if len(words) < 8 {
			words = append(words, string(w))
		}
	}
}

func (d *vcd) early(err error) error {
	if errors.Is(err, io.EOF) {
		return d.errorf("the dump ends within its declarations")
	}
	return err
}

// header reads the declarations.
func (d *vcd) header() error {
	for {
		w, err := d.word()
		if err != nil {
			return d.early(err)
		}
		if w[0] != '$' {
			return d.errorf("%q is no declaration; a value change dump begins with some, up to $enddefinitions", w)
		}
		command := string(w)
		words, err := d.section()
		if err != nil {
			return err
		}
		switch command {
		case "$timescale":
			if err := d.timescale(strings.Join(words, "")); err != nil {
				return err
			}
		case "$scope":
			if len(words) < 2 {
				return d.errorf("a $scope has a kind and a name")
			}
			if len(d.scopes) >= 256 {
				return d.errorf("scopes are nested more than 256 deep")
			}
			d.scopes = append(d.scopes, words[1])
		case "$upscope":
			if len(d.scopes) == 0 {
				return d.errorf("$upscope without a $scope")
			}
			d.scopes = d.scopes[:len(d.scopes)-1]
		case "$var":
			if err := d.declare(words); err != nil {
				return err
			}
		case "$enddefinitions":
			if d.unit == 0 {
				return d.errorf("the dump has no $timescale")
			}
			return nil
		}
	}
}

func (d *vcd) timescale(s string) error {
	digits := strings.TrimRight(s, "munpfs")
	n, err := strconv.ParseUint(digits, 10, 16)
	exp, ok := unitExponents[s[len(digits):]]
	if err != nil || !ok || n != 1 && n != 10 && n != 100 {
		return d.errorf("%q is no timescale; it is 1, 10 or 100 with s, ms, us, ns, ps or fs", s)
	}
	for d.unit = n; exp > -15; exp-- {
		d.unit *= 10
	}
	return nil
}

// declare takes a $var if its name may matter.
func (d *vcd) declare(words []string) error {
	if len(words) < 4 {
		return d.errorf("a $var has a type, a width, an identifier and a name")
	}
	width, err := strconv.Atoi(words[1])
	if err != nil || width < 1 {
		return d.errorf("%q is no width of a $var", words[1])
	}
	name := strings.Join(append(d.scopes[:len(d.scopes):len(d.scopes)], words[3]), ".")
	if !d.matters(name) {
		return nil
	}
	if len(d.vars) == maxVars {
		return d.errorf("more than %d signals could be meant; name the stream with --bus", maxVars)
	}
	d.names, d.vars = append(d.names, name), append(d.vars, vcdVar{words[2], width})
	return nil
}

// matters reports whether a signal can be one of the stream's.
func (d *vcd) matters(name string) bool {
	for s, signal := range Signals {
		if want := d.o.Names[signal]; want != "" {
			if base(want) == base(name) {
				return true
			}
			continue
		}
		if s != sigClock && strings.Contains(name, d.o.Bus) && strings.HasSuffix(strings.ToLower(base(name)), signal) {
			return true
		}
	}
	if d.o.Names["clk"] == "" {
		for _, ending := range clockNames {
			if strings.HasSuffix(strings.ToLower(base(name)), ending) {
				return true
			}
		}
	}
	return false
}

// changes reads the value changes.
func (d *vcd) changes(a *assembler) error {
	now, cycle, rose := uint64(0), uint64(0), false
	settle := func() error { // the changes of a point in time are complete
		if rose {
			ns, ok := nanoseconds(now, d.unit)
			if !ok {
				return d.errorf("its time is beyond what captures can hold")
			}
			if d.o.Period > 0 {
				ns, _ = nanoseconds(cycle, d.o.Period)
			}
			if err := a.beat(&d.was, cycle, ns, d.line); err != nil {
				return err
			}
			cycle++
			rose = false
		}
		for s := range d.now {
			d.was[s].copyFrom(&d.now[s])
		}
		return nil
	}
	for {
		w, err := d.word()
		if errors.Is(err, io.EOF) {
			if err := settle(); err != nil {
				return err
			}
			return a.close(d.line)
		}
		if err != nil {
			return err
		}
		switch w[0] {
		case '#':
			t, err := strconv.ParseUint(string(w[1:]), 10, 64)
			if err != nil {
				return d.errorf("%q is no time", w)
			}
			if t < now {
				return d.errorf("time runs backwards, from %d to %d", now, t)
			}
			if err := settle(); err != nil {
				return err
			}
			now = t
		case '$':
			if string(w) == "$comment" {
				if _, err := d.section(); err != nil {
					return err
				}
			} // of $dumpvars … $end the values between count
		case 'b', 'B':
			id, err := d.word()
			if err != nil {
				return d.errorf("the dump ends within a value")
			}
			if err := d.set(string(id), w[1:]); err != nil {
				return err
			}
		case 'r', 'R', 's', 'S':
			if _, err := d.word(); err != nil {
				return d.errorf("the dump ends within a value")
			}
		case '0', '1', 'x', 'X', 'z', 'Z', 'u', 'U', 'w', 'W', 'l', 'L', 'h', 'H', '-':
			if len(w) < 2 {
				return d.errorf("%q names no signal", w)
			}
			if err := d.set(string(w[1:]), w[:1]); err != nil {
				return err
			}
		default:
			return d.errorf("%q is no value change", w)
		}
		if !rose && d.now[sigClock].high() && !d.was[sigClock].high() {
			rose = d.was[sigClock].unknown[0]&1 == 0 // from x to 1 is no edge
		}
	}
}

// set gives a signal its new value: fewer digits than it has bits are filled up
// with 0, or with x or z where they begin with it.
func (d *vcd) set(id string, digits []byte) error {
	signals := d.byID[id]
	for s := range numSignals {
		if signals>>s&1 == 0 {
			continue
		}
		v := &d.now[s]
		if len(digits) == 0 || len(digits) > d.width[s] {
			return d.errorf("a value of %d bits for %s, which has %d", len(digits), Signals[s], d.width[s])
		}
		v.resize(d.width[s])
		for bit := range d.width[s] {
			c := byte('0')
			if bit < len(digits) {
				c = digits[len(digits)-1-bit]
			} else if c = digits[0]; c == '1' {
				c = '0'
			}
			switch c {
			case '0', 'l', 'L':
			case '1', 'h', 'H':
				v.bits[bit/8] |= 1 << (bit % 8)
			case 'x', 'X', 'z', 'Z', 'u', 'U', 'w', 'W', '-':
				v.unknown[bit/8] |= 1 << (bit % 8)
			default:
				return d.errorf("%q is no bit", c)
			}
		}
	}
	return nil
}
