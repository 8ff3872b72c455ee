package filter

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// Column prints a field of a packet: what `-e NAME` asks for.
type Column struct {
	sym   *symbol
	shown []dissect.Field // how the numbers of tracked rows are written
}

// LookupColumn finds a field by its name, with or without "infiniband." in
// front. The error, if any, is an *Error.
func LookupColumn(name string) (Column, error) {
	s := lookup(name)
	if s == nil {
		return Column{}, &Error{
			End: len(name), Source: name,
			Msg: "unknown field " + quote(name), Hint: suggestField(name),
		}
	}
	c := Column{sym: s}
	for _, r := range s.rows {
		if r.g != nil {
			c.shown = append(c.shown, dissect.Field{Kind: r.g.Kind, Values: r.g.Values})
		}
	}
	return c, nil
}

// Name is the field's name, with "infiniband." in front where it was left out.
func (c Column) Name() string { return c.sym.name }

// Kind is how values are shown. For a protocol or header it is Bytes.
func (c Column) Kind() dissect.Kind { return c.sym.kind }

// Needs says what Append has to be given.
func (c Column) Needs() Need {
	return c.sym.need()
}

// NeedsICRC reports whether what is printed depends on the ICRC having been
// checked.
func (c Column) NeedsICRC() bool {
	return c.sym.need() >= NeedFlow || c.sym.name == "infiniband.invariant.crc.status"
}

// Append appends the field's first value as `tshark -T fields` prints it. ok
// is false, and dst unchanged, where the packet does not have the field. m and
// o may be nil unless Needs says otherwise. Of a protocol or header it appends
// the name.
func (c Column) Append(dst []byte, p *dissect.Packet, frame []byte, m *flows.Mark, o *flows.Outcome) (out []byte, ok bool) {
	for i := range c.sym.rows {
		r := &c.sym.rows[i]
		switch {
		case r.f != nil:
			if out, ok = r.f.AppendText(dst, p, frame); ok {
				return out, true
			}
		case r.g != nil:
			if m == nil {
				continue
			}
			if v, ok := r.g.Get(m, o); ok {
				return c.shown[i].AppendUint(dst, v), true
			}
		case r.has(p):
			if r.layer == wholeTransport {
				return append(dst, "InfiniBand"...), true
			}
			return append(dst, r.layer.String()...), true
		}
	}
	return dst, false
}
