package inline

import (
	"errors"
	"io"
	"slices"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/lab"
)

// packet is a RoCE packet at a tap.
type packet struct {
	data string // all of the frame
	time int64
}

// tap is what a capture has: the packets of the client and those of the server, and what flows makes of all of them.
type tap struct {
	packets [2][]packet
	saw     map[string]int64
}

// read reads the capture of a tap.
func read(file string) (*tap, error) {
	src, err := captures.Open(file)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	server := dissect.AddrFrom(lab.Seat{N: 1}.Side().IP4.Addr())
	t := &tap{saw: map[string]int64{}}
	tracker := flows.New(flows.Options{})
	d := dissect.Decoder{CheckICRC: true}
	frames := make([]captures.Frame, 64)
	var number uint64
	var base int64
	for {
		n, err := src.ReadBatch(frames)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		b := flows.Batch{Packets: make([]dissect.Packet, n), Data: make([][]byte, n), Marks: make([]flows.Mark, n)}
		for i := range frames[:n] {
			f, p := &frames[i], &b.Packets[i]
			if number++; number == 1 {
				base = f.Time
			}
			p.Number, p.Time, p.Base = number, f.Time, base
			d.Decode(f.Link, f.Data, f.WireLen, p)
			b.Data[i] = slices.Clone(f.Data)
			if !p.Has(dissect.LayerBTH) {
				continue
			}
			from := 0
			if p.Src == server {
				from = 1
			}
			t.packets[from] = append(t.packets[from], packet{string(f.Data), f.Time})
		}
		tracker.Track(&b)
	}
	tracker.Finish()
	t.count(tracker.Snapshot())
	return t, nil
}

// expected are the findings that a run of these programs has anyway, and those that the streams' counters tell.
var expected = map[string]bool{
	"handshake_without_data": true, "one_source_port": true, "waiting": true, "lost_before_tap": true, "lost_behind_tap": true, "reordered": true,
	"network_duplicate": true, "capture_loss": true, "retransmission": true, "ce_without_cnp": true, "write_overlap": true, "psn_gap": true, "response_gap": true,
}

// count adds up the streams of all connections, and the findings.
func (t *tap) count(s *flows.Snapshot) {
	add := func(name string, n uint64) {
		if n > 0 {
			t.saw[name] += int64(n)
		}
	}
	for i := range s.Connections {
		for j := range s.Connections[i].Streams {
			x := &s.Connections[i].Streams[j]
			add("lost before", x.LostBeforeTap)
			add("lost behind", x.LostBehindTap)
			add("lost by the capture", x.CaptureLost)
			add("reordered", x.Reordered)
			add("doubled", x.NetworkDuplicates)
			add("ambiguous", x.Ambiguous)
			add("marked", x.ECNCE)
			add("wrong ICRC", x.BadICRC)
			add("sequence NAK", x.NAKs[dissect.NAKSequence])
			add("sent again", x.RetransmittedPackets)
		}
	}
	for i := range s.Findings {
		if id := s.Findings[i].ID.String(); !expected[id] {
			add(id, s.Findings[i].Count)
		}
	}
}
