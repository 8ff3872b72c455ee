package privacy

import (
	"encoding/binary"
	"strings"
	"sync"

	"github.com/rocescope/rocescope/dissect"
)

// room is where masked frames lie until the next batch.
type room struct {
	b  []byte
	at int
}

// take returns n zeros.
func (r *room) take(n int) []byte {
	if r.at+n > len(r.b) {
		r.b, r.at = make([]byte, max(n, 1<<20)), 0
	}
	out := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	clear(out)
	return out
}

// Reset says that nobody holds a frame of Frame any more.
func (m *Mask) Reset() { m.room.at = 0 }

// Frame masks a decoded packet, and returns the frame to show for it: headers with masks, zeros for everything that is no
// header: payload, private data of connection management, what lies behind the packet. A checksum or ICRC that was right is
// right again, for the masked bytes; a wrong one is wrong by as much; those of UDP and TCP are left out. The frame holds
// until Reset.
func (m *Mask) Frame(p *dissect.Packet, frame []byte) []byte {
	p.SetUpper(frame, dissect.UpperNone) // it is payload
	out := m.room.take(len(frame))
	for l := range layersOf(p) {
		keep(out, frame, p, l)
	}
	for l := range layersOf(p) {
		for _, f := range maskedFields()[l] {
			m.field(out, frame, p, f)
		}
	}
	m.checksums(out, frame, p)
	p.Src, p.Dst = m.Addr(p.Src), m.Addr(p.Dst)
	if p.Has(dissect.LayerRETH) || p.Has(dissect.LayerAtomicETH) {
		p.RKey = m.Key(p.RKey)
	}
	if p.Has(dissect.LayerIETH) {
		p.Imm = m.Key(p.Imm)
	}
	return out
}

// layersOf is all layers of a packet; a management datagram's parts come behind it.
func layersOf(p *dissect.Packet) func(func(dissect.Layer) bool) {
	return func(yield func(dissect.Layer) bool) {
		for set, l := p.Layers(), dissect.Layer(0); set>>l != 0; l++ {
			if set.Has(l) && !yield(l) {
				return
			}
		}
		for l := range p.Listed {
			if !yield(l) {
				return
			}
		}
	}
}

// variable is how many bytes of headers are shown that are longer than their fixed part: the fields of MAC control, the
// optional words of GRE.
var variable = map[dissect.Layer]int{dissect.LayerMACControl: 20, dissect.LayerGRE: 16}

// keep copies a header. Other headers never begin before the end of its fixed part, and payload that is copied with a
// variable one is so short that no address fits.
func keep(out, frame []byte, p *dissect.Packet, l dissect.Layer) {
	n := max(l.Size(), variable[l])
	if l == dissect.LayerMAD && !p.Has(dissect.LayerMAD) {
		return
	}
	at := p.Offset(l)
	if n == 0 || at < 0 || at >= len(frame) {
		return
	}
	end := min(at+n, len(frame))
	copy(out[at:end], frame[at:end])
}

// how a field is masked.
type how uint8

const (
	asAddr how = iota
	asMAC
	asLID
	asGUID
	asKey
	asNothing // zeros
)

type maskedField struct {
	*dissect.Field
	how how
}

// maskedFields are the rows of the field table that say who and with which key, by layer.
var maskedFields = sync.OnceValue(func() map[dissect.Layer][]maskedField {
	t := map[dissect.Layer][]maskedField{}
	all := dissect.Fields()
	for i := range all {
		f := &all[i]
		if h, ok := howOf(f); ok {
			t[f.Layer] = append(t[f.Layer], maskedField{f, h})
		}
	}
	return t
})

// howOf says whether and how a field is masked: by its kind, and where that is a mere number by the words that end its
// name.
func howOf(f *dissect.Field) (how, bool) {
	last := f.Name[strings.LastIndexByte(f.Name, '.')+1:]
	switch {
	case f.Kind == dissect.String && (f.Layer == dissect.LayerLLDP || last == "nodestring"), f.Name == "lldp.chassis.id",
		last == "m_key", last == "mkey", last == "sm_key", last == "smkey", last == "cc_key", f.Name == "infiniband.cc.key", last == "servicekey":
		return asNothing, true // names of hosts and switches, and keys of the fabric's managers
	case f.Get != nil || f.Width == 0 && !strings.HasPrefix(last, "private"):
		return 0, false
	case f.Kind == dissect.IPv4Addr, f.Kind == dissect.IPv6Addr, f.Width == 128 && strings.HasSuffix(last, "gid"):
		return asAddr, true
	case f.Kind == dissect.MAC:
		return asMAC, true
	case strings.HasSuffix(last, "lid"):
		return asLID, true
	case strings.HasSuffix(last, "guid"):
		return asGUID, true
	case last == "r_key", last == "ieth", strings.HasSuffix(last, "stag"):
		return asKey, true
	case last == "private", last == "ari", last == "addinfo":
		return asNothing, true
	}
	return 0, false
}

// Value masks a number of a field that has this name. What no number is the mask of, such as bytes of payload, a checksum
// over all of them or a long address, is 0.
func (m *Mask) Value(name string, v uint64) uint64 {
	known := dissect.LookupField(name)
	if len(known) == 0 || known[0].Layer == dissect.LayerICRC {
		return 0
	}
	h, ok := howOf(known[0])
	switch {
	case !ok && known[0].Kind == dissect.Bytes:
		return 0
	case !ok:
		return v
	case h == asMAC:
		return m.MAC(v)
	case h == asLID:
		return m.LID(v)
	case h == asGUID:
		return m.GUID(v)
	case h == asKey:
		return uint64(m.Key(uint32(v)))
	case h == asAddr && known[0].Width == 32:
		return uint64(m.ipv4(uint32(v)))
	}
	return 0
}

// field writes the mask of a field of frame into out.
func (m *Mask) field(out, frame []byte, p *dissect.Packet, f maskedField) {
	if f.how == asNothing && f.Layer == dissect.LayerCMREQ && p.Has(dissect.LayerIPCM) {
		return // the part of the private data that is known has a row of its own for the rest
	}
	raw, ok := f.Raw(p, frame)
	if !ok {
		return
	}
	bit, _ := f.Place(p, frame)
	at := bit >> 3
	to := out[at : at+len(raw)]
	switch f.how {
	case asNothing:
		clear(to)
	case asMAC:
		var b [8]byte
		copy(b[2:], raw)
		binary.BigEndian.PutUint64(b[:], m.MAC(binary.BigEndian.Uint64(b[:])))
		copy(to, b[2:])
	case asLID:
		binary.BigEndian.PutUint16(to, uint16(m.LID(uint64(binary.BigEndian.Uint16(raw)))))
	case asGUID:
		binary.BigEndian.PutUint64(to, m.GUID(binary.BigEndian.Uint64(raw)))
	case asKey:
		binary.BigEndian.PutUint32(to, m.Key(binary.BigEndian.Uint32(raw)))
	case asAddr:
		if len(raw) == 4 {
			binary.BigEndian.PutUint32(to, m.ipv4(binary.BigEndian.Uint32(raw)))
			return
		}
		a := m.Addr(dissect.Addr{Hi: binary.BigEndian.Uint64(raw), Lo: binary.BigEndian.Uint64(raw[8:])})
		binary.BigEndian.PutUint64(to, a.Hi)
		binary.BigEndian.PutUint64(to[8:], a.Lo)
	}
}

// checksums makes right what was right.
func (m *Mask) checksums(out, frame []byte, p *dissect.Packet) {
	for l := range layersOf(p) {
		at := p.Offset(l)
		switch l {
		case dissect.LayerIPv4, dissect.LayerOuterIPv4, dissect.LayerOuterIPv42:
			ipv4Checksum(out, frame, at)
		case dissect.LayerUDP, dissect.LayerOuterUDP, dissect.LayerOuterUDP2:
			clearAt(out, at+6)
		case dissect.LayerTCP:
			clearAt(out, at+16)
		}
	}
	at := p.Offset(dissect.LayerICRC)
	if !p.Has(dissect.LayerICRC) || at+dissect.ICRCSize > len(frame) {
		return
	}
	before, ok := m.crc.Compute(p, frame)
	after, _ := m.crc.Compute(p, out)
	if !ok {
		return
	}
	wrong := binary.LittleEndian.Uint32(frame[at:]) ^ before
	binary.LittleEndian.PutUint32(out[at:], after^wrong)
}

func ipv4Checksum(out, frame []byte, at int) {
	n := dissect.LayerIPv4.Size()
	if at+n > len(frame) {
		return
	}
	n = dissect.IPv4(frame[at:]).HeaderLen()
	if n < dissect.LayerIPv4.Size() || at+n > len(frame) {
		return
	}
	was := dissect.IPv4(append([]byte(nil), frame[at:at+n]...))
	was.UpdateChecksum()
	if was.Checksum() == dissect.IPv4(frame[at:]).Checksum() {
		dissect.IPv4(out[at : at+n]).UpdateChecksum()
	}
}

func clearAt(out []byte, at int) {
	if at+2 <= len(out) {
		clear(out[at : at+2])
	}
}
