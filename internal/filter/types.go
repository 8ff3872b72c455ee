package filter

import (
	"regexp"

	"github.com/rocescope/rocescope/dissect"
)

// class is how values are held for comparison.
type class uint8

const (
	classNumber class = iota // unsigned: numbers, booleans, MAC and IPv4 addresses
	classTime                // signed nanoseconds, sign bit turned over
	classWord                // numbers that are shown as words only
	classAddr                // 128 bits
	classBytes
)

// function is what a call does with a field.
type function uint8

const (
	noFunction function = iota
	lenFunction
	countFunction
)

// operand is a side of a test that takes its value from the packet.
type operand struct {
	n      *node
	name   string // as typed
	sym    *symbol
	slices []sliceRange
	mask   uint64 // of a bitwise and; else all ones
	masked bool
	fn     function
	quant  op // opAny, opAll or opNone
}

func (o *operand) class() class {
	switch {
	case o.fn != noFunction:
		return classNumber
	case o.slices != nil || o.sym.whole:
		return classBytes
	}
	switch o.sym.kind {
	case dissect.Epoch, dissect.Interval:
		return classTime
	case dissect.Text:
		return classWord
	case dissect.IPv6Addr:
		return classAddr
	case dissect.Bytes, dissect.String:
		return classBytes
	}
	return classNumber
}

// byteWidth is the fixed number of bytes of the operand, 0 where it varies.
func (o *operand) byteWidth() (n int) {
	if o.slices == nil {
		if o.sym.whole {
			return 0
		}
		return o.sym.byteWidth()
	}
	for _, r := range o.slices {
		if r.n < 0 {
			return 0
		}
		n += r.n
	}
	return n
}

// kindNames is how kinds are called in errors.
var kindNames = [...]string{
	dissect.Dec: "a number", dissect.Hex: "a number", dissect.Bool: "a boolean", dissect.MAC: "a MAC address",
	dissect.IPv4Addr: "an IPv4 address", dissect.IPv6Addr: "an IPv6 address", dissect.Bytes: "bytes",
	dissect.Epoch: "a time", dissect.Interval: "a duration", dissect.Text: "a word", dissect.String: "text",
}

// what says what an operand holds, for errors.
func (o *operand) what() string {
	switch {
	case o.fn != noFunction:
		return "a number"
	case o.slices != nil || o.sym.whole:
		return "bytes"
	case int(o.sym.kind) < len(kindNames):
		return kindNames[o.sym.kind]
	}
	return "a value"
}

// A cond (one of the types below) is a checked condition, ready to be compiled. all asks of every
// occurrence of a field what else one occurrence suffices for; a packet
// without the field fails either.
type cond any

type (
	condNot struct{ x cond }
	condAnd struct{ kids []cond }
	condOr  struct{ kids []cond }
	condXor struct{ kids []cond }

	// condHas: the packet has the field (or a slice of it).
	condHas struct {
		sym    *symbol
		slices []sliceRange
	}
	// condNumber: the value, after the mask, is in the set.
	condNumber struct {
		sym  *symbol
		mask uint64
		flip uint64 // signBit for signed values
		set  spans
		all  bool
	}
	condAddr struct {
		sym *symbol
		set addrSpans
		all bool
	}
	condBytes struct {
		sym    *symbol
		slices []sliceRange
		test   byteTest
		all    bool
	}
	// condLen and condCount: the length, the number of occurrences is in the
	// set.
	condLen struct {
		sym    *symbol
		slices []sliceRange
		set    spans
		all    bool
	}
	condCount struct {
		sym *symbol
		set spans
	}
	// condFields compares two fields with each other.
	condFields struct {
		a, b *operand
		op   op
		all  bool
	}
)

// byteTest is what is asked of bytes.
type byteTest struct {
	op  op
	val []byte
	set *byteSet
	re  *regexp.Regexp
}
