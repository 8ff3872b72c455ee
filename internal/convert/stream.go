package convert

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// Signals are the names under which Stream.Names may say where a signal lies.
var Signals = []string{"tdata", "tkeep", "tlast", "tvalid", "tready", "clk"}

const (
	sigData = iota
	sigKeep
	sigLast
	sigValid
	sigReady
	sigClock
	numSignals
)

// clockNames are what clocks are called where nothing is said.
var clockNames = []string{"aclk", "clk", "clock"}

// maxWidth is the widest tdata in bytes: that of an 800 Gbit/s core, eight times.
const maxWidth = 1024

// Stream describes an AXI-Stream.
type Stream struct {
	// Names are the signals' names by those in Signals. Where one is missing, the
	// signal is the only one whose name ends in it.
	Names map[string]string
	// Bus is what the names of all signals contain: of several streams, the one
	// that is meant.
	Bus string
	// MSBFirst says that the first byte on the wire is the most significant of
	// tdata; in AXI-Stream it is the least.
	MSBFirst bool
	// Period is a clock cycle in femtoseconds; 0 where the input has times.
	Period uint64
	// Time is the column that has the time (CSV only); "" is that named time.
	Time string
	// Link is what the frames begin with.
	Link dissect.LinkType
	// MaxFrame bounds a frame; 0 means 65536 bytes.
	MaxFrame int
}

// Frame is one frame of a stream.
type Frame struct {
	captures.Frame
	// First and Last are the clock cycles, from 0, of the first and last beat.
	First, Last uint64
}

// LineError says what is wrong with a line of the input.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// resolve finds the signals among the names of an input: at gives for each
// signal the index of its name, -1 where it has none.
func (o *Stream) resolve(names []string) (at [numSignals]int, err error) {
	for s, signal := range Signals {
		endings := []string{signal}
		if s == sigClock {
			endings = clockNames
		}
		at[s], err = o.find(names, signal, endings)
		if err != nil {
			return at, err
		}
	}
	for _, s := range []int{sigData, sigLast} {
		if at[s] < 0 {
			return at, fmt.Errorf("no signal is named %s; name it with --signal %[1]s=NAME (there are %s)", Signals[s], list(names))
		}
	}
	return at, nil
}

func (o *Stream) find(names []string, signal string, endings []string) (int, error) {
	if want := o.Names[signal]; want != "" {
		at := slices.IndexFunc(names, func(n string) bool {
			return n == want || base(n) == base(want) && strings.HasSuffix(plain(n), plain(want))
		})
		if at < 0 {
			return -1, fmt.Errorf("no signal is named %q, which is to be %s (there are %s)", want, signal, list(names))
		}
		return at, nil
	}
	for _, ending := range endings {
		var found []int
		for i, n := range names {
			inBus := strings.Contains(n, o.Bus) || signal == "clk" // one clock serves all
			if inBus && strings.HasSuffix(strings.ToLower(base(n)), ending) {
				found = append(found, i)
			}
		}
		switch {
		case len(found) == 0:
			continue
		case len(found) > 1 && signal != "clk":
			return -1, fmt.Errorf("several signals could be %s: %s and %s; choose with --bus or --signal", signal, names[found[0]], names[found[1]])
		}
		return found[0], nil
	}
	return -1, nil
}

// plain is a name without the range of its bits: "tdata[63:0]" is tdata.
func plain(name string) string {
	name = strings.TrimSpace(name)
	if i := strings.LastIndexByte(name, '['); i > 0 && strings.HasSuffix(name, "]") {
		name = strings.TrimSpace(name[:i])
	}
	return name
}

// base is the last part of a hierarchical name.
func base(name string) string {
	name = plain(name)
	return name[strings.LastIndexAny(name, "/.")+1:]
}

// list is some of the names, for errors.
func list(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " …"
	}
	return strings.Join(names, ", ")
}

// value is a signal's bits, least significant byte first; unknown has those
// that are neither 0 nor 1.
type value struct {
	bits, unknown []byte
}

// resize makes room for a number of bits, all 0.
func (v *value) resize(width int) {
	n := (width + 7) / 8
	v.bits, v.unknown = slices.Grow(v.bits[:0], n)[:n], slices.Grow(v.unknown[:0], n)[:n]
	clear(v.bits)
	clear(v.unknown)
}

// high reports whether the value is 1.
func (v *value) high() bool { return len(v.bits) > 0 && v.bits[0]&1 == 1 && v.unknown[0]&1 == 0 }

// copyFrom makes v the same as w.
func (v *value) copyFrom(w *value) {
	v.bits, v.unknown = append(v.bits[:0], w.bits...), append(v.unknown[:0], w.unknown...)
}

// assembler puts beats together to frames.
type assembler struct {
	o       *Stream
	present [numSignals]bool
	emit    func(*Frame) error
	frame   Frame
	open    bool
	opened  int // line of the first beat
}

// beat takes the signals of a clock cycle, whose time is in nanoseconds.
func (a *assembler) beat(v *[numSignals]value, cycle uint64, time int64, line int) error {
	if a.present[sigValid] && !v[sigValid].high() || a.present[sigReady] && !v[sigReady].high() {
		return nil
	}
	if !a.open {
		a.open, a.opened = true, line
		a.frame.Time, a.frame.First = time, cycle
		a.frame.Data = a.frame.Data[:0]
	}
	a.frame.Last = cycle
	data, keep := &v[sigData], &v[sigKeep]
	n := len(data.bits)
	for i := range n {
		at := i
		if a.o.MSBFirst {
			at = n - 1 - i
		}
		if a.present[sigKeep] {
			if at/8 >= len(keep.bits) || keep.bits[at/8]>>(at%8)&1 == 0 {
				continue
			}
			if keep.unknown[at/8]>>(at%8)&1 != 0 {
				return &LineError{line, fmt.Errorf("tkeep is undefined in a beat that is taken")}
			}
		}
		if data.unknown[at] != 0 {
			return &LineError{line, fmt.Errorf("byte %d of tdata is undefined in a beat that is taken; if it is not part of the frame, tkeep has to say so", at)}
		}
		a.frame.Data = append(a.frame.Data, data.bits[at])
	}
	most := a.o.MaxFrame
	if most == 0 {
		most = 64 << 10
	}
	if len(a.frame.Data) > most {
		return &LineError{line, fmt.Errorf("the frame that begins in line %d has more than %d bytes and still no tlast", a.opened, most)}
	}
	if !v[sigLast].high() {
		return nil
	}
	a.open = false
	if len(a.frame.Data) == 0 {
		return nil
	}
	a.frame.WireLen, a.frame.HasTime, a.frame.Link = len(a.frame.Data), true, a.o.Link
	return a.emit(&a.frame)
}

// close says whether the input ended within a frame.
func (a *assembler) close(line int) error {
	if a.open {
		return &LineError{line, fmt.Errorf("the input ends within the frame that begins in line %d; the frames before it are written", a.opened)}
	}
	return nil
}

// nanoseconds is n units of so many femtoseconds, rounded down.
func nanoseconds(n, femtoseconds uint64) (ns int64, ok bool) {
	hi, lo := bits.Mul64(n, femtoseconds)
	if hi >= 1e6 {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, 1e6)
	return int64(q), q < 1<<63
}
