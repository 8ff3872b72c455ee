package dissect

// MAC control opcodes (IEEE 802.3 annex 31B and 31D).
const (
	MACControlPause = 0x0001 // stops the whole link
	MACControlPFC   = 0x0101 // stops single priorities (802.1Qbb)
)

// MACControl is a MAC control frame behind its EtherType: opcode and
// parameters.
type MACControl []byte

// Opcode returns MACControlPause, MACControlPFC or another.
func (h MACControl) Opcode() uint16 { return be16(h) }

// Quanta returns the pause time of a priority in units of 512 bit times: of a
// PFC frame where its enable vector names the priority, of a pause frame for
// all. ok is false where the frame does not speak of the priority. 0 means go
// on (XON).
func (h MACControl) Quanta(priority int) (quanta uint16, ok bool) {
	switch {
	case h.Opcode() == MACControlPause && len(h) >= 4:
		return be16(h[2:]), true
	case h.Opcode() == MACControlPFC && len(h) >= 20 && be16(h[2:])>>priority&1 != 0:
		return be16(h[4+2*priority:]), true
	}
	return 0, false
}

// MACControl returns the view of a MAC control frame, nil for others; it may
// be shorter than its opcode needs.
func (p *Packet) MACControl(frame []byte) MACControl {
	if !p.Has(LayerMACControl) {
		return nil
	}
	return frame[p.off[LayerMACControl]:]
}

func (p *Packet) macControl(b []byte, off int) {
	if !p.has(b, LayerMACControl, off, 2) {
		return
	}
	h := MACControl(b[off:])
	switch h.Opcode() {
	case MACControlPause:
		p.Proto = ProtoPause
		if len(h) < 4 {
			p.pauseShort(b, off)
		}
	case MACControlPFC:
		p.Proto = ProtoPause
		switch {
		case len(h) < 20:
			p.pauseShort(b, off)
		case h[2] != 0: // the vector's high byte is reserved
			p.note(ProblemPauseFrame, off+2)
		}
	}
}

func (p *Packet) pauseShort(b []byte, off int) {
	if len(b) < int(p.WireLen) {
		p.note(ProblemCut, off)
		return
	}
	p.note(ProblemPauseFrame, off)
}

var macControlFields = append([]Field{
	{Name: "macc.opcode", Text: "Opcode", Layer: LayerMACControl, Bit: 0, Width: 16, Kind: Hex, Values: macControlName},
	{Name: "macc.pause_time", Text: "Pause time in quanta", Layer: LayerMACControl, Kind: Dec, Get: pauseTime},
	{Name: "macc.cbfc.enbv", Text: "Priorities", Layer: LayerMACControl, Kind: Hex, Digits: 4, Get: pfcVector},
}, pfcRows()...)

func pfcRows() (rows []Field) {
	for i := range 8 {
		rows = append(rows, Field{
			Name: "macc.cbfc.pause_time.c" + decimal(uint64(i)), Text: "Pause time of priority " + decimal(uint64(i)),
			Layer: LayerMACControl, Kind: Dec, Get: func(p *Packet, frame []byte) (uint64, bool) {
				h := p.MACControl(frame)
				if len(h) < 20 || h.Opcode() != MACControlPFC {
					return 0, false
				}
				return uint64(be16(h[4+2*i:])), true
			},
		})
	}
	return rows
}

func pauseTime(p *Packet, frame []byte) (uint64, bool) {
	h := p.MACControl(frame)
	if len(h) < 4 || h.Opcode() != MACControlPause {
		return 0, false
	}
	return uint64(be16(h[2:])), true
}

func pfcVector(p *Packet, frame []byte) (uint64, bool) {
	h := p.MACControl(frame)
	if len(h) < 4 || h.Opcode() != MACControlPFC {
		return 0, false
	}
	return uint64(be16(h[2:])), true
}

func macControlName(v uint64) string {
	switch v {
	case MACControlPause:
		return "pause"
	case MACControlPFC:
		return "priority flow control"
	}
	return ""
}
