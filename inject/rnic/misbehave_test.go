package rnic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// told is what the device sent since the last look, in short. Its packets may be bad.
func (r *rig) told() string {
	r.t.Helper()
	d := dissect.Decoder{CheckICRC: true}
	var in [64]port.In
	var all []string
	for {
		n, err := r.far.Receive(in[:])
		must(r.t, err)
		if n == 0 {
			break
		}
		for _, f := range in[:n] {
			var p dissect.Packet
			d.Decode(dissect.LinkEthernet, f.Data, len(f.Data), &p)
			op := p.Op()
			s := op.Name
			switch {
			case op.Family == dissect.Acknowledge && p.Syndrome.Kind() == dissect.KindACK:
				s = fmt.Sprintf("ACK msn %d", p.MSN)
			case op.Family == dissect.Acknowledge:
				s = fmt.Sprintf("%#02x msn %d", uint8(p.Syndrome), p.MSN)
			case op.Family == dissect.AtomicAcknowledge:
				s = fmt.Sprintf("atomic %d", p.Orig)
			case op.Role == dissect.Response:
				s = fmt.Sprintf("response % x", p.Payload(f.Data)[:min(4, p.PayloadLen())])
			case op.Has(dissect.LayerRETH):
				s += fmt.Sprintf(" %d of %d at %d", p.PayloadLen(), p.DMALen, p.VA)
			}
			s += fmt.Sprintf(" psn %d", p.PSN.Sub(rigPSN))
			if op.Role == dissect.Request {
				s = strings.Replace(s, fmt.Sprintf("psn %d", p.PSN.Sub(rigPSN)), fmt.Sprintf("psn %d", p.PSN.Sub(ownPSN)), 1)
			}
			if p.HopLimit != 64 {
				s += fmt.Sprintf(" hops %d", p.HopLimit)
			}
			if (p.PayloadLen()+int(p.PadCount))&3 != 0 {
				s += " without pad"
			}
			if p.ICRC != dissect.ICRCValid {
				s += " bad ICRC"
			}
			if p.Malformed() {
				s += " malformed"
			}
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ", ")
}

// did gives frames to the device, one batch each, and says what it sent.
func (r *rig) did(frames ...[]byte) string {
	r.t.Helper()
	r.send(frames...)
	return r.told()
}

// req is a request of the peer, i packets behind the first; data of n bytes 0xEE.
func (r *rig) req(op dissect.Opcode, i, n int, h hdr) []byte {
	if h.va == 0 {
		h.va = r.mr.VA()
	}
	if h.rkey == 0 {
		h.rkey = r.mr.RKey()
	}
	if h.length == 0 && n > 0 {
		h.length = uint32(n)
	}
	info := op.Info()
	if !info.Has(dissect.LayerRETH) || info.Family != dissect.Read {
		h.data = bytes.Repeat([]byte{0xEE}, n)
	}
	h.ack = true
	return r.packet(op, dissect.PSN(rigPSN).Add(i), h)
}

func (r *rig) good(i int) []byte { return r.req(opWriteOnly, i, 8, hdr{}) }

func (r *rig) fadd(i int) []byte {
	return r.req(dissect.OpRCFetchAdd, i, 0, hdr{swap: 5})
}

// mem is the bytes of the region from an offset on.
func (r *rig) mem(at, n int) string { return fmt.Sprintf(" mem % x", r.mr.Bytes()[at:at+n]) }

// word sets the first 8 bytes of the region, value reads them.
func (r *rig) word(v uint64) { binary.NativeEndian.PutUint64(r.mr.Bytes(), v) }

func (r *rig) value() string {
	return fmt.Sprintf(" value %d", binary.NativeEndian.Uint64(r.mr.Bytes()))
}

func (r *rig) ends() (s string) {
	for _, c := range r.polled() {
		s += fmt.Sprintf(" %d:%v", c.ID, c.Status)
	}
	return s + " " + r.q.State().String()
}

// posts posts WRITEs (or READs) of n bytes to address 1000, with IDs from 1 on.
func (r *rig) posts(op Op, n int, count int) string {
	r.t.Helper()
	for i := range count {
		must(r.t, r.q.PostSend(SendWR{ID: uint64(i + 1), Op: op, Flags: Signaled, SGL: []SGE{r.mr.SGE(0, n)}, RemoteVA: 1000, RKey: 7}))
	}
	r.step()
	return r.told()
}

// ans answers the device's i-th packet.
func (r *rig) ans(i int, s dissect.Syndrome) []byte {
	return r.packet(dissect.OpRCAcknowledge, dissect.PSN(ownPSN).Add(i), hdr{syndrome: s})
}

// second makes another queue pair like the first, says which PSN it sends and whether it serves the peer's first.
func (r *rig) second() string {
	first := r.q
	q, err := r.pd.CreateQP(QPInit{Type: dissect.RC, SendCQ: r.cq, RecvCQ: r.cq, Cap: QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	must(r.t, err)
	a := first.Query()
	for to := INIT; to <= RTS; to++ {
		n, _ := step(dissect.RC, to-1, to)
		a.State = to
		must(r.t, q.Modify(a, AttrState|n.must))
	}
	r.q = q
	return r.posts(OpWrite, 8, 1) + "; " + r.did(r.good(0))
}

// shows has for each misbehaviour what provokes it, and what a right and a wrong device do then.
var shows = map[string]struct {
	provoke      func(r *rig) string
	right, wrong string
}{
	"address-unchecked": {func(r *rig) string { b := r.good(0); b[5]++; return r.did(b) }, "-", "ACK msn 1 psn 0"},
	"version-unchecked": {func(r *rig) string {
		return r.did(r.req(opWriteOnly, 0, 8, hdr{bth: func(h dissect.BTH) { h.SetTVer(1) }}))
	}, "-", "ACK msn 1 psn 0"},
	"qpn-aliased": {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 8, hdr{qpn: r.q.QPN() + 1<<16})) }, "-", "ACK msn 1 psn 0"},
	"transport-unchecked": {func(r *rig) string {
		return r.did(r.packet(dissect.OpUDSendOnly, rigPSN, hdr{}), r.good(0)) + r.mem(0, 2)
	}, "ACK msn 1 psn 0 mem ee ee", "ACK msn 0 psn 0 mem 00 07"},
	"pkey-unchecked": {func(r *rig) string {
		return r.did(r.req(opWriteOnly, 0, 8, hdr{bth: func(h dissect.BTH) { h.SetPKey(0x8001) }}))
	}, "-", "ACK msn 1 psn 0"},
	"icrc-unchecked":   {func(r *rig) string { b := r.good(0); b[len(b)-1]++; return r.did(b) + r.mem(0, 1) }, "- mem 00", "ACK msn 1 psn 0 mem ee"},
	"icrc-without-pad": {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 7, hdr{})) + "; " + r.posts(OpWrite, 7, 1) }, "ACK msn 1 psn 0; RC RDMA WRITE Only 7 of 7 at 1000 psn 0", "-; RC RDMA WRITE Only 7 of 7 at 1000 psn 0 bad ICRC"},
	"dscp-in-icrc": {func(r *rig) string {
		return r.did(r.req(opWriteOnly, 0, 8, hdr{frame: func(b []byte) {
			dissect.IPv4(b[14:34]).SetTOS(0x20)
			dissect.IPv4(b[14:34]).UpdateChecksum()
		}}))
	}, "ACK msn 1 psn 0", "-"},
	"reserved-checked": {func(r *rig) string {
		return r.did(r.req(opWriteOnly, 0, 8, hdr{bth: func(h dissect.BTH) { h[8] |= 1 }}))
	}, "ACK msn 1 psn 0", "-"},
	"migreq-0-dropped": {func(r *rig) string {
		return r.did(r.req(opWriteOnly, 0, 8, hdr{bth: func(h dissect.BTH) { h.SetMigReq(false) }}), r.req(opWriteOnly, 0, 8, hdr{bth: func(h dissect.BTH) { h.SetMigReq(true) }}))
	}, "ACK msn 1 psn 0, ACK msn 1 psn 0", "ACK msn 1 psn 0"},
	"cnp-as-request": {func(r *rig) string { return r.did(r.packet(dissect.OpCNP, 0, hdr{data: make([]byte, 16)}), r.good(0)) }, "ACK msn 1 psn 0", "0x60 msn 0 psn 0, ACK msn 1 psn 0"},
	"ghost-response-hang": {func(r *rig) string {
		return r.did(r.packet(dissect.OpRCReadResponseOnly, ownPSN, hdr{syndrome: good, data: make([]byte, 8)}), r.good(0))
	}, "ACK msn 1 psn 0", "-"},
	"burst-mute": {func(r *rig) string {
		for range 20 {
			r.send(r.ans(-1, good))
		}
		return r.did(r.good(0)) + fmt.Sprint(" ", r.arp())
	}, "ACK msn 1 psn 0 true", "- false"},
	"mute-after-roce": {func(r *rig) string { return fmt.Sprint(r.arp(), " ", r.did(r.good(0)), " ", r.arp()) }, "true ACK msn 1 psn 0 true", "true ACK msn 1 psn 0 false"},
	"ring-wrap-hang": {func(r *rig) string {
		for i := range 1024 {
			r.did(r.good(i))
		}
		r.did(r.good(1024))
		return r.did(r.good(1025))
	}, "ACK msn 1026 psn 1025", "-"},
	"cm-exhausted": {func(r *rig) string {
		taken := 0
		r.dev.OnManagement(func([]byte, int64) { taken++ })
		mad := r.packet(dissect.OpUDSendOnly, 0, hdr{qpn: 1, qkey: dissect.QP1QKey, data: make([]byte, 256)})
		r.send(mad)
		for range 1000 {
			q, err := r.pd.CreateQP(QPInit{Type: dissect.RC, SendCQ: r.cq, RecvCQ: r.cq})
			must(r.t, err)
			must(r.t, q.Destroy())
		}
		r.send(mad)
		return fmt.Sprint(taken)
	}, "2", "1"},

	"stale-psn": {
		func(r *rig) string {
			return r.did(r.good(0), r.good(1)) + "; " + r.posts(OpWrite, 8, 3) + "; " + r.second()
		}, "ACK msn 1 psn 0, ACK msn 2 psn 1; RC RDMA WRITE Only 8 of 8 at 1000 psn 0, RC RDMA WRITE Only 8 of 8 at 1000 psn 1, RC RDMA WRITE Only 8 of 8 at 1000 psn 2; RC RDMA WRITE Only 8 of 8 at 1000 psn 0; ACK msn 1 psn 0",
		"ACK msn 1 psn 0, ACK msn 2 psn 1; RC RDMA WRITE Only 8 of 8 at 1000 psn 0, RC RDMA WRITE Only 8 of 8 at 1000 psn 1, RC RDMA WRITE Only 8 of 8 at 1000 psn 2; RC RDMA WRITE Only 8 of 8 at 1000 psn 3; ACK msn 0 psn 1",
	},
	"error-final": {func(r *rig) string {
		return r.did(r.req(opWriteOnly, 0, 8, hdr{rkey: 9})) + "; " + r.second()
	}, "0x62 msn 0 psn 0; RC RDMA WRITE Only 8 of 8 at 1000 psn 0; ACK msn 1 psn 0", "0x62 msn 0 psn 0; RC RDMA WRITE Only 8 of 8 at 1000 psn 0; -"},
	"gap-accepted":  {func(r *rig) string { return r.did(r.good(0), r.good(2)) + r.mem(0, 1) }, "ACK msn 1 psn 0, 0x60 msn 1 psn 1 mem ee", "ACK msn 1 psn 0, ACK msn 2 psn 2 mem ee"},
	"gap-silent":    {func(r *rig) string { return r.did(r.good(0), r.good(2), r.good(1)) }, "ACK msn 1 psn 0, 0x60 msn 1 psn 1, ACK msn 2 psn 1", "ACK msn 1 psn 0, ACK msn 2 psn 1"},
	"nak-storm":     {func(r *rig) string { return r.did(r.good(0), r.good(2), r.good(3), r.good(4)) }, "ACK msn 1 psn 0, 0x60 msn 1 psn 1", "ACK msn 1 psn 0, 0x60 msn 1 psn 1, 0x60 msn 1 psn 1, 0x60 msn 1 psn 1"},
	"nak-wrong-psn": {func(r *rig) string { return r.did(r.good(0), r.good(2)) }, "ACK msn 1 psn 0, 0x60 msn 1 psn 1", "ACK msn 1 psn 0, 0x60 msn 1 psn 2"},
	"sequence-unchecked": {func(r *rig) string {
		return r.did(r.good(0), r.req(dissect.OpRCWriteLast, 1, 16, hdr{})) + r.mem(7, 9)
	}, "ACK msn 1 psn 0, 0x61 msn 1 psn 1 mem ee 38 3f 46 4d 54 5b 62 69", "ACK msn 1 psn 0, ACK msn 2 psn 1 mem ee ee ee ee ee ee ee ee ee"},
	"opcode-hang":   {func(r *rig) string { r.word(1); return r.did(r.fadd(0), r.good(1)) }, "atomic 1 psn 0, ACK msn 2 psn 1", "-"},
	"opcode-silent": {func(r *rig) string { return r.did(r.packet(0x1F, rigPSN, hdr{ack: true})) }, "0x61 msn 0 psn 0", "-"},
	"access-unchecked": {func(r *rig) string {
		mr, err := r.pd.RegMR(make([]byte, 64), 0)
		must(r.t, err)
		s := r.did(r.req(opWriteOnly, 0, 8, hdr{va: mr.VA(), rkey: mr.RKey()}))
		return s + fmt.Sprintf(" mem % x", mr.Bytes()[:1])
	}, "0x62 msn 0 psn 0 mem 00", "ACK msn 1 psn 0 mem ee"},
	"rkey-unchecked": {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 8, hdr{rkey: 0xBAD})) + r.mem(0, 1) }, "0x62 msn 0 psn 0 mem 00", "ACK msn 1 psn 0 mem ee"},
	"bounds-unchecked": {func(r *rig) string {
		whole := make([]byte, 128)
		mr, err := r.pd.RegMR(whole[:64], LocalWrite|RemoteWrite)
		must(r.t, err)
		s := r.did(r.req(opWriteOnly, 0, 8, hdr{va: mr.VA() + 60, rkey: mr.RKey()}))
		return s + fmt.Sprintf(" mem % x", whole[62:66])
	}, "0x62 msn 0 psn 0 mem 00 00 00 00", "ACK msn 1 psn 0 mem ee ee ee ee"},
	"va-48-bits":       {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 8, hdr{va: r.mr.VA() | 1<<52})) + r.mem(0, 1) }, "0x62 msn 0 psn 0 mem 00", "ACK msn 1 psn 0 mem ee"},
	"length-unchecked": {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 16, hdr{length: 100})) + r.mem(15, 1) }, "0x61 msn 0 psn 0 mem 69", "ACK msn 1 psn 0 mem ee"},
	"nak-wrong-code":   {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 8, hdr{rkey: 9})) }, "0x62 msn 0 psn 0", "0x61 msn 0 psn 0"},
	"rnr-missing":      {func(r *rig) string { return r.did(r.req(opSendOnly, 0, 8, hdr{})) }, "0x2e msn 0 psn 0", "ACK msn 1 psn 0"},
	"imm-not-delivered": {func(r *rig) string {
		r.recv(1, 64)
		return r.did(r.req(dissect.OpRCWriteOnlyImm, 0, 8, hdr{})) + r.ends()
	}, "ACK msn 1 psn 0 100:IBV_WC_SUCCESS RTS", "ACK msn 1 psn 0 RTS"},
	"zero-write-hang":  {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 0, hdr{}), r.good(1)) }, "ACK msn 1 psn 0, ACK msn 2 psn 1", "-"},
	"zero-read-silent": {func(r *rig) string { return r.did(r.req(dissect.OpRCReadRequest, 0, 0, hdr{}), r.good(1)) }, "response  psn 0, ACK msn 2 psn 1", "0x60 msn 0 psn 0"},
	"zero-length-psn":  {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 0, hdr{}), r.good(1)) }, "ACK msn 1 psn 0, ACK msn 2 psn 1", "ACK msn 1 psn -1, 0x60 msn 1 psn 0"},
	"pad-written":      {func(r *rig) string { return r.did(r.req(opWriteOnly, 0, 5, hdr{})) + r.mem(4, 4) }, "ACK msn 1 psn 0 mem ee 23 2a 31", "ACK msn 1 psn 0 mem ee 00 00 00"},
	"payload-damaged": {func(r *rig) string {
		return r.did(r.req(opWriteOnly, 0, 64, hdr{}), r.req(opWriteOnly, 1, 8, hdr{})) + r.mem(6, 2) + r.mem(63, 1)
	}, "ACK msn 1 psn 0, ACK msn 2 psn 1 mem ee ee mem ee", "ACK msn 1 psn 0, ACK msn 2 psn 1 mem ee 11 mem ee"},
	"long-message-stall": {func(r *rig) string {
		mr, err := r.pd.RegMR(make([]byte, 9000), LocalWrite|RemoteWrite)
		must(r.t, err)
		r.send(r.req(dissect.OpRCWriteFirst, 0, rigMTU, hdr{va: mr.VA(), rkey: mr.RKey(), length: 33 * rigMTU}))
		for i := 1; i < 32; i++ {
			r.send(r.req(dissect.OpRCWriteMiddle, i, rigMTU, hdr{}))
		}
		r.told()
		return r.did(r.req(dissect.OpRCWriteLast, 32, rigMTU, hdr{}))
	}, "ACK msn 1 psn 32", "-"},
	"msn-per-packet": {func(r *rig) string {
		return r.did(r.req(dissect.OpRCWriteFirst, 0, rigMTU, hdr{length: rigMTU + 8}), r.req(dissect.OpRCWriteLast, 1, 8, hdr{}))
	}, "ACK msn 0 psn 0, ACK msn 1 psn 1", "ACK msn 1 psn 0, ACK msn 2 psn 1"},
	"ack-wrong-psn":        {func(r *rig) string { return r.did(r.good(0)) }, "ACK msn 1 psn 0", "ACK msn 1 psn 1"},
	"duplicate-echoed":     {func(r *rig) string { return r.did(r.good(0), r.good(1), r.good(0)) }, "ACK msn 1 psn 0, ACK msn 2 psn 1, ACK msn 2 psn 1", "ACK msn 1 psn 0, ACK msn 2 psn 1, ACK msn 2 psn 0"},
	"duplicate-unanswered": {func(r *rig) string { return r.did(r.good(0), r.good(0)) }, "ACK msn 1 psn 0, ACK msn 1 psn 0", "ACK msn 1 psn 0"},
	"duplicate-executed": {func(r *rig) string {
		s := r.did(r.good(0))
		r.word(7)
		return s + ", " + r.did(r.good(0)) + r.value()
	}, "ACK msn 1 psn 0, ACK msn 1 psn 0 value 7", "ACK msn 1 psn 0, ACK msn 1 psn 0 value 17216961135462248174"},
	"atomic-repeated": {func(r *rig) string { r.word(1); return r.did(r.fadd(0), r.fadd(0)) + r.value() }, "atomic 1 psn 0, atomic 1 psn 0 value 6", "atomic 1 psn 0, atomic 6 psn 0 value 11"},
	"atomic-empty":    {func(r *rig) string { r.word(1); return r.did(r.fadd(0)) + r.value() }, "atomic 1 psn 0 value 6", "atomic 0 psn 0 value 1"},
	"swap-always": {func(r *rig) string {
		r.word(1)
		return r.did(r.req(dissect.OpRCCompareSwap, 0, 0, hdr{compare: 2, swap: 9})) + r.value()
	}, "atomic 1 psn 0 value 1", "atomic 1 psn 0 value 9"},
	"read-resumed-wrong": {func(r *rig) string {
		return r.did(r.req(dissect.OpRCReadRequest, 0, 2*rigMTU, hdr{})) + "; " + r.did(r.req(dissect.OpRCReadRequest, 1, rigMTU, hdr{va: r.mr.VA() + rigMTU}))
	}, "response 00 07 0e 15 psn 0, response 01 08 0f 16 psn 1; response 01 08 0f 16 psn 1", "response 00 07 0e 15 psn 0, response 01 08 0f 16 psn 1; response 00 07 0e 15 psn 1"},

	"rnr-as-ack":      {func(r *rig) string { r.posts(OpWrite, 8, 1); return r.did(r.ans(0, 0x2E)) + r.ends() }, "- RTS", "- 1:IBV_WC_SUCCESS RTS"},
	"rnr-not-awaited": {func(r *rig) string { r.posts(OpWrite, 8, 1); return r.did(r.ans(0, 0x2E)) }, "-", "RC RDMA WRITE Only 8 of 8 at 1000 psn 0"},
	"rnr-seven-counted": {func(r *rig) string {
		a := r.q.Query()
		a.State, a.RNRRetry = RESET, 7
		must(r.t, r.q.Modify(a, AttrState))
		for to := INIT; to <= RTS; to++ {
			n, _ := step(dissect.RC, to-1, to)
			a.State = to
			must(r.t, r.q.Modify(a, AttrState|n.must))
		}
		r.posts(OpWrite, 8, 1)
		for range 10 {
			r.send(r.ans(0, 0x2E))
			r.pass(time.Second)
		}
		return r.ends()
	}, " RTS", " 1:IBV_WC_RNR_RETRY_EXC_ERR ERROR"},
	"fatal-nak-retried": {func(r *rig) string { r.posts(OpWrite, 8, 1); return r.did(r.ans(0, 0x62)) + r.ends() }, "- 1:IBV_WC_REM_ACCESS_ERR ERROR", "RC RDMA WRITE Only 8 of 8 at 1000 psn 0 RTS"},
	"never-retries": {func(r *rig) string {
		r.posts(OpWrite, 8, 1)
		r.pass(5 * time.Millisecond)
		return r.told()
	}, "RC RDMA WRITE Only 8 of 8 at 1000 psn 0", "-"},
	"retries-forever": {func(r *rig) string {
		r.posts(OpWrite, 8, 1)
		for range 20 {
			r.pass(5 * time.Millisecond)
			r.told()
		}
		return r.ends()
	}, " 1:IBV_WC_RETRY_EXC_ERR ERROR", " RTS"},
	"ghost-ack-taken": {func(r *rig) string { r.posts(OpWrite, 8, 2); return r.did(r.ans(50, good)) + r.ends() }, "- RTS", "- 1:IBV_WC_SUCCESS 2:IBV_WC_SUCCESS RTS"},
	"implied-nak-ignored": {func(r *rig) string {
		r.posts(OpRead, 8, 1)
		r.posts(OpWrite, 8, 1)
		return r.did(r.ans(1, good)) + r.ends()
	}, "RC RDMA READ Request 0 of 8 at 1000 psn 0, RC RDMA WRITE Only 8 of 8 at 1000 psn 1 RTS", "- 1:IBV_WC_SUCCESS 1:IBV_WC_SUCCESS RTS"},
	"completions-merged": {func(r *rig) string { r.posts(OpWrite, 8, 3); return r.did(r.ans(2, good)) + r.ends() }, "- 1:IBV_WC_SUCCESS 2:IBV_WC_SUCCESS 3:IBV_WC_SUCCESS RTS", "- 3:IBV_WC_SUCCESS RTS"},

	"pad-missing":     {func(r *rig) string { return r.posts(OpWrite, 5, 1) }, "RC RDMA WRITE Only 5 of 5 at 1000 psn 0", "RC RDMA WRITE Only 5 of 5 at 1000 psn 0 without pad"},
	"length-in-words": {func(r *rig) string { return r.posts(OpWrite, 7, 1) }, "RC RDMA WRITE Only 7 of 7 at 1000 psn 0", "RC RDMA WRITE Only 4 of 4 at 1000 psn 0"},
	"write-with-read-address": {func(r *rig) string {
		r.posts(OpRead, 100, 1)
		must(r.t, r.q.PostSend(SendWR{ID: 9, Op: OpWrite, SGL: []SGE{r.mr.SGE(0, 8)}, RemoteVA: 2000, RKey: 7}))
		r.step()
		return r.told()
	}, "RC RDMA WRITE Only 8 of 8 at 2000 psn 1", "RC RDMA WRITE Only 8 of 100 at 1000 psn 1"},
	"udp-length-long": {func(r *rig) string { return r.did(r.good(0)) }, "ACK msn 1 psn 0", "ACK msn 1 psn 0 bad ICRC malformed"},
	"hop-limit-1":     {func(r *rig) string { return r.did(r.good(0)) }, "ACK msn 1 psn 0", "ACK msn 1 psn 0 hops 1"},
}

// arp asks for the device's address, and says whether somebody was told.
func (r *rig) arp() (heard bool) {
	if r.dev.onOther != nil {
		r.dev.OnOther(func([]byte, int64) { heard = true })
	}
	b := make([]byte, 60)
	copy(b, []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 2, 8, 6})
	r.send(b)
	return heard
}

// Each misbehaviour shows where a device that is right does right.
func TestMisbehaviours(t *testing.T) {
	for _, m := range Misbehaviours() {
		t.Run(m.Name, func(t *testing.T) {
			s, ok := shows[m.Name]
			if !ok {
				t.Fatal("nothing shows it")
			}
			for _, c := range [...]struct {
				names []string
				want  string
			}{{nil, s.right}, {[]string{m.Name}, s.wrong}} {
				r := newRig(t, dissect.RC, nil, c.names...)
				r.dev.OnOther(func([]byte, int64) {})
				if got := s.provoke(r); got != c.want {
					t.Errorf("misbehaving %q:\n got %s\nwant %s", c.names, got, c.want)
				}
			}
		})
	}
}

// What a device does wrong it does wrong over IPv6 and in a VLAN as well: frames that are spoiled stay what they are otherwise.
func TestSpoiledFramesKeepTheirShape(t *testing.T) {
	for _, vlan := range []uint16{0, 7} {
		for _, addrs := range [][2]string{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
			r := newRig(t, dissect.RC, nil)
			r.dev.opt.VLAN = vlan
			own, peer := netip.MustParseAddr(addrs[0]), netip.MustParseAddr(addrs[1])
			r.dev.opt.Addrs[0], r.dev.gids[0] = own, dissect.AddrFrom(own)
			must(t, r.dev.misbehave([]string{"hop-limit-1", "length-in-words"}))
			r.q.peer = r.dev.pathTo(&AHAttr{Dst: peer, DstMAC: [6]byte{2, 0, 0, 0, 0, 2}}, r.q.qpn, peerQPN)
			if got, want := r.posts(OpWrite, 7, 1), "RC RDMA WRITE Only 4 of 4 at 1000 psn 0 hops 1"; got != want {
				t.Errorf("VLAN %d, %v: got %s, want %s", vlan, own, got, want)
			}
		}
	}
}

func TestMisbehavioursHaveTheirNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Misbehaviours() {
		if seen[m.Name] || m.Does == "" || m.Right == "" || m.Source == "" || m.apply == nil || m.Role != asResponder && m.Role != asRequester && m.Role != asBoth {
			t.Errorf("%+v", m)
		}
		seen[m.Name] = true
	}
	if _, err := FindMisbehaviour("rnr-forgotten"); err == nil || !strings.Contains(err.Error(), "rnr-missing") {
		t.Errorf("no near names: %v", err)
	}
	near, _ := port.Pair(port.MemoryOptions{})
	if _, err := Open(near, Options{Addrs: netips(dissect.AddrFrom(netip.MustParseAddr("10.0.0.1"))), Misbehave: []string{"well"}}); err == nil {
		t.Error("a device was opened that does what nobody knows")
	}
}
