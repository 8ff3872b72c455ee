package flows

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// Exchange describes how a program's two sides tell each other their queue
// pairs over TCP: messages of one form that come one behind the other, all of
// them text or all of them binary. The i-th message of either side belong
// together, unless a message tells of both sides.
//
// Where there is no port, the connection's first bytes tell the exchange:
// Begins, which all messages have then.
type Exchange struct {
	Name     string
	Ports    []uint16 // TCP ports that the server listens on
	Messages []ExchangeMessage
}

// ExchangeMessage is the form of a message.
type ExchangeMessage struct {
	Client, Server bool // who sends it; neither: both do

	// Text: a message ends with End, and Pattern's groups are named as
	// ExchangeFields are. One that does not match tells nothing.
	Pattern *regexp.Regexp
	End     string
	Base    int // of numbers without 0x

	// Binary: Size bytes, of which the first are Begins. Without Begins one
	// message follows another from the connection's first byte on.
	Begins []byte
	Size   int
	Little bool // numbers have their lowest byte first
	Fields []ExchangePlace
}

// ExchangePlace is where a field is in a binary message.
type ExchangePlace struct {
	Field  string
	Offset int
	Size   int // bytes
}

// ExchangeField is a row of the table of what a message may tell. With "peer_"
// before its name it is of the side that gets the message.
type ExchangeField struct {
	Name     string
	Sizes    []int // in bytes that it may have in a binary message, the usual one first
	What     string
	set      func(x *socketText, mtu *int8, v uint64) bool // false: it cannot be
	required bool
}

// PeerField is what the names of fields of the other side begin with.
const PeerField = "peer_"

// ExchangeFields are the fields of messages.
var ExchangeFields = []ExchangeField{
	{"qpn", []int{4, 3}, "QP number", func(x *socketText, _ *int8, v uint64) bool { x.qpn = uint32(v); return v > 1 && v < 1<<24 }, true},
	{"psn", []int{4, 3}, "first PSN that the QP sends", func(x *socketText, _ *int8, v uint64) bool {
		x.psn, x.noPSN = dissect.PSN(v&(1<<24-1)), false // some programs draw 32 bits, of which the QP takes 24
		return v < 1<<32
	}, false},
	{"gid", []int{16, 4}, "GID, or IPv4 address; without it and lid, the QP is at the address that its TCP has", nil, false},
	{"lid", []int{2, 4}, "LID, on InfiniBand", func(x *socketText, _ *int8, v uint64) bool { x.lid = uint16(v); return v < 1<<16 }, false},
	{"rkey", []int{4, 8}, "R_Key of the memory that the side offers", func(x *socketText, _ *int8, v uint64) bool { x.rkey = uint32(v); return v < 1<<32 }, false},
	{"vaddr", []int{8, 4}, "virtual address of that memory", func(x *socketText, _ *int8, v uint64) bool { x.va = v; return true }, false},
	{"mtu", []int{1, 2, 4}, "path MTU: bytes, or the code 1 to 5", func(_ *socketText, mtu *int8, v uint64) bool {
		for code := int8(1); code <= 5; code++ {
			if v == uint64(code) || v == uint64(pathMTU(code)) {
				*mtu = code
				return true
			}
		}
		return false
	}, false},
}

// LookupExchangeField finds a field by its name, and whose it is.
func LookupExchangeField(name string) (f *ExchangeField, peer bool) {
	name, peer = strings.CutPrefix(name, PeerField)
	for i := range ExchangeFields {
		if ExchangeFields[i].Name == name {
			return &ExchangeFields[i], peer
		}
	}
	return nil, peer
}

func (x *Exchange) what() string { return x.Name + " messages" }

// begins reports whether a connection's first bytes are a message's.
func (x *Exchange) begins(b []byte) bool {
	for i := range x.Messages {
		if m := &x.Messages[i]; len(m.Begins) > 0 && bytes.HasPrefix(b, m.Begins) {
			return true
		}
	}
	return false
}

func (m *ExchangeMessage) sentBy(by role) bool {
	return by == anyRole || m.Client == m.Server || m.Client == (by == clientRole)
}

func (x *Exchange) next(b []byte, by role) (told socketTold, n int) {
	n = len(b) // nothing of it can be a message, where none is this side's
	for i := range x.Messages {
		m := &x.Messages[i]
		if !m.sentBy(by) {
			continue
		}
		var used int
		if m.Pattern != nil {
			told, used = m.nextText(b)
		} else {
			told, used = m.nextBinary(b)
		}
		switch {
		case told.hasOwn || told.hasPeer:
			return told, used
		case used < n: // what another message may yet be found in is not dealt with
			n = used
		}
	}
	return socketTold{}, n
}

// nextText takes a text up to its end.
func (m *ExchangeMessage) nextText(b []byte) (told socketTold, n int) {
	end := bytes.Index(b, []byte(m.End))
	if end < 0 {
		return told, 0
	}
	at := m.Pattern.FindSubmatchIndex(b[:end])
	n = end + len(m.End)
	if at == nil {
		return told, n
	}
	t := newTelling()
	for i, name := range m.Pattern.SubexpNames() {
		if name == "" || at[2*i] < 0 {
			continue
		}
		t.text(name, string(b[at[2*i]:at[2*i+1]]), m.Base)
	}
	return t.done(), n
}

// nextBinary takes a message, or what is before the next one.
func (m *ExchangeMessage) nextBinary(b []byte) (told socketTold, n int) {
	if len(m.Begins) > 0 {
		i := bytes.Index(b, m.Begins)
		if i < 0 { // but it may have begun
			return told, max(0, len(b)-len(m.Begins)+1)
		}
		if i > 0 {
			return told, i
		}
	}
	if m.Size <= 0 || len(b) < m.Size {
		return told, 0
	}
	t := newTelling()
	for i := range m.Fields {
		f := &m.Fields[i]
		if f.Offset < 0 || f.Size <= 0 || f.Offset+f.Size > m.Size {
			continue
		}
		t.bytes(f.Field, b[f.Offset:f.Offset+f.Size], m.Little)
	}
	return t.done(), m.Size
}

// telling is what a message tells while it is read, by side: its sender's first.
type telling struct {
	sides [2]socketText
	mtu   [2]int8
	has   [2]bool // a queue pair
	wrong [2]bool // something that cannot be
}

func newTelling() telling {
	x := socketText{form: textDescribed, noPSN: true}
	return telling{sides: [2]socketText{x, x}}
}

func side(peer bool) int {
	if peer {
		return 1
	}
	return 0
}

func (t *telling) number(f *ExchangeField, peer bool, v uint64) {
	i := side(peer)
	switch {
	case f.set == nil:
	case !f.set(&t.sides[i], &t.mtu[i], v):
		t.wrong[i] = true
	case f.required:
		t.has[i] = true
	}
}

// text takes a field as text.
func (t *telling) text(name, value string, base int) {
	f, peer := LookupExchangeField(name)
	if f == nil {
		return
	}
	if f.Name == "gid" {
		gid, ok := parseGID(value)
		t.sides[side(peer)].gid = gid
		t.wrong[side(peer)] = t.wrong[side(peer)] || !ok
		return
	}
	if hex, ok := strings.CutPrefix(strings.ToLower(value), "0x"); ok {
		value, base = hex, 16
	}
	v, err := strconv.ParseUint(value, base, 64)
	if err != nil {
		t.wrong[side(peer)] = true
		return
	}
	t.number(f, peer, v)
}

// bytes takes a field as bytes.
func (t *telling) bytes(name string, b []byte, little bool) {
	f, peer := LookupExchangeField(name)
	switch {
	case f == nil:
	case f.Name == "gid" && len(b) == 16:
		t.sides[side(peer)].gid = dissect.Addr{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
	case f.Name == "gid" && len(b) == 4:
		t.sides[side(peer)].gid = dissect.AddrFrom(netip.AddrFrom4([4]byte(b)))
	default:
		v := uint64(0)
		for i := range b {
			c := b[i]
			if little {
				c = b[len(b)-1-i]
			}
			v = v<<8 | uint64(c)
		}
		t.number(f, peer, v)
	}
}

// done is what the message told. A message with something that cannot be tells
// nothing of that side.
func (t *telling) done() socketTold {
	return socketTold{
		own: t.sides[0], peer: t.sides[1], ownMTU: t.mtu[0], peerMTU: t.mtu[1],
		hasOwn: t.has[0] && !t.wrong[0], hasPeer: t.has[1] && !t.wrong[1],
	}
}

// parseGID reads a GID: an IPv6 or IPv4 address, or 16 bytes in hexadecimal
// digits, with colons between all of them or without.
func parseGID(text string) (dissect.Addr, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return dissect.AddrFrom(a), true
	}
	digits := text
	if len(text) == 47 {
		digits = strings.ReplaceAll(text, ":", "")
	}
	if len(digits) != 32 {
		return dissect.Addr{}, false
	}
	hi, err1 := strconv.ParseUint(digits[:16], 16, 64)
	lo, err2 := strconv.ParseUint(digits[16:], 16, 64)
	return dissect.Addr{Hi: hi, Lo: lo}, err1 == nil && err2 == nil
}
