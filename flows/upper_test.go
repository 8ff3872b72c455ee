package flows_test

import (
	"cmp"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
)

// The captures below testdata/upper were made in the lab with Linux's own
// implementations (`lab upper`).

// trackUpper follows a capture, hands each packet to do, and returns the messages
// and the end.
func trackUpper(t *testing.T, file string, o flows.Options, do func(p *dissect.Packet, frame []byte, m *flows.Mark)) ([]flows.Message, *flows.Snapshot) {
	t.Helper()
	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	var messages []flows.Message
	o.Sink.Message = func(m *flows.Message) { messages = append(messages, *m) }
	tracker := flows.New(o)
	var d dissect.Decoder
	frames := make([]captures.Frame, 64)
	var number uint64
	for {
		n, err := src.ReadBatch(frames)
		b := flows.Batch{Packets: make([]dissect.Packet, n), Data: make([][]byte, n), Marks: make([]flows.Mark, n)}
		for i, f := range frames[:n] {
			number++
			b.Packets[i].Number, b.Packets[i].Time = number, f.Time
			d.Decode(f.Link, f.Data, f.WireLen, &b.Packets[i])
			b.Data[i] = f.Data
		}
		tracker.Track(&b)
		for i := range b.Packets {
			if b.Packets[i].Malformed() {
				t.Errorf("frame %d is called malformed", b.Packets[i].Number)
			}
			if do != nil {
				do(&b.Packets[i], b.Data[i], &b.Marks[i])
			}
		}
		if errors.Is(err, io.EOF) {
			tracker.Finish()
			return messages, tracker.Snapshot()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func upperFile(name string) string { return filepath.Join("testdata", "upper", name+".pcapng") }

// What each capture has, by the commands that were run for it.
func TestUpperOfRealImplementations(t *testing.T) {
	for _, c := range []struct {
		name     string
		protocol dissect.UpperProtocol
		requests []uint64 // by connection
		answers  []uint64
		summary  []string // of messages, in this order
	}{
		{"nvme", dissect.NVMe, []uint64{23, 7}, []uint64{22, 7}, []string{
			"NVMe Connect CID=0 Queue=0 Len=1024 Key=0x355", "data of NVMe Connect CID=0", "NVMe response CID=0: Successful Completion Controller=1",
			"NVMe Property Get CID=1 CAP", "NVMe response CID=1: Successful Completion Value=0x8200f00007f", "NVMe Property Set CID=4096 CC=0x460060",
			"NVMe Identify CID=26", "data of NVMe Identify", "NVMe Asynchronous Event Request", "NVMe Write CID=", "data of NVMe Write",
			"NVMe Read CID=4100 NSID=0x1 LBA=0x0 Blocks=64 Len=32768", "data of NVMe Read CID=4100",
		}},
		{"nfs3", dissect.RPCRDMA, []uint64{19}, []uint64{19}, []string{"NFSv3 NULL call", "RPC reply", "NFSv3 WRITE call", "data of NFSv3 WRITE call", "NFSv3 READ call", "data of NFSv3 READ call"}},
		{"nfs4", dissect.RPCRDMA, []uint64{27}, []uint64{27}, []string{"NFSv4 NULL call", "RPC reply", "NFSv4 COMPOUND call", "data of NFSv4 COMPOUND call", "RPC reply in a chunk"}},
		{"iser", dissect.ISER, []uint64{23}, []uint64{23}, []string{"iSCSI Login Request", "iSCSI Login Response", "iSCSI SCSI Command: INQUIRY", "data of iSCSI SCSI Command: INQUIRY", "iSCSI SCSI Response", "iSCSI Logout Request", "iSCSI Logout Response"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			messages, s := trackUpper(t, upperFile(c.name), flows.Options{}, nil)
			for i := range s.Connections {
				u := s.Connections[i].Upper
				if u == nil || u.Protocol != c.protocol || !strings.HasPrefix(u.Why, "CM was asked for TCP port") {
					t.Fatalf("connection %d: %+v", i, u)
				}
				r := u.Requests[flows.AToB]
				if r.Requests != c.requests[i] || r.Answers != c.answers[i] || r.Matched != r.Answers || r.LatencyMin <= 0 {
					t.Errorf("connection %d: %+v", i, r)
				}
			}
			slices.SortStableFunc(messages, func(a, b flows.Message) int { return cmp.Compare(a.FirstFrame, b.FirstFrame) })
			at := 0
			for _, want := range c.summary {
				for at < len(messages) && (messages[at].Upper == nil || !strings.HasPrefix(messages[at].Upper.Summary, want)) {
					at++
				}
				if at == len(messages) {
					t.Fatalf("no message says %q behind the one before", want)
				}
				u := messages[at].Upper
				if belongs := strings.HasPrefix(want, "data of") || strings.Contains(want, "esponse") || strings.Contains(want, "reply"); belongs != (u.Request != 0) {
					t.Errorf("%q names frame %d as its request", u.Summary, u.Request)
				}
			}
		})
	}
}

// notUpperAsTshark are fields that we show otherwise than tshark on purpose.
var notUpperAsTshark = map[string]string{
	"nvme.cmd.opc":                     "tshark has another name for that of fabrics commands",
	"nvme.cmd.cid":                     "the same",
	"nvme.cmd.psdt":                    "tshark 4.0 names it nvme.cmd.rsvd of fabrics commands",
	"nvme.cmd.fuse_op":                 "the same",
	"nvme.cmd.nlb":                     "tshark shows one more, the number that is meant",
	"nvme.cmd.dword10":                 "tshark has it by its parts for commands that it knows",
	"nvme.cmd.dword11":                 "the same",
	"nvme.cqe.dword0":                  "the same",
	"nvme.cqe.dword1":                  "the same",
	"nvme.cqe.status":                  "printed with its names",
	"rpcordma.reads_count":             "tshark has it of lists that are not empty",
	"rpcordma.writes_count":            "the same",
	"rpcordma.reply_count":             "the same",
	"rpc.xid":                          "tshark shows it once more for what it reassembles",
	"scsi_sbc.opcode":                  "tshark names it by the device's type",
	"rpc.auth.flavor":                  "tshark shows the verifier's, too",
	"rpcordma.msg_type":                "see rpc.xid",
	"nvme.fabrics.prop_get_set.data":   "tshark has its parts of properties that it knows",
	"nvme.fabrics.cqe.connect.cntrlid": "tshark shows it for the response to Connect only if that was followed by the data",
	"nvme.fabrics.cqe.connect.authreq": "the same",
}

// Every field that tshark has, too, prints as tshark prints it, in every frame
// where both have it; and of each protocol enough is compared.
func TestUpperAgainstTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	known := ts.KnownFields(t)
	var names []string
	for _, f := range dissect.Fields() {
		if _, ok := known[f.Name]; ok && f.Layer.Upper() && notUpperAsTshark[f.Name] == "" && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	for _, name := range []string{"nvme", "nfs3", "nfs4", "iser"} {
		t.Run(name, func(t *testing.T) {
			rows := ts.Fields(t, upperFile(name), append([]string{"frame.number"}, names...)...)
			compared := map[string]int{}
			trackUpper(t, upperFile(name), flows.Options{}, func(p *dissect.Packet, frame []byte, _ *flows.Mark) {
				for i, field := range names {
					want := rows[p.Number-1][i+1]
					if want == "" {
						continue
					}
					var got []string
					for _, f := range dissect.LookupField(field) {
						if v, ok := f.AppendText(nil, p, frame); ok {
							got = append(got, string(v))
						}
					}
					if len(got) == 0 {
						continue // of what tshark puts together from several frames
					}
					if strings.HasPrefix(field, "rpcordma.rdma_") { // tshark 4.0 has the first segment of a chunk only
						got = got[:min(len(got), strings.Count(want, ",")+1)]
					}
					if compared[field]++; !sameValues(got, strings.Split(want, ",")) {
						t.Errorf("frame %d: %s is %v, tshark has %s", p.Number, field, got, want)
					}
				}
			})
			if len(compared) < 9 {
				t.Errorf("compared only %v", compared)
			}
		})
	}
}

// sameValues compares numbers as numbers: tshark fills some up with zeros, and has
// truth values as words.
func sameValues(got, want []string) bool {
	plain := func(s string) string {
		s = strings.ToLower(s)
		if hex, ok := strings.CutPrefix(s, "0x"); ok {
			return "0x" + strings.TrimLeft(hex, "0")
		}
		return map[string]string{"true": "1", "false": "0"}[s] + map[bool]string{true: s}[s != "true" && s != "false"]
	}
	if len(got) > len(want) {
		return false
	}
	for i := range got {
		if plain(got[i]) != plain(want[i]) {
			return false
		}
	}
	return true
}

// withoutCM is a capture as if it had begun behind the set-up.
func trackWithoutCM(t *testing.T, name string, o flows.Options) *flows.Snapshot {
	t.Helper()
	tracker := flows.New(o)
	trackUpper(t, upperFile(name), flows.Options{}, func(p *dissect.Packet, frame []byte, _ *flows.Mark) {
		if p.Has(dissect.LayerMAD) {
			return
		}
		var d dissect.Decoder
		b := flows.Batch{Packets: make([]dissect.Packet, 1), Data: [][]byte{frame}, Marks: make([]flows.Mark, 1)}
		b.Packets[0].Number, b.Packets[0].Time = p.Number, p.Time
		d.Decode(dissect.LinkEthernet, frame, len(frame), &b.Packets[0])
		tracker.Track(&b)
	})
	tracker.Finish()
	return tracker.Snapshot()
}

// The filter's fields of upper protocols: at the packet what it is, at the end which
// request it belongs to and how long that took.
func TestUpperFields(t *testing.T) {
	fields := map[string]*flows.Field{}
	for i := range flows.Fields() {
		fields[flows.Fields()[i].Name] = &flows.Fields()[i]
	}
	kinds := map[string]int{}
	messages, _ := trackUpper(t, upperFile("nvme"), flows.Options{}, func(_ *dissect.Packet, _ []byte, m *flows.Mark) {
		if v, ok := fields["flow.upper"].Get(m, nil); ok {
			kinds[fields["flow.upper"].Values(v)]++
		}
	})
	for kind, want := range map[string]int{"NVMe admin command": 23, "NVMe I/O command": 7, "NVMe response to Connect": 2, "NVMe Connect data": 1, "NVMe private data": 4} {
		if kinds[kind] != want {
			t.Errorf("%d packets are %q, want %d", kinds[kind], kind, want)
		}
	}
	answers, transfers := 0, 0
	for i := range messages {
		o := &flows.Outcome{Message: &messages[i]}
		request, ok := fields["msg.upper_request"].Get(nil, o)
		if !ok {
			continue
		}
		if request >= messages[i].FirstFrame {
			t.Errorf("frame %d belongs to the later request in frame %d", messages[i].FirstFrame, request)
		}
		if latency, ok := fields["msg.upper_latency"].Get(nil, o); !ok {
			transfers++
		} else if answers++; latency == 0 {
			t.Errorf("the answer in frame %d took no time", messages[i].FirstFrame)
		}
	}
	if answers != 29 || transfers != 16 {
		t.Errorf("%d answers and %d transfers know their request, want 29 and 16", answers, transfers)
	}
}

// Where the set-up was not captured, the opening message tells.
func TestUpperBySignature(t *testing.T) {
	for name, protocol := range map[string]dissect.UpperProtocol{"nvme": dissect.NVMe, "nfs3": dissect.RPCRDMA, "nfs4": dissect.RPCRDMA, "iser": dissect.ISER} {
		t.Run(name, func(t *testing.T) {
			s := trackWithoutCM(t, name, flows.Options{})
			for i := range s.Connections {
				c := &s.Connections[i]
				if c.Upper == nil || c.Upper.Protocol != protocol || !strings.HasPrefix(c.Upper.Why, "its opening message") {
					t.Errorf("connection %d: %+v", c.ID, c.Upper)
				}
			}
		})
	}
}

// The user's word goes before what the capture says.
func TestUpperDecodeAs(t *testing.T) {
	_, s := trackUpper(t, upperFile("nvme"), flows.Options{DecodeAs: []flows.DecodeAs{{Protocol: dissect.ISER, QPN: 0x12}}}, nil)
	if u := s.Connections[0].Upper; u == nil || u.Protocol != dissect.NVMe {
		t.Errorf("the first connection: %+v", u)
	}
	if u := s.Connections[1].Upper; u == nil || u.Protocol != dissect.ISER || u.Why != "the user says so" {
		t.Errorf("the connection that the user named: %+v", u)
	}
}

// No capture of anything else is taken for an upper protocol.
func TestUpperIsNotGuessed(t *testing.T) {
	for _, file := range testkit.Files(t, filepath.Join(testkit.ModuleRoot(t), "captures", "samples"), "*.pcap*") {
		_, s := trackUpper(t, file, flows.Options{}, nil)
		for i := range s.Connections {
			if u := s.Connections[i].Upper; u != nil {
				t.Errorf("%s: connection %d is taken for %v: %s", filepath.Base(file), s.Connections[i].ID, u.Protocol, u.Why)
			}
		}
	}
}
