package captures

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// Option codes (draft-ietf-opsawg-pcapng, sections 3.5, 4.1 to 4.3 and 4.6).
const (
	optEnd     = 0
	optComment = 1

	optHardware = 2 // shb_
	optOS       = 3
	optUserAppl = 4

	optName        = 2 // if_
	optDescription = 3
	optSpeed       = 8
	optTsresol     = 9
	optFilter      = 11
	optIfOS        = 12
	optFCSLen      = 13
	optTsoffset    = 14
	optIfHardware  = 15

	optEPBFlags     = 2 // epb_
	optEPBDropCount = 4

	optIfRecv       = 4 // isb_
	optIfDrop       = 5
	optFilterAccept = 6
	optOSDrop       = 7
	optUsrDeliv     = 8
)

// optionNames names options in messages.
var optionNames = map[uint32][]string{
	blockSHB: {2: "shb_hardware", 3: "shb_os", 4: "shb_userappl"},
	blockIDB: {
		2: "if_name", 3: "if_description", 4: "if_IPv4addr", 5: "if_IPv6addr", 6: "if_MACaddr", 7: "if_EUIaddr",
		8: "if_speed", 9: "if_tsresol", 10: "if_tzone", 11: "if_filter", 12: "if_os", 13: "if_fcslen", 14: "if_tsoffset",
		15: "if_hardware", 16: "if_txspeed", 17: "if_rxspeed",
	},
	blockEPB: {2: "epb_flags", 3: "epb_hash", 4: "epb_dropcount", 5: "epb_packetid", 6: "epb_queue", 7: "epb_verdict"},
	blockISB: {2: "isb_starttime", 3: "isb_endtime", 4: "isb_ifrecv", 5: "isb_ifdrop", 6: "isb_filteraccept", 7: "isb_osdrop", 8: "isb_usrdeliv"},
}

func optionName(block uint32, code uint16) string {
	if code == optComment {
		return "opt_comment"
	}
	if names := optionNames[block]; int(code) < len(names) && names[code] != "" {
		return names[code]
	}
	return "unknown"
}

// options walks the options of a block:
//
//	for it.next() { … it.code, it.value … }
//	if it.over { … an option is longer than its block … }
type options struct {
	rest  []byte
	big   bool
	code  uint16
	value []byte
	over  bool
}

func (o *options) order() binary.ByteOrder {
	if o.big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (o *options) u16(b []byte) uint16 {
	if o.big {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

func (o *options) next() bool {
	if len(o.rest) < 4 {
		return false
	}
	o.code = o.u16(o.rest)
	length := int(o.u16(o.rest[2:]))
	o.rest = o.rest[4:]
	if o.code == optEnd {
		o.rest = nil
		return false
	}
	if length > len(o.rest) {
		o.over = true
		o.value = o.rest[:0]
		return false
	}
	o.value = o.rest[:length]
	o.rest = o.rest[min((length+3)&^3, len(o.rest)):]
	return true
}

// tooLong is the error for an option that its block cannot hold.
func (p *pcapngParser) tooLong(c *cursor, block uint32, o *options) error {
	return c.resume("%w: %s: option %d (%s) is longer than its block", ErrMalformed, blockName(block), o.code, optionName(block, o.code))
}

// section reads a Section Header Block and forgets the section before. Its
// caller has looked at the trailing length.
func (p *pcapngParser) section(c *cursor, b []byte) error {
	p.first, p.ifs = len(p.all), p.ifs[:0]
	p.shb = shbInfo{}
	p.skip = true // unless all is well
	if len(b) < minSHB {
		return p.short(c, blockName(blockSHB), b, minSHB)
	}
	if major, minor := p.u16(b[12:]), p.u16(b[14:]); major != 1 {
		return c.resume("%w: pcapng section of version %d.%d, only 1.x is known; its packets are left out", ErrUnsupported, major, minor)
	}
	p.skip = false
	// The section's length (bytes 16 to 23) is not needed: blocks lead from one
	// to the next, and it is often -1 or wrong.
	o := options{rest: b[24 : len(b)-4], big: p.big}
	for o.next() {
		switch o.code {
		case optHardware:
			p.shb.hardware = text(o.value)
		case optOS:
			p.shb.os = text(o.value)
		case optUserAppl:
			p.shb.application = text(o.value)
		}
	}
	if o.over {
		return p.tooLong(c, blockSHB, &o)
	}
	return nil
}

// describe reads an Interface Description Block. One with a bad option still
// counts as an interface, so that the numbers of those behind it stay right.
func (p *pcapngParser) describe(c *cursor, b []byte) error {
	if len(b) < minIDB {
		return p.short(c, blockName(blockIDB), b, minIDB)
	}
	if len(p.all) >= maxInterfaces {
		return c.damage("%w: more than %d interfaces", ErrUnsupported, maxInterfaces)
	}
	link := dissect.LinkType(p.u16(b[8:]))
	snap := p.u32(b[12:])
	ifc := Interface{
		File: p.file, Hardware: p.shb.hardware, OS: p.shb.os, Application: p.shb.application,
		Link: link, SnapLen: int(min(snap, math.MaxInt32)), FCSLen: -1, Stats: noStats,
	}
	tsresol := byte(6) // microseconds where nothing is said
	var bad error
	note := func(code uint16, format string, args ...any) {
		if bad == nil {
			bad = c.resume("%w: %s: option %d (%s) %s", ErrMalformed, blockName(blockIDB), code, optionName(blockIDB, code), fmt.Sprintf(format, args...))
		}
	}
	o := options{rest: b[16 : len(b)-4], big: p.big}
	for o.next() {
		want := -1
		switch o.code {
		case optTsresol, optFCSLen:
			want = 1
		case optTsoffset, optSpeed:
			want = 8
		}
		if want >= 0 && len(o.value) != want {
			note(o.code, "has %d bytes instead of %d and is ignored", len(o.value), want)
			continue
		}
		switch o.code {
		case optName:
			ifc.Name = text(o.value)
		case optDescription:
			ifc.Description = text(o.value)
		case optSpeed:
			ifc.Speed = o.order().Uint64(o.value)
		case optTsresol:
			tsresol = o.value[0]
		case optFilter:
			if len(o.value) > 1 && o.value[0] == 0 { // 0: text; 1: BPF byte code
				ifc.Filter = text(o.value[1:])
			}
		case optIfOS:
			ifc.OS = text(o.value)
		case optFCSLen:
			ifc.FCSLen = int(o.value[0])
		case optTsoffset:
			ifc.TimeOffset = int64(o.order().Uint64(o.value))
		case optIfHardware:
			ifc.Hardware = text(o.value)
		}
	}
	if o.over && bad == nil {
		bad = p.tooLong(c, blockIDB, &o)
	}
	clk, ok := newClock(tsresol, ifc.TimeOffset)
	if !ok {
		note(optTsresol, "says that time counts in %s, which no clock does; its packets have no time", resolutionText(tsresol))
	}
	ifc.Resolution, ifc.UnitsPerSecond = resolutionText(tsresol), clk.units
	p.ifs = append(p.ifs, ngIface{clock: clk, snap: snap, link: link})
	p.all = append(p.all, ifc)
	return bad
}

// statistics reads an Interface Statistics Block; the last one counts.
func (p *pcapngParser) statistics(c *cursor, b []byte) error {
	if len(b) < minISB {
		return p.short(c, blockName(blockISB), b, minISB)
	}
	id := p.u32(b[8:])
	if uint64(id) >= uint64(len(p.ifs)) {
		return p.noInterface(c, blockName(blockISB), id)
	}
	st := &p.all[p.first+int(id)].Stats
	o := options{rest: b[20 : len(b)-4], big: p.big}
	for o.next() {
		if len(o.value) != 8 {
			continue
		}
		v := int64(min(o.order().Uint64(o.value), math.MaxInt64))
		switch o.code {
		case optIfRecv:
			st.Received = v
		case optIfDrop:
			st.Dropped = v
		case optFilterAccept:
			st.FilterAccepted = v
		case optOSDrop:
			st.OSDropped = v
		case optUsrDeliv:
			st.Delivered = v
		}
	}
	if o.over {
		return p.tooLong(c, blockISB, &o)
	}
	return nil
}

// packetOptions reads the options of an Enhanced Packet Block: most have none.
func (p *pcapngParser) packetOptions(c *cursor, area []byte, id int, f *Frame) error {
	o := options{rest: area, big: p.big}
	for o.next() {
		switch {
		case o.code == optEPBFlags && len(o.value) == 4:
			if d := Direction(p.u32(o.value) & 3); d <= Out { // 3 means nothing
				f.Direction = d
			}
		case o.code == optEPBDropCount && len(o.value) == 8:
			st := &p.all[p.first+id].Stats
			drops := int64(min(o.order().Uint64(o.value), math.MaxInt64))
			if st.PacketDropped += drops; st.PacketDropped < 0 {
				st.PacketDropped = math.MaxInt64
			}
		}
	}
	if o.over {
		return p.tooLong(c, blockEPB, &o)
	}
	return nil
}

// text is an option's string: UTF-8, not terminated, though some writers do.
func text(b []byte) string {
	return strings.ToValidUTF8(strings.TrimRight(string(b), "\x00"), "\ufffd")
}
