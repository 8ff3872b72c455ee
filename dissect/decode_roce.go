package dissect

// bth decodes the transport headers at off, with the packet ending at p.end.
func (p *Packet) bth(b []byte, off int) {
	p.layers &^= 1 << LayerPayload
	p.payload, p.payloadLen = uint32(off), 0
	if off+12 > len(b) || off+12 > int(p.end) {
		p.problems |= problemHeadersCut
		p.short(b, off)
		return
	}
	h := b[off : off+12 : off+12]
	op := &opTable[h[0]]
	p.layers |= 1<<LayerBTH | op.Layers
	p.off[LayerBTH] = uint16(off)
	p.setBTH(h)
	if h[1]&0xF != 0 {
		p.note(ProblemTVer, off+1)
	}
	if op.Family == Reserved {
		p.note(ProblemOpcode, off)
	}
	pay, end := off+op.Len, int(p.end)
	p.payload = uint32(min(pay, end))
	fragmented := p.fragmented() // then the ICRC is in the last fragment
	if pay > end {
		p.problems |= problemHeadersCut
		p.layers &^= op.Layers
		if !fragmented {
			p.note(ProblemNoICRC, end)
		}
		return
	}
	if pay > len(b) {
		p.problems |= problemHeadersCut
		p.short(b, off)
	}
	p.extensions(b, op, off)
	switch {
	case fragmented:
		p.payloadLen = uint32(end - pay)
	case pay+ICRCSize > end:
		p.note(ProblemNoICRC, pay)
	default:
		p.settle(b, op, pay, int(h[1]>>4&3))
	}
}

// setBTH copies the values of a BTH.
func (p *Packet) setBTH(h BTH) {
	_ = h[11]
	p.Opcode = Opcode(h[0])
	p.BTHFlags = uint16(h[1])<<8 | uint16(h[4])
	p.PKey = be16(h[2:])
	p.DestQP = be32(h[4:]) & serialMask
	p.AckReq = h[8]&0x80 != 0
	p.PSN = PSN(be32(h[8:]) & serialMask)
}

func (p *Packet) setRETH(h RETH) {
	_ = h[15]
	p.VA, p.RKey, p.DMALen = be64(h), be32(h[8:]), be32(h[12:])
}

func (p *Packet) setAETH(h AETH) {
	v := be32(h)
	p.Syndrome, p.MSN = Syndrome(v>>24), MSN(v&serialMask)
}

func (p *Packet) setDETH(h DETH) {
	_ = h[7]
	p.QKey, p.SrcQP = be32(h), be32(h[4:])&serialMask
}

func (p *Packet) setAtomicETH(h AtomicETH) {
	_ = h[27]
	p.VA, p.RKey, p.Swap, p.Compare = be64(h), be32(h[8:]), be64(h[12:]), be64(h[20:])
}

// extensions copies the values of those extension headers that are whole; it
// takes the others off the packet's layers.
func (p *Packet) extensions(b []byte, op *OpInfo, bth int) {
	for _, l := range op.Headers {
		o := bth + int(op.offset[l-numBaseLayers])
		if o+layerInfo[l].size > len(b) {
			p.layers &^= 1 << l
			continue
		}
		h := b[o:]
		switch l {
		case LayerRETH:
			p.setRETH(h)
		case LayerAETH:
			p.setAETH(h)
		case LayerDETH:
			p.setDETH(h)
		case LayerAtomicETH:
			p.setAtomicETH(h)
		case LayerAtomicAckETH:
			p.Orig = be64(h)
		case LayerImmDt, LayerIETH:
			p.Imm = be32(h)
		case LayerRDETH, LayerXRCETH:
			p.context = be32(h) & serialMask
		}
	}
}

// settle finds payload, pad and ICRC of a packet whose end is known and
// leaves room for the ICRC.
func (p *Packet) settle(b []byte, op *OpInfo, pay, pad int) {
	n := int(p.end) - 4 - pay
	if pad > n {
		p.note(ProblemPad, int(p.off[LayerBTH])+1)
		pad = n
	}
	n -= pad
	p.PadCount = uint8(pad)
	p.payloadLen = uint32(n)
	p.layers |= 1 << LayerICRC
	if n > 0 {
		p.layers |= 1 << LayerPayload
	}
	if uint32(n) < op.least || uint32(n) > op.most || pad != 0 && op.Payload == EightBytes {
		p.note(ProblemPayload, pay)
	}
	if op.Transport == UD && p.DestQP <= 1 && pay <= len(b) {
		p.mad(b, pay)
	}
}
