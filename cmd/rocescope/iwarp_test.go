package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// iwarpRecord is what every place for messages must say of one of iWARP alike.
type iwarpRecord struct {
	Connection, Index                                     uint32
	Direction, From, To, Operation, Opcode, Status        string
	STag, Offset, SinkSTag, SinkOffset, Bytes, FirstFrame uint64
	LastFrame                                             uint64
	LatencyNS                                             int64
}

func value[T any](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}

func recordOf(m *report.Message) iwarpRecord {
	x := m.IWARP
	return iwarpRecord{
		m.Connection, m.Index, m.Stream, fmt.Sprint(x.From.Address, ":", x.From.Port), fmt.Sprint(x.To.Address, ":", x.To.Port), m.Operation, x.Opcode, m.Status,
		uint64(value(m.RKey)), value(m.VA), uint64(value(x.SinkSTag)), value(x.SinkOffset), m.Bytes, value(m.FirstFrame), value(m.LastFrame), value(m.LatencyNS),
	}
}

// The messages of the captures of the kernel's software iWARP are those that the manifest says were sent, in text, in JSON,
// in the log of events and in the tables, with the same figures everywhere.
func TestTruthOfIWARP(t *testing.T) {
	manifest, files := testkit.RXEManifest(t), testkit.Files(t, testkit.RXE(t), "iwarp_*.pcap")
	if len(files) != 3 {
		t.Errorf("%d captures", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			d, all := analyzeFile(t, file)
			log := filepath.Join(t.TempDir(), "log.jsonl")
			runOK(t, "analyze", file, "--events", log)
			text := runOK(t, "analyze", "--messages", file)
			rows := runOK(t, "export", file, "--to", "jsonl", "--tables", "messages", "-")

			type sum struct{ messages, bytes uint64 }
			got := map[string]sum{}
			var want []iwarpRecord
			for i := range all {
				m := &all[i]
				s := got[m.Operation]
				got[m.Operation] = sum{s.messages + 1, s.bytes + m.Bytes}
				if m.IWARP == nil || m.FirstPSN != nil || m.Status != "IBV_WC_SUCCESS" || value(m.LatencyNS) <= 0 || m.BytesSeen != m.Bytes || value(m.CompletedNS) != value(m.FirstNS)+value(m.LatencyNS) ||
					(m.RKey != nil) != (m.Operation == "read" || m.Operation == "write") {
					t.Errorf("%+v, %+v", m, m.IWARP)
					continue
				}
				want = append(want, recordOf(m))
			}
			if lines := bytes.Count(text, []byte(" SUCCESS\n")); lines != len(all) {
				t.Errorf("%d lines of text, %d messages", lines, len(all))
			}

			truth := manifest.Entry(t, filepath.Base(file)).Truth
			expect := map[string]sum{}
			switch n := uint64(truth.Iterations); truth.Op {
			case "RDMA_WRITE", "RDMA_READ":
				op := map[string]string{"RDMA_WRITE": "write", "RDMA_READ": "read"}[truth.Op]
				expect[op] = sum{uint64(*truth.MessagesPerQP), uint64(*truth.MessagesPerQP * *truth.MessageBytes)}
				expect["send"] = got["send"] // perftest tells its addresses by SENDs of its own
			default: // rping: advertise, READ, go ahead, advertise, WRITE, go ahead; 64 bytes and advertisements of 16
				expect["send"], expect["read"], expect["write"] = sum{4 * n, 4 * n * 16}, sum{n, n * 64}, sum{n, n * 64}
			}
			if fmt.Sprint(got) != fmt.Sprint(expect) {
				t.Errorf("messages and bytes %v, the manifest has %v", got, expect)
			}
			counted := map[string]sum{}
			for _, c := range d.IWARP {
				for _, s := range []*report.IWARPStream{c.AToB, c.BToA} {
					for op, n := range s.Messages {
						counted[op] = sum{counted[op].messages + n.Count, counted[op].bytes + n.Bytes}
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(counted) {
				t.Errorf("messages and bytes %v, the analysis counts %v", got, counted)
			}

			if diff := cmp.Diff(want, eventRecords(t, log)); diff != "" {
				t.Errorf("messages of the log (-json +log):\n%s", diff)
			}
			if diff := cmp.Diff(want, rowRecords(t, rows)); diff != "" {
				t.Errorf("rows (-json +rows):\n%s", diff)
			}
		})
	}
}

// eventRecords are the messages of iWARP in a log.
func eventRecords(t *testing.T, file string) (all []iwarpRecord) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var e struct {
			Type, Direction, Src, Dst, Operation, Opcode, Status string
			Connection, Index                                    uint32
			STag, Offset, Bytes, Frame                           uint64
			SinkSTag                                             uint64 `json:"sink_stag"`
			SinkOffset                                           uint64 `json:"sink_offset"`
			LastFrame                                            uint64 `json:"last_frame"`
			LatencyNS                                            int64  `json:"latency_ns"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "iwarp_message" {
			all = append(all, iwarpRecord{
				e.Connection, e.Index, e.Direction, e.Src, e.Dst, e.Operation, e.Opcode, e.Status,
				e.STag, e.Offset, e.SinkSTag, e.SinkOffset, e.Bytes, e.Frame, e.LastFrame, e.LatencyNS,
			})
		}
	}
	return all
}

func rowRecords(t *testing.T, rows []byte) (all []iwarpRecord) {
	t.Helper()
	for line := range bytes.Lines(rows) {
		var r struct {
			Connection, Index                       uint32
			Direction, Operation, Status, Transport string
			RKey, VA                                *uint64
			Bytes                                   uint64
			Src                                     string  `json:"src_address"`
			Dst                                     string  `json:"dst_address"`
			SrcPort                                 int     `json:"src_port"`
			DstPort                                 int     `json:"dst_port"`
			Opcode                                  string  `json:"rdmap_opcode"`
			SinkSTag                                *uint64 `json:"sink_stag"`
			SinkOffset                              *uint64 `json:"sink_offset"`
			FirstFrame                              uint64  `json:"first_frame"`
			LastFrame                               uint64  `json:"last_frame"`
			LatencyNS                               int64   `json:"latency_ns"`
			FirstPSN                                *uint64 `json:"first_psn"`
			UpperProtocol                           string  `json:"upper_protocol"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Transport != "iWARP" || r.FirstPSN != nil || r.UpperProtocol != "" {
			t.Errorf("%s", line)
		}
		all = append(all, iwarpRecord{
			r.Connection, r.Index, r.Direction, fmt.Sprint(r.Src, ":", r.SrcPort), fmt.Sprint(r.Dst, ":", r.DstPort), r.Operation, r.Opcode, r.Status,
			value(r.RKey), value(r.VA), value(r.SinkSTag), value(r.SinkOffset), r.Bytes, r.FirstFrame, r.LastFrame, r.LatencyNS,
		})
	}
	return all
}

// With -Y, connections and messages of iWARP are those with a selected packet.
func TestFilterOfIWARP(t *testing.T) {
	file := filepath.Join(testkit.RXE(t), "iwarp_read_bw.pcap")
	d, all := analyzeFile(t, file)
	if len(d.IWARP) != 2 {
		t.Fatalf("%d connections", len(d.IWARP))
	}
	one := &d.IWARP[1]
	chosen := 0
	for i := range all {
		if all[i].Connection == one.ID {
			chosen++
		}
	}
	var left report.Document
	filter := fmt.Sprintf("tcp.port == %d", one.A.Port)
	if err := json.Unmarshal(runOK(t, "analyze", "--json", file, "-Y", filter), &left); err != nil {
		t.Fatal(err)
	}
	if len(left.IWARP) != 1 || left.IWARP[0].ID != one.ID || left.Protocols.IWARP < one.Packets || left.Protocols.IWARP != left.Capture.Matched-left.Protocols.Other {
		t.Errorf("%d connections, %+v, %+v", len(left.IWARP), left.Protocols, left.Capture)
	}
	if n := bytes.Count(runOK(t, "analyze", "--json", "--messages", file, "-Y", filter), []byte{'\n'}); n != chosen || n == len(all) {
		t.Errorf("%d messages, want %d", n, chosen)
	}
}

// All FPDUs that begin in a segment are shown, and any of them makes a filter select it.
func TestFPDUsOfSegment(t *testing.T) {
	d := testkit.NewDuplex()
	mpa := testkit.MPA{CRC: true}
	d.Send(0, testkit.MPAFrame("Req", 0x40, 1, nil))
	d.Send(1, testkit.MPAFrame("Rep", 0x40, 1, nil))
	segment := mpa.FPDU(testkit.Untagged(3, true, 0, 0, 1, 0, []byte("one")))
	segment = append(segment, mpa.FPDU(testkit.Tagged(0, true, 0x77, 0x1000, []byte("two two")))...)
	segment = append(segment, mpa.FPDU(testkit.Untagged(6, true, 0xBEEF, 0, 2, 0, []byte("three")))...)
	fourth := mpa.FPDU(testkit.ReadRequest(1, 0x51, 0x100, 50, 0x52, 0x200))
	d.Send(0, append(segment, fourth[:30]...)) // the fourth goes on in the next segment
	d.Send(0, fourth[30:])
	damaged := mpa.FPDU(testkit.Untagged(3, true, 0, 0, 3, 0, []byte("fine")))
	next := mpa.FPDU(testkit.Untagged(3, true, 0, 0, 4, 0, []byte("damaged")))
	next[len(next)-1] ^= 1
	d.Send(0, append(damaged, next...))
	file := testkit.WriteCapture(t, "fpdus.pcap", d.Frames)

	out := string(runOK(t, "show", "-r", file, "-Y", "frame.number >= 6", "-T", "fields", "-E", "separator=;",
		"-e", "iwarp_rdma.opcode", "-e", "iwarp_ddp.msn", "-e", "iwarp_ddp.stag", "-e", "iwarp_rdma.inval_stag", "-e", "iwarp_mpa.ulpdulength"))
	if want := "0x03,0x00,0x06,0x01;1,2,1;0x00000077;48879;21,21,23,46\n;;;;\n0x03;3;;;22\n"; out != want {
		t.Errorf("fields are\n%swant\n%s", out, want)
	}
	for filter, want := range map[string]string{
		"iwarp_rdma.opcode == 0": "6\n", "iwarp_rdma.opcode == 3": "6\n8\n", "iwarp_ddp.stag": "6\n", "iwarp_rdma.inval_stag == 0xbeef": "6\n",
		"iwarp_ddp.msn == 2 && iwarp_ddp.stag == 0x77": "6\n", "iwarp_ddp.msn in {3, 4}": "8\n", "iwarp_rdma.opcode != 3": "", "iwarp_ddp.msn == 4": "",
	} {
		if got := string(runOK(t, "show", "-r", file, "-Y", filter, "-T", "fields", "-e", "frame.number")); got != want {
			t.Errorf("%s selects %q, want %q", filter, got, want)
		}
	}
	tree := string(runOK(t, "show", "-V", "-r", file, "-Y", "frame.number == 6"))
	for text, want := range map[string]int{"iwarp_mpa.ulpdulength": 4, "iwarp_ddp.msn": 3, "iwarp_ddp.stag": 1, "iwarp_mpa.crc": 3, "tcp.srcport": 1} {
		if n := strings.Count(tree, " "+text+"\n"); n != want {
			t.Errorf("%d lines of %s, want %d\n%s", n, text, want, tree)
		}
	}
	if strings.LastIndex(tree, "iwarp_ddp.msn") > strings.Index(tree, "\nPayload") {
		t.Errorf("the last FPDU stands behind the payload\n%s", tree)
	}
}
