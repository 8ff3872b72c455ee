package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// layouts are what frames travel in.
var layouts = []struct {
	name  string
	outer dissect.Outer
}{
	{"IPv4", dissect.Outer{Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), TrafficClass: 26<<2 | 2}},
	{"IPv6", dissect.Outer{Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2"), FlowLabel: 0x12345}},
	{"IPv4 VLAN", dissect.Outer{Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), VLANs: []uint16{3<<13 | 100}}},
	{"IPv6 QinQ", dissect.Outer{Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2"), VLANs: []uint16{7, 8}}},
}

func init() {
	for i := range layouts {
		layouts[i].outer.DstMAC, layouts[i].outer.SrcMAC = [6]byte{2, 0, 0, 0, 0, 2}, [6]byte{2, 0, 0, 0, 0, 1}
	}
}

// everything is a mix of all operations on all services.
func everything(t testing.TB, sizes string) []Op {
	var all []Op
	for _, service := range []dissect.Transport{dissect.RC, dissect.UC, dissect.UD} {
		for i := range operations {
			if o := &operations[i]; o.On(service) {
				op := Op{Operation: o, Transport: service, Weight: 1}
				if service != dissect.UD && o.size == 0 {
					op.Sizes = mustSizes(t, sizes)
				}
				all = append(all, op)
			}
		}
	}
	return all
}

func mustSizes(t testing.TB, text string) Sizes {
	s, err := ParseSizes(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mixedConfig(t testing.TB, layout dissect.Outer, mtu int) Config {
	prbs, err := Named("prbs")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Outer: layout, MTU: mtu, Mix: everything(t, fmt.Sprintf("0,1,7,%d,%d,%d,%d-%d", mtu-1, mtu, mtu+1, 2*mtu, 6*mtu+5)), QPs: 22,
		LocalQPN: Steps(0x100, 1), DestQPN: Steps(0x800, 3), PSN: Steps(0xFFFFF0, 5), RKey: Steps(0x1000, 0x101), VA: Steps(0x7F00_FFFF_F000, 1<<32),
		QKey: 0x11111111, Count: 12, Seed: 7, Payload: prbs, Interleave: mtu == 512, Clock: &tickClock{},
	}
}

// written runs a configuration into a file, and reads it back.
func written(t testing.TB, c Config) (file string, frames []testkit.Frame, r *Result) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "out.pcapng")
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	tick := int64(1_700_000_000_000_000_000)
	p := port.NewFile(&buf, port.Options{Slots: 32, MaxFrame: s.MaxFrame(), Clock: func() int64 { tick += 1000; return tick }})
	if r, err = s.Run(context.Background(), []port.Port{p}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	frames, err = testkit.ParseCapture(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return file, frames, r
}

// Every frame of mixed runs, as tshark reads it: PSNs follow each other on each QP, addresses and keys are the QP's, and the
// ICRC is that of another computation. flows finds nothing wrong, and counts the messages that the result counts.
func TestEveryFrameOfAMixedRun(t *testing.T) {
	tshark := testkit.FindTshark(t)
	for i, mtu := range []int{256, 512, 1024, 2048, 4096, 1024, 4096} {
		layout := layouts[i%len(layouts)]
		t.Run(fmt.Sprintf("%s MTU %d", layout.name, mtu), func(t *testing.T) {
			c := mixedConfig(t, layout.outer, mtu)
			file, frames, r := written(t, c)
			if r.Asked != 66*12 || r.Messages != r.Asked || r.NotSent+r.Cut != 0 || r.Packets != uint64(len(frames)) || r.Packets != r.Port.Sent {
				t.Errorf("asked %d, messages %d, cut %d, not sent %d; packets %d, in the file %d", r.Asked, r.Messages, r.Cut, r.NotSent, r.Packets, len(frames))
			}
			judgeByTshark(t, tshark, c, file, frames)
			judgeByFlows(t, c, frames, r)
		})
	}
}

var tsharkFields = strings.Fields(`infiniband.bth.opcode infiniband.bth.psn infiniband.bth.destqp infiniband.bth.a infiniband.bth.padcnt
	infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen infiniband.immdt infiniband.ieth infiniband.aeth.msn
	infiniband.deth.srcqp infiniband.deth.q_key infiniband.atomiceth.swapdt infiniband.atomiceth.cmpdt infiniband.invariant.crc
	udp.srcport udp.length frame.len ip.checksum.status`)

// tsharkArgs keep it from taking payloads for upper protocols, behind which it then sees no ICRC.
var tsharkArgs = strings.Fields(`-o ip.check_checksum:TRUE
	--disable-heuristic rpcrdma_infiniband --disable-heuristic smb_direct_infiniband --disable-heuristic iser_infiniband
	--disable-heuristic lnet_ib --disable-heuristic sdp_infiniband --disable-heuristic smcr_infiniband --disable-heuristic fc_infiniband
	--disable-heuristic eth_over_ib --disable-heuristic mellanox_eoib --disable-protocol nvme-rdma --disable-protocol tftp`)

// model is what is expected of a QP.
type model struct {
	psn    uint32
	at     uint64
	index  uint64
	msn    uint64
	in     uint64 // bytes of the message left
	family dissect.Family
}

func judgeByTshark(t *testing.T, tshark *testkit.Tshark, c Config, file string, frames []testkit.Frame) {
	t.Helper()
	rows, err := tshark.Query(testkit.TsharkQuery{File: file, Fields: tsharkFields, Args: tsharkArgs})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(frames) {
		t.Fatalf("tshark sees %d packets of %d", len(rows), len(frames))
	}
	qps := map[uint64]*model{}
	ports := map[uint64]uint64{}
	for n, cells := range rows {
		row := map[string]uint64{}
		for i, cell := range cells {
			if cell == "" {
				continue
			}
			v, err := strconv.ParseUint(strings.ReplaceAll(cell, ":", ""), 0, 64)
			if name := tsharkFields[i]; err != nil || name == "infiniband.immdt" || name == "infiniband.ieth" {
				if v, err = strconv.ParseUint(strings.ReplaceAll(strings.TrimPrefix(cell, "0x"), ":", ""), 16, 64); err != nil && cell != "True" && cell != "False" {
					t.Fatalf("frame %d: %s is %q", n+1, name, cell)
				}
				if cell == "True" {
					v = 1
				}
			}
			row[tsharkFields[i]] = v
		}
		get := func(name string) uint64 { return row["infiniband."+name] }
		wrong := func(what string, got, want uint64) {
			t.Helper()
			if got != want {
				t.Fatalf("frame %d, %v: %s is 0x%x, want 0x%x", n+1, dissect.Opcode(get("bth.opcode")), what, got, want)
			}
		}
		info := dissect.Opcode(get("bth.opcode")).Info()
		dest := get("bth.destqp")
		k := (dest - 0x800) / 3
		m := qps[dest]
		if m == nil {
			m = &model{psn: uint32(c.PSN.At(int(k)) & most24)}
			qps[dest], ports[dest] = m, row["udp.srcport"]
		}
		wrong("the UDP source port", row["udp.srcport"], ports[dest])
		wrong("the frame's length", row["frame.len"], uint64(len(frames[n].Data)))
		if info.Transport != dissect.CNP {
			wrong("the ICRC", get("invariant.crc"), uint64(icrcOf(t, frames[n].Data)))
		}
		if c.Outer.Src.Is4() {
			wrong("the IP checksum's status", row["ip.checksum.status"], 1)
		}
		if info.Family == dissect.Congestion {
			wrong("the PSN", get("bth.psn"), 0)
			m.index++
			continue
		}
		if info.Role == dissect.Response {
			m.msn++
			m.index++
			wrong("the MSN", get("aeth.msn"), m.msn)
			wrong("the PSN", get("bth.psn"), (c.PSN.At(int(k))+m.msn-1)&most24)
			continue
		}
		wrong("the PSN", get("bth.psn"), uint64(m.psn))
		m.psn = (m.psn + 1) & most24
		if info.Transport == dissect.UD {
			wrong("the source QP", get("deth.srcqp"), 0x100+k)
			wrong("the Q_Key", get("deth.q_key"), 0x11111111)
		}
		payload := row["udp.length"] - 8 - uint64(info.Len) - get("bth.padcnt") - 4
		if info.Starts() {
			m.family, m.in = info.Family, payload
			if info.Has(dissect.LayerRETH) || info.Has(dissect.LayerAtomicETH) {
				size := get("reth.dmalen")
				if info.Has(dissect.LayerAtomicETH) {
					size, m.at = 8, (m.at+7)&^7
				} else {
					m.in = size
				}
				wrong("the VA", get("reth.va"), c.VA.At(int(k))+m.at)
				wrong("the rkey", get("reth.r_key"), c.RKey.At(int(k)))
				m.at += size
			}
		}
		wrong("the family", uint64(info.Family), uint64(m.family))
		switch info.Family {
		case dissect.Read:
			m.psn = uint32((uint64(m.psn) + (max(m.in, 1)-1)/uint64(c.MTU)) & most24)
		case dissect.FetchAdd:
			wrong("what is added", get("atomiceth.swapdt"), 1)
		case dissect.CompareSwap:
			wrong("what is compared", get("atomiceth.cmpdt"), m.index)
			wrong("what is swapped in", get("atomiceth.swapdt"), m.index+1)
		case dissect.Write:
			m.in -= payload
			if info.Ends() {
				wrong("what is left of the message", m.in, 0)
			} else {
				wrong("the payload", payload, uint64(c.MTU))
			}
		}
		if info.Flags&dissect.WithImm != 0 {
			wrong("the immediate data", get("immdt"), m.index)
		}
		if info.Flags&dissect.WithInv != 0 {
			wrong("the R_Key to invalidate", get("ieth"), c.RKey.At(int(k)))
		}
		ackReq := uint64(0)
		if info.Ends() && info.Transport == dissect.RC {
			ackReq = 1
		}
		wrong("AckReq", get("bth.a"), ackReq)
		if info.Ends() {
			m.index++
		}
	}
	if len(qps) != 66 {
		t.Errorf("%d QPs, want 66", len(qps))
	}
	for dest, m := range qps {
		if m.index != c.Count {
			t.Errorf("QP 0x%x has %d messages, want %d", dest, m.index, c.Count)
		}
	}
}

// icrcOf computes the ICRC of a frame as annex A17.3.3 says it, on a copy with ones in place, as tshark prints the field.
func icrcOf(t *testing.T, frame []byte) uint32 {
	var d dissect.Decoder
	var p dissect.Packet
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	b := bytes.Repeat([]byte{0xFF}, 8)
	network := 0
	if p.Has(dissect.LayerIPv4) {
		network = p.Offset(dissect.LayerIPv4)
		b = append(b, frame[network:]...)
		for _, i := range []int{1, 8, 10, 11} {
			b[8+i] = 0xFF
		}
	} else {
		network = p.Offset(dissect.LayerIPv6)
		b = append(b, frame[network:]...)
		b[8] |= 0x0F
		for _, i := range []int{1, 2, 3, 7} {
			b[8+i] = 0xFF
		}
	}
	bth := 8 + p.Offset(dissect.LayerBTH) - network
	b[bth-2], b[bth-1], b[bth+4] = 0xFF, 0xFF, 0xFF
	crc := crc32.ChecksumIEEE(b[:len(b)-4])
	if got := binary.LittleEndian.Uint32(frame[len(frame)-4:]); got != crc {
		t.Fatalf("the ICRC is 0x%08x, want 0x%08x", got, crc)
	}
	return binary.BigEndian.Uint32(frame[len(frame)-4:])
}

// judgeByFlows has the tracker look at a run to which nobody answers.
func judgeByFlows(t *testing.T, c Config, frames []testkit.Frame, r *Result) {
	t.Helper()
	tracker := flows.New(flows.Options{})
	testkit.Batches(frames, 64, func(packets []dissect.Packet, data [][]byte) {
		tracker.Track(&flows.Batch{Packets: packets, Data: data, Marks: make([]flows.Mark, len(packets))})
	})
	tracker.Finish()
	snap := tracker.Snapshot()
	if snap.ICRC[dissect.ICRCValid] != uint64(len(frames)) {
		t.Errorf("%d valid ICRCs of %d", snap.ICRC[dissect.ICRCValid], len(frames))
	}
	for i := range snap.Findings {
		if f := &snap.Findings[i]; f.Severity() > flows.Note {
			t.Errorf("%v: %s (frame %d, connection %d)", f.Severity(), f.Summary, f.Frame, f.Conn)
		}
	}
	var messages uint64
	for i := range snap.Connections {
		for _, s := range snap.Connections[i].Streams {
			for _, m := range s.Messages {
				messages += m.Count
			}
			if n := s.RetransmittedPackets + s.Duplicates + s.OutOfOrder + s.LostBeforeTap + s.LostBehindTap + s.CaptureLost + s.Reordered + s.Ambiguous; n != 0 {
				t.Errorf("connection %d: %d packets that are not the next ones", snap.Connections[i].ID, n)
			}
		}
	}
	want := uint64(0)
	for _, op := range r.Ops {
		if o, _ := FindOperation(op.Operation); o.Request() {
			want += op.Messages
		}
	}
	if messages != want {
		t.Errorf("flows counts %d messages, the result %d", messages, want)
	}
}
