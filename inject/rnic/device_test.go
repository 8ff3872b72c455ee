package rnic

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

func TestFramesForOthersGoToTheirHandlers(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	var management, other [][]byte
	r.dev.OnManagement(func(f []byte, at int64) {
		management = append(management, bytes.Clone(f))
		if at == 0 || at > r.now {
			t.Errorf("arrived at %d", at)
		}
		// A handler may call every verb.
		q, err := r.pd.CreateQP(QPInit{Type: dissect.RC, SendCQ: r.cq, RecvCQ: r.cq})
		must(t, err)
		must(t, q.Modify(Attr{State: INIT, Port: 1}, AttrState|AttrPKeyIndex|AttrPort|AttrAccess))
		must(t, r.dev.SendFrame(f))
	})
	r.dev.OnOther(func(f []byte, _ int64) { other = append(other, bytes.Clone(f)) })
	mad := func(qkey uint32) []byte {
		return r.packet(dissect.OpUDSendOnly, 0, hdr{qpn: 1, qkey: qkey, data: make([]byte, 256)})
	}
	arp := make([]byte, 42)
	copy(arp, []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 0, 2, 8, 6})
	foreign := bytes.Clone(arp)
	copy(foreign, []byte{2, 9, 9, 9, 9, 9})
	bad := mad(dissect.QP1QKey)
	bad[len(bad)-1]++
	good := mad(dissect.QP1QKey)
	r.send(good, mad(1), bad, arp, foreign)
	if len(management) != 1 || !bytes.Equal(management[0], good) {
		t.Errorf("%d management datagrams", len(management))
	}
	if len(other) != 1 || !bytes.Equal(other[0], arp) {
		t.Errorf("%d other frames", len(other))
	}
	if got := r.answers(); len(got) != 1 || got[0].DestQP != 1 {
		t.Errorf("%d frames were sent", len(got))
	}
	if r.dev.QPs() != 2 {
		t.Errorf("%d queue pairs", r.dev.QPs())
	}
}

func TestSendFrameIsBounded(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	if err := r.dev.SendFrame(make([]byte, 5000)); err == nil {
		t.Error("a frame longer than the port's was taken")
	}
	frame := make([]byte, 60)
	for i := range maxMail {
		frame[13] = byte(i)
		must(t, r.dev.SendFrame(frame))
	}
	if err := r.dev.SendFrame(frame); err == nil {
		t.Error("more frames than there is room for")
	}
	var in [64]port.In
	for sent := 0; sent < maxMail; {
		_, err := r.dev.Step()
		must(t, err)
		n, err := r.far.Receive(in[:])
		must(t, err)
		for _, f := range in[:n] {
			if f.Data[13] != byte(sent) {
				t.Fatalf("frame %d is out of order", sent)
			}
			sent++
		}
	}
	must(t, r.dev.SendFrame(frame))
}

// TestTenThousandQueuePairs also says what they cost: the figure is that of QP.Memory, and does not grow with what they do.
func TestTenThousandQueuePairs(t *testing.T) {
	const n = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := newDuo(t, 1024, n, 4096, QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSGE: 1})
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := d.qps[0][0].Memory()
	got := int(after.HeapAlloc-before.HeapAlloc) - 2*2048*(4096+maxOverhead) - 2*(1<<15)*80
	t.Logf("a queue pair with queues of four takes %d bytes; measured %d", each, got/(2*n))
	if got > 2*n*each*3/2 {
		t.Errorf("%d bytes for %d queue pairs of %d", got, 2*n, each)
	}
	done := 0
	for round := range 3 {
		for i := range n {
			d.post(i, []Op{OpWrite, OpRead, OpSend}[(i+round)%3], 100)
			done += d.step()
		}
	}
	for done < 3*n {
		done += d.step()
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	if grown := int(before.HeapAlloc) - int(after.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes more than before they had worked", grown)
	}
	runtime.KeepAlive(d)
}

// TestFairness: a queue pair with much to send does not starve those with little.
func TestFairness(t *testing.T) {
	d := newDuo(t, 1024, 8, 1<<20, bulk)
	for i := range 8 {
		d.post(i, OpWrite, 1<<20)
		d.post(i, OpWrite, 1<<20)
	}
	for done := 0; done < 8; {
		done += d.step()
	}
	for i, q := range d.qps[0] {
		if q.sq.head.Load() > 1 {
			t.Errorf("queue pair %d was done with two messages when not all had one", i)
		}
	}
}

// TestManyGoroutines: verbs from many goroutines while the devices run.
func TestManyGoroutines(t *testing.T) {
	near, far := port.Pair(port.MemoryOptions{Slots: 256, MaxFrame: 4096 + maxOverhead})
	ctx, stop := context.WithCancel(context.Background())
	var running, users sync.WaitGroup
	var devs [2]*Device
	for i, p := range []port.Port{near, far} {
		dev, err := Open(p, Options{MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}})
		must(t, err)
		devs[i] = dev
		running.Go(func() {
			if err := dev.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	const size = 5000
	for user := range 4 {
		users.Go(func() {
			l := &lab{t: t}
			for i, dev := range devs {
				s := &side{dev: dev, pd: dev.AllocPD(), addr: dev.Addrs()[0], mac: dev.MAC()}
				s.cq, _ = dev.CreateCQ(64)
				l.sides[i] = s
			}
			for life := range 3 {
				q := l.connect(pair{timeout: 18, retry: 7, rnr: 7})
				a, b := l.region(0, size), l.region(1, size)
				for i := range 20 {
					must(t, q[1].PostRecv(RecvWR{SGL: []SGE{b.SGE(0, size)}}))
					a.Bytes()[0] = byte(i + life + user)
					l.sides[0].cq.ReqNotify(false)
					must(t, q[0].PostSend(SendWR{ID: uint64(i), Op: OpSend, Flags: Signaled, SGL: []SGE{a.SGE(0, size)}}))
					var got [1]Completion
					for l.sides[0].cq.Poll(got[:]) == 0 {
						<-l.sides[0].cq.Ready()
					}
					for l.sides[1].cq.Poll(got[:]) == 0 {
						runtime.Gosched()
					}
					if got[0].Status != Success || !bytes.Equal(a.Bytes(), b.Bytes()) {
						t.Errorf("user %d, message %d: %+v", user, i, got[0])
					}
				}
				for i := range q {
					must(t, q[i].Destroy())
				}
				must(t, a.Deregister())
				must(t, b.Deregister())
			}
		})
	}
	users.Wait()
	stop()
	running.Wait()
	for _, d := range devs {
		if d.QPs() != 0 {
			t.Errorf("%d queue pairs are left", d.QPs())
		}
	}
}

// noGuesses turns off what tshark guesses of payloads, and its opinion of UDP checksums of IPv6.
var noGuesses = strings.Fields(`
	--disable-heuristic rpcrdma_infiniband --disable-heuristic smb_direct_infiniband --disable-heuristic iser_infiniband
	--disable-heuristic lnet_ib --disable-heuristic sdp_infiniband --disable-heuristic smcr_infiniband --disable-heuristic fc_infiniband
	--disable-heuristic eth_over_ib --disable-heuristic mellanox_eoib --disable-protocol nvme-rdma --disable-protocol rpcordma
	-o udp.ignore_ipv6_zero_checksum:TRUE`)

// TestTsharkFindsNothingMalformed shows every kind of packet that the device sends to another implementation.
func TestTsharkFindsNothingMalformed(t *testing.T) {
	ts := testkit.FindTshark(t)
	var frames []testkit.Frame
	for _, ipv6 := range []bool{false, true} {
		for _, vlan := range []uint16{0, 3<<13 | 100} {
			l := newLab(t, labOptions{ipv6: ipv6, device: Options{VLAN: vlan}})
			rc, uc, ud := l.connect(pair{retry: 7, rnr: 7, av: AHAttr{TrafficClass: 0x6A}}), l.connect(pair{typ: dissect.UC}), l.connect(pair{typ: dissect.UD})
			a, b := l.region(0, 5000), l.region(1, 5000)
			ah, err := l.sides[0].pd.CreateAH(AHAttr{Dst: l.sides[1].addr, DstMAC: l.sides[1].mac, FlowLabel: 0x12345})
			must(t, err)
			wr := func(op Op, n int) SendWR {
				return SendWR{Op: op, SGL: []SGE{a.SGE(0, n)}, RemoteVA: b.VA(), RKey: b.RKey(), AH: ah, DstQP: ud[1].QPN(), QKey: 0x11111111}
			}
			l.fault = func(from, n int, p *dissect.Packet, frame []byte) (f fate) {
				if n == 3 {
					f.change = func(frame []byte) { // marked CE: a CNP comes back
						if ip := p.IPv4(frame); ip != nil {
							ip.SetECN(3)
							ip.UpdateChecksum()
						} else {
							dissect.IPv6(frame[p.Offset(dissect.LayerIPv6):]).SetECN(3)
						}
					}
				}
				return f
			}
			for _, n := range []int{0, 1, 2, 3, 1024, 4999} {
				for _, op := range []Op{OpWrite, OpRead, OpSend, OpSendImm, OpWriteImm} {
					must(t, rc[0].PostSend(wr(op, n)))
					if op != OpRead {
						must(t, uc[0].PostSend(wr(op, n)))
					}
				}
				if n <= 4096 {
					must(t, ud[0].PostSend(wr(OpSend, n), wr(OpSendImm, n)))
				}
			}
			inv := wr(OpSendInv, 9)
			inv.Imm = b.RKey()
			must(t, rc[0].PostSend(wr(OpFetchAdd, 8), wr(OpCompareSwap, 8), inv))
			l.run(3 * time.Millisecond) // no receive yet: RNR
			for range 40 {
				must(t, rc[1].PostRecv(RecvWR{SGL: []SGE{b.SGE(0, 5000)}}))
			}
			l.settle()
			frames = append(frames, l.tapped...)
		}
	}
	file := testkit.WriteCapture(t, "rnic.pcapng", frames)
	rows, err := ts.Query(testkit.TsharkQuery{
		File: file, Fields: []string{"frame.number", "_ws.malformed", "infiniband.bth.opcode", "infiniband.bth.psn", "_ws.expert.message"},
		Args: noGuesses,
	})
	must(t, err)
	if len(rows) != len(frames) {
		t.Fatalf("tshark read %d of %d frames", len(rows), len(frames))
	}
	dec := dissect.Decoder{CheckICRC: true}
	kinds := map[dissect.Opcode]bool{}
	for i, row := range rows {
		var p dissect.Packet
		dec.Decode(dissect.LinkEthernet, frames[i].Data, frames[i].WireLen, &p)
		kinds[p.Opcode] = true
		if row[1] != "" || row[2] != fmt.Sprint(uint8(p.Opcode)) || row[3] != fmt.Sprint(uint32(p.PSN)) || p.ICRC != dissect.ICRCValid {
			t.Fatalf("frame %s: malformed %q, opcode %s, PSN %s; we say %v %d, ICRC %v", row[0], row[1], row[2], row[3], p.Opcode, p.PSN, p.ICRC)
		}
		if row[4] != "" && p.Opcode != dissect.OpCNP {
			t.Fatalf("frame %s: %s", row[0], row[4])
		}
	}
	if len(kinds) < 30 {
		t.Errorf("only %d kinds of packets", len(kinds))
	}
}

func FuzzReceive(f *testing.F) {
	r := newRig(f, dissect.RC, nil)
	f.Add(r.write(rigPSN, 8), uint8(0))
	f.Add(r.packet(dissect.OpRCReadRequest, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey(), length: 1000}), uint8(1))
	f.Add(r.packet(dissect.OpRCFetchAdd, rigPSN, hdr{va: r.mr.VA(), rkey: r.mr.RKey()}), uint8(2))
	f.Add(r.ack(ownPSN, 0x60), uint8(3))
	f.Add(r.packet(dissect.OpRCReadResponseFirst, ownPSN, hdr{syndrome: good, data: make([]byte, rigMTU)}), uint8(3))
	f.Fuzz(func(t *testing.T, frame []byte, kind uint8) {
		if len(frame) > 4096+maxOverhead || len(frame) < 14 {
			return
		}
		typ := []dissect.Transport{dissect.RC, dissect.UC, dissect.UD, dissect.RC}[kind%4]
		r := newRig(t, typ, nil)
		r.recv(2, 300)
		if kind%4 == 3 {
			r.post(1, OpRead, 0, 3*rigMTU, 0)
			r.post(2, OpFetchAdd, 0, 8, 0)
			r.answers()
		}
		_ = r.craft.Reseal(dissect.LinkEthernet, frame) // where it can be: past the ICRC's check
		r.send(frame, frame)
		r.answers()
		// The device lives on, for a queue pair that the frame did not touch.
		q, err := r.pd.CreateQP(QPInit{Type: dissect.RC, SendCQ: r.cq, RecvCQ: r.cq, Cap: QPCap{MaxRecvWR: 4}})
		must(t, err)
		r.q = q
		for to := INIT; to <= RTS; to++ {
			n, _ := step(dissect.RC, to-1, to)
			must(t, q.Modify(r.attrs(to), AttrState|n.must))
		}
		r.outer.VLANs = nil
		r.send(r.write(rigPSN, 8))
		if got := r.answers(); len(got) == 0 || got[len(got)-1].PSN != rigPSN || got[len(got)-1].Syndrome != good {
			t.Errorf("a good WRITE behind it: %d answers", len(got))
		}
	})
}

// TestStatesAreTold: each state that a queue pair comes to is told once, in order, behind the next Step; a step that is refused is none.
func TestStatesAreTold(t *testing.T) {
	near, _ := port.Pair(port.MemoryOptions{Slots: 16})
	d, err := Open(near, Options{MAC: [6]byte{2, 0, 0, 0, 0, 1}, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
	must(t, err)
	var told []string
	d.OnState(func(c StateChange) {
		if d.QP(c.QP.QPN()) != c.QP && c.To != RESET || c.At == 0 { // it may call verbs
			t.Errorf("%+v", c)
		}
		told = append(told, c.From.String()+" "+c.To.String())
	})
	cq, err := d.CreateCQ(4)
	must(t, err)
	q, err := d.AllocPD().CreateQP(QPInit{Type: dissect.UD, SendCQ: cq, RecvCQ: cq, Cap: QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	must(t, err)
	a := Attr{State: INIT, Port: 1, QKey: 1}
	must(t, q.Modify(a, AttrState|AttrPKeyIndex|AttrPort|AttrQKey))
	must(t, q.Modify(a, AttrState|AttrQKey)) // INIT to INIT
	if a.State = RTS; q.Modify(a, AttrState|AttrSQPSN) == nil {
		t.Error("from INIT to RTS at once")
	}
	a.State = RTR
	must(t, q.Modify(a, AttrState))
	if len(told) != 0 {
		t.Errorf("told before the device was stepped: %q", told)
	}
	for range 2 {
		_, err = d.Step()
		must(t, err)
	}
	must(t, q.Destroy())
	_, err = d.Step()
	must(t, err)
	if want := []string{"RESET INIT", "INIT RTR", "RTR RESET"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
