package rnic

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

const (
	opWriteOnly = dissect.OpRCWriteOnly
	opSendOnly  = dissect.OpRCSendOnly
)

// write is a WRITE Only of n bytes into the region, at its beginning.
func (r *rig) write(psn dissect.PSN, n int) []byte {
	return r.packet(opWriteOnly, psn, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: uint32(n), data: bytes.Repeat([]byte{0xEE}, n), ack: true})
}

// recv posts receives of n bytes.
func (r *rig) recv(count, n int) {
	r.t.Helper()
	for i := range count {
		must(r.t, r.q.PostRecv(RecvWR{ID: uint64(100 + i), SGL: []SGE{r.mr.SGE(4096, n)}}))
	}
}

// What is dropped must leave no trace: no answer, no change of memory or state, and the next good request is served.
func TestArrivingPacketsThatAreDropped(t *testing.T) {
	reseal := func(r *rig, b []byte, change func([]byte)) []byte {
		change(b)
		must(r.t, r.craft.Reseal(dissect.LinkEthernet, b))
		return b
	}
	for _, c := range []struct {
		id, what string
		why      Drop
		frame    func(r *rig) []byte
	}{
		{"ETH-01", "other destination MAC", DropLink, func(r *rig) []byte { b := r.write(rigPSN, 8); b[5]++; return b }},
		{"VLAN-02", "unknown VLAN", DropLink, func(r *rig) []byte {
			r.outer.VLANs = []uint16{5}
			b := r.write(rigPSN, 8)
			r.outer.VLANs = nil
			return b
		}},
		{"VLAN-03", "double tag", DropLink, func(r *rig) []byte {
			r.outer.VLANs = []uint16{0, 0}
			b := r.write(rigPSN, 8)
			r.outer.VLANs = nil
			return b
		}},
		{"ETH-04", "RoCE v1", DropRoCEv1, func(r *rig) []byte { r.outer.RoCEv1 = true; b := r.write(rigPSN, 8); r.outer.RoCEv1 = false; return b }},
		{"IP-04", "header checksum", DropNetwork, func(r *rig) []byte { b := r.write(rigPSN, 8); b[24] ^= 1; return b }},
		{"IP-10", "more fragments", DropNetwork, func(r *rig) []byte {
			b := r.write(rigPSN, 8)
			dissect.IPv4(b[14:34]).SetMoreFragments(true)
			dissect.IPv4(b[14:34]).UpdateChecksum()
			return b
		}},
		{"IP-13", "source address is not the peer's", DropAddress, func(r *rig) []byte { return reseal(r, r.write(rigPSN, 8), func(b []byte) { b[29]++ }) }},
		{"IP-14", "destination address is not ours", DropAddress, func(r *rig) []byte { return reseal(r, r.write(rigPSN, 8), func(b []byte) { b[33]++ }) }},
		{"IP-17", "IPv4 addresses in IPv6", DropAddress, func(r *rig) []byte {
			b := r.write(rigPSN, 8)
			src, dst := r.outer.Src.As16(), r.outer.Dst.As16()
			n := len(b) - 34 // of UDP and what it carries
			v6 := append(slices.Clone(b[:12]), 0x86, 0xDD, 0x60, 0, 0, 0, 0, byte(n), 17, 64)
			v6 = append(append(append(v6, src[:]...), dst[:]...), b[34:]...)
			must(r.t, r.craft.Reseal(dissect.LinkEthernet, v6))
			return v6
		}},
		{"UDP-08", "UDP length beyond the packet", DropLength, func(r *rig) []byte { b := r.write(rigPSN, 8); b[39] += 4; return b }},
		{"UDP-07", "UDP length below the packet", DropLength, func(r *rig) []byte { b := r.write(rigPSN, 8); b[39] -= 4; return b }},
		{"BTH-01", "transport version", DropTVer, func(r *rig) []byte {
			return r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 8, data: make([]byte, 8), bth: func(h dissect.BTH) { h.SetTVer(1) }})
		}},
		{"BTH-03", "UC opcode", DropService, func(r *rig) []byte { return r.packet(0x24, rigPSN, hdr{}) }},
		{"BTH-03", "UD opcode", DropService, func(r *rig) []byte { return r.packet(dissect.OpUDSendOnly, rigPSN, hdr{qkey: 0x1234}) }},
		{"BTH-05", "no such queue pair", DropQPN, func(r *rig) []byte { return r.packet(opSendOnly, rigPSN, hdr{qpn: r.q.QPN() + 1}) }},
		{"D10", "QPN beside it by 2^16", DropQPN, func(r *rig) []byte { return r.packet(opSendOnly, rigPSN, hdr{qpn: r.q.QPN() + 1<<16}) }},
		{"BTH-06", "QP 0", DropQPN, func(r *rig) []byte {
			return r.packet(opSendOnly, rigPSN, hdr{bth: func(h dissect.BTH) { h.SetDestQP(0) }})
		}},
		{"BTH-07", "QP 1 with an RC opcode", DropService, func(r *rig) []byte { return r.packet(opSendOnly, rigPSN, hdr{qpn: 1}) }},
		{"BTH-09", "other partition", DropPKey, func(r *rig) []byte {
			return r.packet(opSendOnly, rigPSN, hdr{bth: func(h dissect.BTH) { h.SetPKey(0x8001) }})
		}},
		{"BTH-11", "no partition", DropPKey, func(r *rig) []byte {
			return r.packet(opSendOnly, rigPSN, hdr{bth: func(h dissect.BTH) { h.SetPKey(0x8000) }})
		}},
		{"BTH-16", "no pad", DropLength, func(r *rig) []byte {
			b := r.packet(opSendOnly, rigPSN, hdr{data: make([]byte, 6)}) // two bytes of pad
			copy(b[len(b)-6:], b[len(b)-4:])
			b = b[:len(b)-2]
			dissect.BTH(b[42:]).SetPadCnt(0)
			dissect.IPv4(b[14:34]).SetTotalLen(uint16(len(b) - 14))
			dissect.UDP(b[34:42]).SetLen(uint16(len(b) - 34))
			must(r.t, r.craft.Reseal(dissect.LinkEthernet, b))
			return b
		}},
		{"BTH-23", "shorter than its headers", DropLength, func(r *rig) []byte {
			b := r.write(rigPSN, 0)
			b = b[:len(b)-8]
			dissect.IPv4(b[14:34]).SetTotalLen(uint16(len(b) - 14))
			dissect.IPv4(b[14:34]).UpdateChecksum()
			dissect.UDP(b[34:42]).SetLen(uint16(len(b) - 34))
			return b
		}},
		{"ICRC-01", "a bit of the ICRC", DropICRC, func(r *rig) []byte { b := r.write(rigPSN, 8); b[len(b)-1] ^= 0x10; return b }},
		{"ICRC-03", "a bit of the payload", DropICRC, func(r *rig) []byte { b := r.write(rigPSN, 8); b[len(b)-7] ^= 1; return b }},
		{"PSN-09", "duplicate READ never asked for", DropDuplicate, func(r *rig) []byte {
			return r.packet(dissect.OpRCReadRequest, rigPSN-1, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 8})
		}},
		{"PSN-12", "duplicate atomic never asked for", DropDuplicate, func(r *rig) []byte {
			return r.packet(dissect.OpRCFetchAdd, rigPSN-1, hdr{va: r.mr.VA(), rkey: r.mr.RKey()})
		}},
		{"ACK-06", "ghost ACK", DropGhostAnswer, func(r *rig) []byte { return r.packet(dissect.OpRCAcknowledge, ownPSN, hdr{syndrome: 0x1F}) }},
		{"D3", "READ response with nothing outstanding", DropGhostAnswer, func(r *rig) []byte {
			return r.packet(dissect.OpRCReadResponseOnly, ownPSN+5, hdr{syndrome: 0x1F, data: make([]byte, 8)})
		}},
		{"ACK-05", "stale NAK", DropStaleAnswer, func(r *rig) []byte { return r.packet(dissect.OpRCAcknowledge, ownPSN-1, hdr{syndrome: 0x62}) }},
	} {
		t.Run(c.id+" "+c.what, func(t *testing.T) {
			r := newRig(t, dissect.RC, nil)
			r.recv(1, 64)
			before := bytes.Clone(r.mr.Bytes())
			r.send(c.frame(r))
			r.said()
			if !bytes.Equal(before, r.mr.Bytes()) {
				t.Error("memory was changed")
			}
			if got := r.dev.Counters().Dropped; got[c.why] != 1 {
				t.Errorf("counted as %v, want %v", got, c.why)
			}
			r.send(r.write(rigPSN, 8))
			r.said(ackd(rigPSN, 1))
			r.ended()
		})
	}
}

// What looks odd and must be taken all the same.
func TestArrivingPacketsThatAreAccepted(t *testing.T) {
	for _, c := range []struct {
		id, what string
		frame    func(r *rig) []byte
	}{
		{"ETH-03", "another source MAC", func(r *rig) []byte { b := r.write(rigPSN, 8); b[11] = 0x99; return b }},
		{"ETH-09", "bytes behind the packet", func(r *rig) []byte { return append(r.write(rigPSN, 8), 1, 2, 3) }},
		{"VLAN-01", "priority tag", func(r *rig) []byte { r.outer.VLANs = []uint16{3 << 13}; return r.write(rigPSN, 8) }},
		{"IP-07", "TTL 0", func(r *rig) []byte {
			b := r.write(rigPSN, 8)
			b[22] = 0
			dissect.IPv4(b[14:34]).UpdateChecksum()
			return b
		}},
		{"UDP-02", "another source port", func(r *rig) []byte { r.outer.SrcPort = 0; return r.write(rigPSN, 8) }},
		{"UDP-05", "a wrong UDP checksum", func(r *rig) []byte { b := r.write(rigPSN, 8); b[40], b[41] = 1, 2; return b }},
		{"BTH-10", "limited member", func(r *rig) []byte {
			return r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 8, data: make([]byte, 8), ack: true, bth: func(h dissect.BTH) { h.SetPKey(0x7FFF) }})
		}},
		{"BTH-12", "MigReq", func(r *rig) []byte {
			return r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 8, data: make([]byte, 8), ack: true, bth: func(h dissect.BTH) { h.SetMigReq(true) }})
		}},
		{"BTH-18", "reserved bits, FECN and BECN", func(r *rig) []byte {
			return r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 8, data: make([]byte, 8), ack: true, bth: func(h dissect.BTH) { h[4] = 0xFF; h[8] |= 0x7F }})
		}},
		{"BTH-17", "pad that is not zero", func(r *rig) []byte {
			b := r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 5, data: make([]byte, 5), ack: true})
			b[len(b)-5] = 0x55
			must(r.t, r.craft.Reseal(dissect.LinkEthernet, b))
			return b
		}},
		{"RETH-09", "zero bytes with a bad key", func(r *rig) []byte { return r.packet(opWriteOnly, rigPSN, hdr{rkey: 0xBAD00, va: 1, ack: true}) }},
		{"RETH-15", "an odd address", func(r *rig) []byte {
			return r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA() + 3, rkey: r.mr.RKey(), length: 5, data: make([]byte, 5), ack: true})
		}},
	} {
		t.Run(c.id+" "+c.what, func(t *testing.T) {
			r := newRig(t, dissect.RC, nil)
			r.send(c.frame(r))
			r.said(ackd(rigPSN, 1))
		})
	}
}

// What is refused for good: one NAK with the expected PSN, no byte written, ERROR, and silence from then on.
func TestRequestsThatAreRefused(t *testing.T) {
	const inv, acc, op = dissect.NAKInvalidRequest, dissect.NAKRemoteAccess, dissect.NAKRemoteOperational
	body := func(n int) []byte { return bytes.Repeat([]byte{0xEE}, n) }
	good := func(r *rig, h hdr) hdr {
		if h.va == 0 {
			h.va = r.mr.VA()
		}
		if h.rkey == 0 {
			h.rkey = r.mr.RKey()
		}
		return h
	}
	type frames func(r *rig) [][]byte
	one := func(code dissect.Opcode, h hdr) frames {
		return func(r *rig) [][]byte { return [][]byte{r.packet(code, rigPSN, good(r, h))} }
	}
	two := func(a dissect.Opcode, ha hdr, b dissect.Opcode, hb hdr) frames {
		return func(r *rig) [][]byte {
			return [][]byte{r.packet(a, rigPSN, good(r, ha)), r.packet(b, rigPSN+1, good(r, hb))}
		}
	}
	for _, c := range []struct {
		id, what string
		frames   frames
		nak      dissect.NAKCode
		at       int // which packet is refused
		recv     int // bytes of the receive work requests; 0 = none
		ended    []Status
		access   Access // of the queue pair; 0 = all
		depth    int
	}{
		{id: "BTH-02", what: "reserved opcode", frames: one(0x18, hdr{}), nak: inv},
		{id: "BTH-02", what: "reserved opcode 31", frames: one(0x1F, hdr{}), nak: inv},
		{id: "BTH-24", what: "FLUSH", frames: one(0x1C, hdr{}), nak: inv},
		{id: "BTH-24", what: "ATOMIC WRITE", frames: one(0x1D, hdr{length: 8, data: body(8)}), nak: inv},
		{id: "RETH-01", what: "unknown key", frames: one(opWriteOnly, hdr{rkey: 0x1234500, length: 8, data: body(8)}), nak: acc},
		{id: "RETH-05", what: "stale key", frames: func(r *rig) [][]byte {
			return [][]byte{r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey() - 1, length: 8, data: body(8)})}
		}, nak: acc},
		{id: "RETH-06", what: "below the region", frames: func(r *rig) [][]byte {
			return [][]byte{r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA() - 1, rkey: r.mr.RKey(), length: 8, data: body(8)})}
		}, nak: acc},
		{id: "RETH-07", what: "a byte beyond the region", frames: func(r *rig) [][]byte {
			return [][]byte{r.packet(opWriteOnly, rigPSN, hdr{va: r.mr.VA() + 8192 - 7, rkey: r.mr.RKey(), length: 8, data: body(8)})}
		}, nak: acc},
		{id: "RETH-08", what: "around the end of the address space", frames: one(opWriteOnly, hdr{va: 1<<64 - 4, length: 8, data: body(8)}), nak: acc},
		{id: "RETH-07", what: "READ beyond the region", frames: one(dissect.OpRCReadRequest, hdr{length: 8193}), nak: acc},
		{id: "RETH-04", what: "no remote write", frames: one(opWriteOnly, hdr{length: 8, data: body(8)}), nak: inv, access: RemoteRead},
		{id: "RETH-04", what: "no remote read", frames: one(dissect.OpRCReadRequest, hdr{length: 8}), nak: inv, access: RemoteWrite},
		{id: "ATM-05", what: "no atomics", frames: one(dissect.OpRCFetchAdd, hdr{}), nak: inv, access: RemoteWrite},
		{id: "RETH-10", what: "2^31 + 1 bytes", frames: one(dissect.OpRCReadRequest, hdr{length: 1<<31 + 1}), nak: inv},
		{id: "RETH-13", what: "WRITE Only shorter than its length", frames: one(opWriteOnly, hdr{length: 12, data: body(8)}), nak: inv},
		{id: "RETH-13", what: "WRITE Only longer than its length", frames: one(opWriteOnly, hdr{length: 4, data: body(8)}), nak: inv},
		{id: "RETH-11", what: "WRITE ends too early", frames: two(dissect.OpRCWriteFirst, hdr{length: rigMTU + 10, data: body(rigMTU)}, dissect.OpRCWriteLast, hdr{data: body(9)}), nak: inv, at: 1},
		{id: "RETH-12", what: "WRITE is longer than it says", frames: two(dissect.OpRCWriteFirst, hdr{length: rigMTU + 10, data: body(rigMTU)}, dissect.OpRCWriteLast, hdr{data: body(11)}), nak: inv, at: 1},
		{id: "SEQ-05", what: "MIDDLE in LAST's place", frames: two(dissect.OpRCWriteFirst, hdr{length: 2 * rigMTU, data: body(rigMTU)}, dissect.OpRCWriteMiddle, hdr{data: body(rigMTU)}), nak: inv, at: 1},
		{id: "LEN-01", what: "short FIRST", frames: one(dissect.OpRCWriteFirst, hdr{length: 500, data: body(rigMTU - 4)}), nak: inv},
		{id: "LEN-02", what: "long FIRST", frames: one(dissect.OpRCWriteFirst, hdr{length: 5000, data: body(rigMTU + 4)}), nak: inv},
		{id: "BTH-14", what: "pad on FIRST", frames: one(dissect.OpRCWriteFirst, hdr{length: 5000, data: body(rigMTU - 1)}), nak: inv},
		{id: "LEN-03", what: "empty LAST", frames: two(dissect.OpRCWriteFirst, hdr{length: rigMTU + 10, data: body(rigMTU)}, dissect.OpRCWriteLast, hdr{}), nak: inv, at: 1},
		{id: "LEN-04", what: "ONLY beyond the MTU", frames: one(opWriteOnly, hdr{length: rigMTU + 4, data: body(rigMTU + 4)}), nak: inv},
		{id: "LEN-06", what: "SEND longer than its receive", frames: one(opSendOnly, hdr{data: body(65)}), nak: inv, recv: 64, ended: []Status{LocLenErr, WRFlushErr}},
		{id: "LEN-06", what: "SEND of two packets, longer than its receive", frames: two(dissect.OpRCSendFirst, hdr{data: body(rigMTU)}, dissect.OpRCSendLast, hdr{data: body(1)}), nak: inv, at: 1, recv: rigMTU, ended: []Status{LocLenErr, WRFlushErr}},
		{id: "ATM-01", what: "address not aligned", frames: func(r *rig) [][]byte {
			return [][]byte{r.packet(dissect.OpRCFetchAdd, rigPSN, hdr{va: r.mr.VA() + 4, rkey: r.mr.RKey()})}
		}, nak: inv},
		{id: "ATM-02", what: "atomic with a bad key", frames: one(dissect.OpRCCompareSwap, hdr{rkey: 0x1234500, va: 8}), nak: acc},
		{id: "SEQ-01", what: "MIDDLE without FIRST", frames: one(dissect.OpRCWriteMiddle, hdr{data: body(rigMTU)}), nak: inv},
		{id: "SEQ-01", what: "LAST without FIRST", frames: one(dissect.OpRCSendLast, hdr{data: body(4)}), nak: inv, recv: 64, ended: []Status{WRFlushErr, WRFlushErr}},
		{id: "SEQ-02", what: "FIRST behind FIRST", frames: two(dissect.OpRCWriteFirst, hdr{length: 500, data: body(rigMTU)}, dissect.OpRCWriteFirst, hdr{length: 500, data: body(rigMTU)}), nak: inv, at: 1},
		{id: "SEQ-03", what: "WRITE MIDDLE behind SEND FIRST", frames: two(dissect.OpRCSendFirst, hdr{data: body(rigMTU)}, dissect.OpRCWriteMiddle, hdr{data: body(rigMTU)}), nak: inv, at: 1, recv: 600, ended: []Status{RemInvReqErr, WRFlushErr}},
		{id: "SEQ-04", what: "READ inside a WRITE", frames: two(dissect.OpRCWriteFirst, hdr{length: 500, data: body(rigMTU)}, dissect.OpRCReadRequest, hdr{length: 4}), nak: inv, at: 1},
		{id: "RES-03", what: "no READs allowed", frames: one(dissect.OpRCReadRequest, hdr{length: 4}), nak: inv, depth: -1},
	} {
		t.Run(c.id+" "+c.what, func(t *testing.T) {
			r := newRig(t, dissect.RC, func(_ *QPInit, a *Attr) {
				if c.access != 0 {
					a.Access = c.access
				}
				if c.depth < 0 {
					a.MaxDestRdAtomic = 0
				}
			})
			if c.recv > 0 {
				r.recv(2, c.recv)
			}
			fs := c.frames(r)
			r.send(fs[:c.at]...)
			r.said()
			before := bytes.Clone(r.mr.Bytes())
			r.send(fs[c.at:]...)
			r.said(nakd(c.nak, dissect.PSN(rigPSN).Add(c.at), 0))
			if !bytes.Equal(before, r.mr.Bytes()) {
				t.Error("memory was changed")
			}
			if r.q.State() != ERROR {
				t.Errorf("the queue pair is %v", r.q.State())
			}
			r.ended(c.ended...)
			// With no completion that tells of it, an event does (C9-222.1.1).
			if event := len(r.events) == 1; event != !slices.ContainsFunc(c.ended, func(s Status) bool { return s != WRFlushErr }) {
				t.Errorf("events %v", r.events)
			}
			r.send(r.write(dissect.PSN(rigPSN).Add(c.at), 8))
			r.said()
		})
	}
}

func TestForeignDomainsAndMissingPermissionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		id     string
		region func(r *rig) *MR
	}{
		{"RETH-02 another domain", func(r *rig) *MR {
			mr, err := r.dev.AllocPD().RegMR(make([]byte, 64), LocalWrite|RemoteWrite)
			must(r.t, err)
			return mr
		}},
		{"RETH-03 read only", func(r *rig) *MR {
			mr, err := r.pd.RegMR(make([]byte, 64), LocalWrite|RemoteRead)
			must(r.t, err)
			return mr
		}},
		{"LIFE-02 deregistered", func(r *rig) *MR {
			mr, err := r.pd.RegMR(make([]byte, 64), LocalWrite|RemoteWrite)
			must(r.t, err)
			must(r.t, mr.Deregister())
			return mr
		}},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := newRig(t, dissect.RC, nil)
			mr := c.region(r)
			r.send(r.packet(opWriteOnly, rigPSN, hdr{va: mr.VA(), rkey: mr.RKey(), length: 8, data: make([]byte, 8)}))
			r.said(nakd(dissect.NAKRemoteAccess, rigPSN, 0))
			if r.events[0] != EventQPAccessErr {
				t.Errorf("events %v", r.events)
			}
		})
	}
}

func TestRegionDeregisteredUnderWay(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.send(r.packet(dissect.OpRCWriteFirst, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 300, data: make([]byte, rigMTU)}))
	must(t, r.mr.Deregister())
	r.send(r.packet(dissect.OpRCWriteLast, rigPSN+1, hdr{data: make([]byte, 300-rigMTU)}))
	r.said(nakd(dissect.NAKRemoteAccess, rigPSN+1, 0))
}

// PSN-01, 03, 05, 20, 21: one NAK per gap, silence until it is repaired, duplicates are still answered.
func TestOneNAKPerGap(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.send(r.write(rigPSN, 8))
	r.said(ackd(rigPSN, 1))
	at := func(n int) dissect.PSN { return dissect.PSN(rigPSN).Add(n) }
	r.send(r.write(at(2), 8), r.write(at(3), 8), r.write(at(4), 8))
	r.said(nakd(dissect.NAKSequence, at(1), 1)) // 0xFFFFFF: the gap is at the wrap
	r.send(r.write(rigPSN, 8))
	r.said(ackd(rigPSN, 1))
	r.send(r.write(at(1), 8), r.write(at(2), 8))
	r.said(ackd(at(1), 2), ackd(at(2), 3))
	r.send(r.write(at(5), 8)) // a new gap
	r.said(nakd(dissect.NAKSequence, at(3), 3))
	r.send(r.write(at(3+1<<23-1), 8))
	r.said()
	r.send(r.write(at(3+1<<23), 8)) // the old half: a duplicate
	r.said(ackd(at(2), 3))
}

// PSN-07, 08, 09, 10, 11, 17: duplicates.
func TestDuplicatesAreAnsweredAndNotExecuted(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	read := func(psn dissect.PSN, off, n int) []byte {
		return r.packet(dissect.OpRCReadRequest, psn, hdr{va: r.mr.VA() + uint64(off), rkey: r.mr.RKey(), length: uint32(n), ack: true})
	}
	at := func(n int) dissect.PSN { return dissect.PSN(rigPSN).Add(n) }
	const first, mid, last, only = dissect.OpRCReadResponseFirst, dissect.OpRCReadResponseMid, dissect.OpRCReadResponseLast, dissect.OpRCReadResponseOnly
	const ack = dissect.Syndrome(dissect.NoCreditInfo)

	r.send(read(rigPSN, 0, 3*rigMTU-1)) // its answers cross the wrap
	r.said(say{first, rigPSN, ack, 1}, say{op: mid, psn: at(1)}, say{last, at(2), ack, 1})
	r.send(read(at(1), rigMTU, 2*rigMTU-1)) // what is missing
	r.said(say{first, at(1), ack, 1}, say{last, at(2), ack, 1})
	r.send(read(at(2), 2*rigMTU, rigMTU-1))
	r.said(say{only, at(2), ack, 1})
	copy(r.mr.Bytes(), "changed")
	r.send(read(rigPSN, 0, 3*rigMTU-1))
	if got := r.answers(); len(got) != 3 || string(got[0].data[:7]) != "changed" {
		t.Errorf("the READ was not answered again from memory: %d packets", len(got))
	}
	r.send(read(at(1), rigMTU+4, 8), read(at(1), rigMTU, 3*rigMTU), r.packet(dissect.OpRCReadRequest, rigPSN, hdr{va: r.mr.VA(), rkey: 0xBAD, length: 8}))
	r.said() // outside of the first range, or another key

	must(t, r.q.PostRecv(RecvWR{SGL: []SGE{r.mr.SGE(4096, 64)}}))
	send := r.packet(opSendOnly, at(3), hdr{data: []byte("hello"), ack: true})
	r.send(send, send, send)
	r.said(ackd(at(3), 2), ackd(at(3), 2), ackd(at(3), 2))
	r.ended(Success)

	was := binary.NativeEndian.Uint64(r.mr.Bytes()[64:])
	add := r.packet(dissect.OpRCFetchAdd, at(4), hdr{va: r.mr.VA() + 64, rkey: r.mr.RKey(), swap: 5})
	r.send(add, add)
	for _, a := range r.answers() {
		if a.Opcode != dissect.OpRCAtomicAcknowledge || a.PSN != at(4) || a.Orig != was || a.MSN != 3 {
			t.Errorf("atomic answer %v PSN %#x value %d MSN %d, want %d", a.Opcode, a.PSN, a.Orig, a.MSN, was)
		}
	}
	if got := binary.NativeEndian.Uint64(r.mr.Bytes()[64:]); got != was+5 {
		t.Errorf("memory is %d, want %d", got, was+5)
	}
	for i := range 4 { // the ring has four places: the READ is forgotten
		r.send(read(at(5+i), 0, 4))
	}
	r.answers()
	r.send(read(rigPSN, 0, 3*rigMTU-1), add)
	r.said()
}

// RES-01, 02: a SEND without a receive.
func TestReceiverNotReady(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	send := func(n int) []byte {
		return r.packet(opSendOnly, dissect.PSN(rigPSN).Add(n), hdr{data: []byte("hi"), ack: true})
	}
	r.send(send(0), send(1))
	r.said(rnrd(14, rigPSN, 0))
	r.send(send(0))
	r.said(rnrd(14, rigPSN, 0))
	r.recv(2, 64)
	r.send(send(0), send(1))
	r.said(ackd(rigPSN, 1), ackd(dissect.PSN(rigPSN).Add(1), 2))
	r.ended(Success, Success)
	imm := r.packet(dissect.OpRCWriteOnlyImm, 0, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), ack: true})
	r.send(imm)
	r.said(rnrd(14, 0, 2))
}

// RES-04: a receive work request whose memory may not be written.
func TestReceiveWithoutPermission(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	mr, err := r.pd.RegMR(make([]byte, 64), 0)
	must(t, err)
	must(t, r.q.PostRecv(RecvWR{SGL: []SGE{mr.SGE(0, 64)}}))
	r.send(r.packet(opSendOnly, rigPSN, hdr{data: []byte("hi")}))
	r.said(nakd(dissect.NAKRemoteOperational, rigPSN, 0))
	r.ended(LocProtErr)
}

// IETH-01, and the good case.
func TestSendWithInvalidate(t *testing.T) {
	for _, good := range []bool{true, false} {
		r := newRig(t, dissect.RC, nil)
		r.recv(2, 64)
		mr, err := r.pd.RegMR(make([]byte, 64), LocalWrite|RemoteWrite|RemoteInvalidate)
		must(t, err)
		key := mr.RKey()
		if !good {
			key += 0x100000
		}
		r.send(r.packet(dissect.OpRCSendOnlyInv, rigPSN, hdr{imm: key, ack: true}))
		if !good {
			r.said()
			r.ended(RemInvReqErr, WRFlushErr)
			if r.q.State() != ERROR {
				t.Errorf("the queue pair is %v", r.q.State())
			}
			continue
		}
		r.said(ackd(rigPSN, 1))
		if got := r.polled(); len(got) != 1 || got[0].Flags != HasInv || got[0].Imm != key {
			t.Errorf("completion %+v", got)
		}
		r.send(r.packet(opWriteOnly, rigPSN+1, hdr{va: mr.VA(), rkey: key, length: 4, data: make([]byte, 4)}))
		r.said(nakd(dissect.NAKRemoteAccess, rigPSN+1, 1))
	}
}

// RD-01: the region goes away while a READ is answered.
func TestReadAnswerBrokenOff(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.send(r.packet(dissect.OpRCReadRequest, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 3 * rigMTU}))
	r.answers()
	must(t, r.mr.Deregister())
	r.send(r.packet(dissect.OpRCReadRequest, rigPSN+1, hdr{va: r.mr.VA() + rigMTU, rkey: r.mr.RKey(), length: 2 * rigMTU}))
	r.said(nakd(dissect.NAKRemoteAccess, rigPSN+1, 1))
	if r.q.State() != ERROR {
		t.Errorf("the queue pair is %v", r.q.State())
	}
}

// CC-01: a CNP for a packet marked CE, paced; the packet is acknowledged as well.
func TestCongestionIsNotified(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	marked := func(n int) []byte {
		b := r.write(dissect.PSN(rigPSN).Add(n), 8)
		b[15] = 3
		dissect.IPv4(b[14:34]).UpdateChecksum()
		return b
	}
	r.send(marked(0), marked(1))
	got := r.answers()
	if len(got) != 3 || got[0].Opcode != dissect.OpCNP || got[0].DestQP != peerQPN || !got[0].BECN() || got[0].PSN != 0 || got[0].MigReq() || got[0].PayloadLen() != 16 {
		t.Fatalf("%d answers; %v to %#x", len(got), got[0].Opcode, got[0].DestQP)
	}
	r.pass(50 * time.Microsecond)
	r.send(marked(2))
	if got := r.answers(); len(got) != 2 || got[0].Opcode != dissect.OpCNP {
		t.Errorf("no CNP when its pause was over")
	}
}

// PSN-13: of several duplicates, the earlier is answered first, and what comes behind it again.
func TestDuplicateReadsAreAnsweredInOrder(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	read := func(n int) []byte {
		return r.packet(dissect.OpRCReadRequest, dissect.PSN(rigPSN).Add(n), hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 4})
	}
	r.send(read(0), read(1), read(2))
	r.answers()
	r.together(read(2), read(0), read(1), read(0))
	if got := psns(r.answers()); len(got) != 3 || got[0] != rigPSN || got[1] != rigPSN+1 || got[2] != 0 {
		t.Errorf("answered %#x", got)
	}
}

// What comes in one batch is acknowledged at once; a NAK in it acknowledges what came before.
func TestAcknowledgementsAreCoalesced(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	at := func(n int) dissect.PSN { return dissect.PSN(rigPSN).Add(n) }
	r.together(r.write(at(0), 4), r.write(at(1), 4), r.write(at(2), 4))
	r.said(ackd(at(2), 3))
	r.together(r.write(at(3), 4), r.write(at(5), 4), r.write(at(6), 4))
	r.said(nakd(dissect.NAKSequence, at(4), 4))
	r.together(r.write(at(4), 4), r.packet(dissect.OpRCReadRequest, at(5), hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 4}))
	r.said(say{dissect.OpRCReadResponseOnly, at(5), dissect.NoCreditInfo, 6}) // it acknowledges the WRITE
}

// DETH: a marked datagram is notified as well, to whoever sent it.
func TestMarkedDatagramIsNotified(t *testing.T) {
	r := newRig(t, dissect.UD, nil)
	r.recv(1, 100)
	f := r.datagram(8, hdr{})
	f[15] = 3
	dissect.IPv4(f[14:34]).UpdateChecksum()
	r.send(f)
	if got := r.answers(); len(got) != 1 || got[0].Opcode != dissect.OpCNP || got[0].DestQP != peerQPN || got[0].Dst != dissect.AddrFrom(r.outer.Src) {
		t.Errorf("%d packets", len(got))
	}
	r.ended(Success)
}
