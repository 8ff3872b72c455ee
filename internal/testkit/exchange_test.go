package testkit

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
)

// everything is an exchange with every kind of packet that the builder has.
func everything(o ExchangeOptions) *Exchange {
	x := NewExchange(o)
	x.Perftest(x.Beside(nil))
	x.Beside(nil).Pingpong()
	x.Connect()
	for _, size := range []int{0, 1, 1023, 1024, 1025, 5000} {
		x.B.Answer(x.A.Write(size))
		x.B.Answer(x.A.Send(size))
		x.B.Answer(x.A.Read(size))
	}
	x.B.Answer(x.A.Write(3000, Imm(0xABCD), Solicited()))
	x.B.Answer(x.A.Send(10, Invalidate(0x99)))
	x.B.Answer(x.A.CompareSwap(1, 2))
	x.B.AtomicAck(x.A.FetchAdd(7), 41)
	m := x.B.Write(4 * x.MTU)
	m.Packets[1].Drop()
	x.A.NAK(m.First.Add(1), dissect.NAKSequence)
	m.ResendFrom(1)
	x.A.Answer(m)
	x.A.RNR(x.B.Send(20).First, 14)
	r := x.A.Read(3*x.MTU - 7)
	sent := x.B.Answer(r)
	sent[0].Drop()
	x.B.ReadResponses(r.ReadRest(1))
	x.A.CNP()
	x.B.Pause(0xFFFF)
	x.A.PFC(map[int]uint16{3: 0x100, 4: 0})
	x.Disconnect()
	x.B.MRA()
	x.B.REJ(28)
	return x
}

var variants = []struct {
	name string
	o    ExchangeOptions
}{
	{"IPv4", ExchangeOptions{PSNA: 0xFFFFFD}},
	{"IPv6", ExchangeOptions{IPv6: true, FixedIPID: true, MTU: 4096}},
	{"VLAN, padded", ExchangeOptions{VLANs: []uint16{3<<13 | 100}, PadFramesTo60: true, MTU: 256, TrafficClass: 26<<2 | 2}},
}

func TestExchangeDecodes(t *testing.T) {
	for _, v := range append(variants, struct {
		name string
		o    ExchangeOptions
	}{"RoCE v1", ExchangeOptions{RoCEv1: true, IPv6: true}}) {
		t.Run(v.name, func(t *testing.T) {
			packets, data := Decode(everything(v.o).Frames())
			for i := range packets {
				p := &packets[i]
				if len(p.Problems()) != 0 {
					t.Errorf("frame %d, %v: %v", i+1, p.Opcode, p.Problems())
				}
				if !p.Has(dissect.LayerBTH) {
					continue
				}
				if p.ICRC != dissect.ICRCValid {
					t.Errorf("frame %d, %v: ICRC %v", i+1, p.Opcode, p.ICRC)
				}
				if p.Has(dissect.LayerIPv4) && !textbookICRC(data[i], p) {
					t.Errorf("frame %d, %v: the ICRC is not that of the specification's text", i+1, p.Opcode)
				}
				if i > 0 && p.Time < packets[i-1].Time {
					t.Errorf("frame %d goes back in time", i+1)
				}
			}
		})
	}
}

// textbookICRC computes an IPv4 packet's ICRC without dissect's code for it.
func textbookICRC(frame []byte, p *dissect.Packet) bool {
	ip := frame[p.Offset(dissect.LayerIPv4):]
	n := int(binary.BigEndian.Uint16(ip[2:])) - 4
	masked := append([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), ip[:n]...)
	for _, i := range []int{1, 8, 10, 11, 26, 27, 32} {
		masked[8+i] = 0xFF
	}
	return crc32.ChecksumIEEE(masked) == binary.LittleEndian.Uint32(ip[n:])
}

func TestExchangeSegments(t *testing.T) {
	x := NewExchange(ExchangeOptions{PSNA: 0xFFFFFF, MTU: 1024})
	m := x.A.Write(2049, Imm(5))
	x.B.Answer(m)
	r := x.A.Read(4097)
	x.B.Answer(r)
	x.A.Send(0)
	x.B.ReadResponses(r.ReadRest(3))
	var got []string
	packets, _ := Decode(x.Frames())
	for i := range packets {
		p := &packets[i]
		line := fmt.Sprintf("%06x %s %d", uint32(p.PSN), strings.TrimPrefix(p.Op().Name, "RC "), p.PayloadLen())
		if p.AckReq {
			line += " A"
		}
		if p.Has(dissect.LayerRETH) {
			line += fmt.Sprintf(" +%d len %d", p.VA-x.VA, p.DMALen)
		}
		if p.Has(dissect.LayerAETH) {
			line += fmt.Sprintf(" msn %d", p.MSN)
		}
		got = append(got, line)
	}
	want := []string{
		"ffffff RDMA WRITE First 1024 +0 len 2049",
		"000000 RDMA WRITE Middle 1024",
		"000001 RDMA WRITE Last with Immediate 1 A",
		"000001 Acknowledge 0 msn 1",
		"000002 RDMA READ Request 0 A +0 len 4097",
		"000002 RDMA READ Response First 1024 msn 2",
		"000003 RDMA READ Response Middle 1024",
		"000004 RDMA READ Response Middle 1024",
		"000005 RDMA READ Response Middle 1024",
		"000006 RDMA READ Response Last 1 msn 2",
		"000007 SEND Only 0 A",
		"000005 RDMA READ Request 0 A +3072 len 1025",
		"000005 RDMA READ Response First 1024 msn 2",
		"000006 RDMA READ Response Last 1 msn 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExchangeChanges(t *testing.T) {
	x := NewExchange(ExchangeOptions{})
	m := x.A.Send(5000)
	m.Packets[0].MarkCE()
	m.Packets[1].Drop()
	m.Packets[2].Duplicate(10 * time.Microsecond)
	m.Packets[3].Delay(20 * time.Microsecond)
	m.Packets[4].BreakICRC()
	x.A.Write(100).Packets[0].Snap(80)
	packets, _ := Decode(x.Frames())
	var got []string
	for i := range packets {
		p := &packets[i]
		got = append(got, fmt.Sprintf("%d %v ecn%d %d", p.PSN, p.ICRC, p.ECN(), p.CapLen))
	}
	want := []string{"0 valid ecn3 1082", "2 valid ecn0 1082", "4 invalid ecn0 962", "5 not captured ecn0 80", "2 valid ecn0 1082", "3 valid ecn0 1082"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// tshark guesses upper protocols from the payload of SENDs, and ours is none of them. RoCE v2 over IPv6 goes without UDP
// checksum, which it has to be told.
var tsharkArgs = []string{
	"--disable-protocol", "rpcordma", "--disable-protocol", "nvme-rdma", "-o", "udp.ignore_ipv6_zero_checksum:TRUE",
	"-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE",
}

// TestExchangeTshark: nothing that the builder writes looks malformed to tshark, and it sees the same numbers.
func TestExchangeTshark(t *testing.T) {
	ts := FindTshark(t)
	for _, v := range variants {
		for _, name := range []string{"x.pcap", "x.pcapng"} {
			frames := everything(v.o).Frames()
			file := WriteCapture(t, name, frames)
			rows, err := ts.Query(TsharkQuery{
				File: file, Fields: []string{"infiniband.bth.psn", "_ws.malformed", "_ws.expert.severity", "frame.time_epoch"},
				Args: tsharkArgs,
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != len(frames) {
				t.Fatalf("%s: %d frames, tshark sees %d", v.name, len(frames), len(rows))
			}
			packets, _ := Decode(frames)
			for i, row := range rows {
				p := &packets[i]
				if row[1] != "" || row[2] == "8388608" {
					t.Errorf("%s, frame %d (%v, %v): malformed: %q", v.name, i+1, p.Proto, p.Opcode, row)
				}
				if p.Has(dissect.LayerBTH) && row[0] != fmt.Sprint(uint32(p.PSN)) {
					t.Errorf("%s, frame %d: PSN %s, want %d", v.name, i+1, row[0], p.PSN)
				}
				if want := fmt.Sprintf("%d.%09d", p.Time/1e9, p.Time%1e9); row[3] != want {
					t.Errorf("%s, frame %d: time %s, want %s", v.name, i+1, row[3], want)
				}
			}
			again := ReadCapture(t, file)
			if len(again) != len(frames) || again[3].Time != frames[3].Time || !slices.Equal(again[3].Data, frames[3].Data) {
				t.Errorf("%s: what was written reads back differently", v.name)
			}
		}
	}
}

// TestExchangeCMTshark has tshark read the handshake.
func TestExchangeCMTshark(t *testing.T) {
	ts := FindTshark(t)
	x := NewExchange(ExchangeOptions{PSNA: 0x111111, PSNB: 0x222222, MTU: 2048})
	x.Connect()
	x.Disconnect()
	file := WriteCapture(t, "cm.pcap", x.Frames())
	want := [][]string{
		{"0x0010", "0x000011", "0x222222", "0x04", "10.0.0.1", "", ""},
		{"0x0013", "", "", "", "", "0x000012", "0x111111"},
		{"0x0014", "", "", "", "", "", ""},
		{"0x0015", "", "", "", "", "", ""},
		{"0x0016", "", "", "", "", "", ""},
	}
	rows := ts.Fields(t, file, "infiniband.mad.attributeid", "infiniband.cm.req.localqpn", "infiniband.cm.req.startpsn", "infiniband.cm.req.pppmtu",
		"infiniband.cm.req.ip_cm.sip4", "infiniband.cm.rep.localqpn", "infiniband.cm.rep.startpsn")
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("tshark reads the handshake differently (-want +got):\n%s", diff)
	}
}
