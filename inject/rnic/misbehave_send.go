package rnic

import "github.com/rocescope/rocescope/dissect"

// What a device does wrong with what it sends.

// shorten takes n bytes from before the ICRC of a frame, and sets the lengths.
func shorten(frame []byte, n int) int {
	end := len(frame) - dissect.ICRCSize
	copy(frame[end-n:], frame[end:])
	whole, bth := len(frame)-n, bthOf(frame)
	setLengths(frame, whole-bth+8)
	return whole
}

// setLengths sets the lengths of UDP and IP to those of a datagram of n bytes.
func setLengths(frame []byte, n int) {
	bth := bthOf(frame)
	dissect.UDP(frame[bth-8 : bth]).SetLen(uint16(n))
	if at, l := networkOf(frame); l == dissect.LayerIPv6 {
		dissect.IPv6(frame[at:]).SetPayloadLen(uint16(n))
	} else {
		ip := dissect.IPv4(frame[at : at+l.Size()])
		ip.SetTotalLen(uint16(n + l.Size()))
		ip.UpdateChecksum()
	}
}

func padMissing(_ *Device, do *behaviour) {
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		pad := int(bth.PadCnt())
		if pad == 0 {
			return len(frame), false
		}
		bth.SetPadCnt(0)
		return shorten(frame, pad), true
	})
}

func lengthInWords(_ *Device, do *behaviour) {
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		op := bth.Opcode().Info()
		pad := int(bth.PadCnt())
		if op.Family != dissect.Write || op.Position != dissect.Only || pad == 0 {
			return len(frame), false
		}
		h := dissect.RETH(op.View(bth, dissect.LayerRETH))
		h.SetDMALen(h.DMALen() &^ 3)
		bth.SetPadCnt(0)
		return shorten(frame, 4), true
	})
}

func writeWithReadAddress(_ *Device, do *behaviour) {
	var stale struct {
		va     uint64
		length uint32
	}
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		op := bth.Opcode().Info()
		if op.Role != dissect.Request || !op.Has(dissect.LayerRETH) {
			return len(frame), false
		}
		h := dissect.RETH(op.View(bth, dissect.LayerRETH))
		if op.Family == dissect.Read {
			stale.va, stale.length = h.VA(), h.DMALen()
			return len(frame), false
		}
		if stale.va == 0 {
			return len(frame), false
		}
		h.SetVA(stale.va)
		h.SetDMALen(stale.length)
		stale.va = 0
		return len(frame), true
	})
}

func udpLengthLong(_ *Device, do *behaviour) {
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		at := bthOf(frame)
		udp := dissect.UDP(frame[at-8 : at])
		udp.SetLen(uint16(udp.Len() + dissect.ICRCSize))
		return len(frame), false
	})
}

func hopLimit1(_ *Device, do *behaviour) {
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		if at, l := networkOf(frame); l == dissect.LayerIPv6 {
			dissect.IPv6(frame[at:]).SetHopLimit(1)
		} else {
			dissect.IPv4(frame[at:]).SetTTL(1)
		}
		return len(frame), true
	})
}
