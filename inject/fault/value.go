package fault

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// extra are fields that can be set, and that filters have no name for.
var extra = []dissect.Field{
	{Name: "ip.ihl", Text: "IPv4 header length in words", Layer: dissect.LayerIPv4, Bit: 4, Width: 4, Kind: dissect.Dec},
}

// assignment is a field and what becomes of it.
type assignment struct {
	rows  []*dissect.Field // the field; which row, the packet's headers decide
	how   assignHow
	value uint64
	raw   []byte // of addresses
}

type assignHow uint8

const (
	assignValue assignHow = iota
	assignSum
	assignXor
	assignRandom
)

// parseAssignment reads FIELD=VALUE.
func parseAssignment(w word) (s assignment, err error) {
	if s.rows, err = findField(w.key); err != nil {
		return s, err
	}
	f := s.rows[0]
	text := w.value
	switch {
	case text == "right" && strings.HasSuffix(f.Name, ".checksum"): // something other than 0, which sealing then puts right
		s.value = 1
		return s, nil
	case text == "random":
		s.how = assignRandom
		return s, nil
	case f.Kind == dissect.MAC, f.Kind == dissect.IPv4Addr, f.Kind == dissect.IPv6Addr:
		if s.raw = parseAddress(f.Kind, text); s.raw == nil {
			return s, fmt.Errorf("%s=%s cannot be; it is an address, or random", w.key, text)
		}
		return s, nil
	case strings.HasPrefix(text, "+"), strings.HasPrefix(text, "-"):
		v, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return s, fmt.Errorf("%s=%s cannot be; %s and a number is added to what is there", w.key, text, text[:1])
		}
		s.how, s.value = assignSum, uint64(v)
		return s, nil
	case strings.HasPrefix(text, "^"):
		s.how, text = assignXor, text[1:]
	}
	v, ok := parseValue(f, text)
	if !ok {
		return s, fmt.Errorf("%s=%s cannot be; it is a number, a name that filters know, +N, -N, ^BITS or random", w.key, w.value)
	}
	if f.Width < 64 && v>>f.Width != 0 {
		return s, fmt.Errorf("%s=%s cannot be; the field has %d bits", w.key, w.value, f.Width)
	}
	s.value = v
	return s, nil
}

// findField finds what can be set under a name.
func findField(name string) ([]*dissect.Field, error) {
	for i := range extra {
		if extra[i].Name == name {
			return []*dissect.Field{&extra[i]}, nil
		}
	}
	rows := dissect.LookupField(name)
	if rows == nil {
		rows = dissect.LookupField("infiniband." + name)
	}
	if rows == nil {
		var known []string
		for _, f := range dissect.Fields() {
			known = append(known, strings.TrimPrefix(f.Name, "infiniband."))
		}
		return nil, fmt.Errorf("there is no field %s%s", name, near(strings.TrimPrefix(name, "infiniband."), known))
	}
	if f := rows[0]; f.Get != nil || f.Width == 0 || f.Width > 64 && f.Kind != dissect.IPv6Addr || f.Kind == dissect.Text || f.Layer == dissect.LayerFrame {
		return nil, fmt.Errorf("%s cannot be set: it is not a number or an address in the packet's bytes", name)
	}
	return rows, nil
}

func parseAddress(k dissect.Kind, text string) []byte {
	if k == dissect.MAC {
		if a, err := net.ParseMAC(text); err == nil && len(a) == 6 {
			return a
		}
		return nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Is4() != (k == dissect.IPv4Addr) {
		return nil
	}
	return a.AsSlice()
}

// parseValue reads a number, or a name of one of the field's values.
func parseValue(f *dissect.Field, text string) (uint64, bool) {
	if v, err := strconv.ParseUint(text, 0, 64); err == nil {
		return v, true
	}
	if f.Name == "infiniband.bth.opcode" {
		o, ok := parseOpcode(text)
		return uint64(o), ok
	}
	if f.Values != nil && f.Width <= 16 {
		for v := range uint64(1) << f.Width {
			if plain(f.Values(v)) == plain(text) {
				return v, true
			}
		}
	}
	return 0, false
}

func plain(s string) string {
	return strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(s))
}

func parseOpcode(text string) (dissect.Opcode, bool) {
	if v, err := strconv.ParseUint(text, 0, 8); err == nil {
		return dissect.Opcode(v), true
	}
	for _, o := range dissect.Opcodes() {
		if o.Defined() && strings.EqualFold(o.Token, text) {
			return o.Code, true
		}
	}
	return 0, false
}

// put writes the value into a frame that p was decoded from.
func (s *assignment) put(p *dissect.Packet, frame []byte, random func() uint64) bool {
	for _, f := range s.rows {
		if !p.Has(f.Layer) {
			continue
		}
		if f.Kind == dissect.MAC || f.Kind == dissect.IPv4Addr || f.Kind == dissect.IPv6Addr {
			raw, ok := f.Raw(p, frame)
			switch {
			case !ok:
				return false
			case s.how == assignRandom:
				var b [8]byte
				for i := 0; i < len(raw); i += len(b) {
					binary.BigEndian.PutUint64(b[:], random())
					copy(raw[i:], b[:])
				}
			case len(raw) != len(s.raw):
				return false
			default:
				copy(raw, s.raw)
			}
			return true
		}
		was, ok := f.Uint(p, frame)
		if !ok {
			continue
		}
		v := s.value
		switch s.how {
		case assignSum:
			v += was
		case assignXor:
			v ^= was
		case assignRandom:
			v = random()
		}
		return f.Put(p, frame, v) // as many bits as it has
	}
	return false
}
