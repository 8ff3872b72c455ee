package diff

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/rocescope/rocescope/dissect"
)

// Schema is the name of the form of the document.
const Schema = "rocescope.diff/1"

// Document is a result as JSON has it.
type Document struct {
	Schema   string        `json:"schema"`
	A        SideDoc       `json:"a"`
	B        SideDoc       `json:"b"`
	Packets  *PacketsDoc   `json:"packets"`  // null: event logs have none
	Messages *MessagesDoc  `json:"messages"` // null: not asked for
	Findings []FindingDoc  `json:"findings"` // that one side alone has
	Clock    *ClockDoc     `json:"clock"`    // null: no common packet, or no times
	Streams  []StreamDoc   `json:"streams"`
	Rewrites []RewriteDoc  `json:"rewrites"`
	Listed   []PacketDoc   `json:"listed_packets"`
	Differ   []MessageDiff `json:"differing_messages"`

	result *Result // what charts are drawn from
}

// SideDoc is one of the two.
type SideDoc struct {
	Name    string   `json:"name"`
	Frames  uint64   `json:"frames"`
	Packets uint64   `json:"packets"` // that have a base transport header
	FirstNS *int64   `json:"first_ns"`
	LastNS  *int64   `json:"last_ns"`
	Errors  []string `json:"errors"`
}

// PacketsDoc counts what became of packets.
type PacketsDoc struct {
	Matched    uint64 `json:"matched"`
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"`
	Changed    uint64 `json:"changed"`
	Marked     uint64 `json:"marked"`
	Appeared   uint64 `json:"appeared"`
	OnlyA      uint64 `json:"only_a"`
	OnlyB      uint64 `json:"only_b"`
	OutsideA   uint64 `json:"outside_a"` // in a while b was not running
	OutsideB   uint64 `json:"outside_b"`
	NotListed  uint64 `json:"not_listed"`
}

// ClockDoc is how b's clock differs from a's.
type ClockDoc struct {
	ReferenceNS   int64   `json:"reference_ns"` // of a's clock
	OffsetNS      int64   `json:"offset_ns"`    // b minus a at the reference
	OffsetErrorNS int64   `json:"offset_error_ns"`
	DriftPPM      float64 `json:"drift_ppm"`
	DriftErrorPPM float64 `json:"drift_error_ppm"`
	Bounded       bool    `json:"bounded"` // false: packets went one way only, so that the offset has the delay in it
	BentNS        int64   `json:"bent_ns"` // what no steady drift explains
	Samples       int     `json:"samples"`
}

// StreamDoc is one direction between two queue pairs.
type StreamDoc struct {
	Src        string    `json:"src"`
	Dst        string    `json:"dst"`
	DestQP     uint32    `json:"dest_qp"`
	SrcQP      *uint32   `json:"src_qp"`
	First      string    `json:"first"` // a, b, or unknown: where its packets pass first
	PacketsA   uint64    `json:"packets_a"`
	PacketsB   uint64    `json:"packets_b"`
	Matched    uint64    `json:"matched"`
	Lost       uint64    `json:"lost"`
	Duplicated uint64    `json:"duplicated"`
	Reordered  uint64    `json:"reordered"`
	Changed    uint64    `json:"changed"`
	Marked     uint64    `json:"marked"`
	OnlyA      uint64    `json:"only_a"`
	OnlyB      uint64    `json:"only_b"`
	Delay      *DelayDoc `json:"delay_ns"` // one way, from the first capture to the other; null: clock or order unknown
	JitterNS   *int64    `json:"jitter_ns"`
}

// DelayDoc sums up times.
type DelayDoc struct {
	Count uint64  `json:"count"`
	Min   int64   `json:"min"`
	Mean  int64   `json:"mean"`
	P50   *int64  `json:"p50"`
	P99   *int64  `json:"p99"`
	Max   int64   `json:"max"`
	P50CI []int64 `json:"p50_ci95"` // the median's confidence interval; null as the percentiles
}

// RewriteDoc is a change that the path makes to each packet.
type RewriteDoc struct {
	Field   string `json:"field"`
	Before  uint64 `json:"before"`
	After   uint64 `json:"after"`
	Packets uint64 `json:"packets"`
}

// PacketDoc is a packet that did not come through as it was sent.
type PacketDoc struct {
	Kind    string      `json:"kind"`
	Stream  int         `json:"stream"` // index in streams
	FrameA  *uint64     `json:"frame_a"`
	FrameB  *uint64     `json:"frame_b"`
	Copies  []uint64    `json:"copies"`
	TimeNS  int64       `json:"time_ns"` // by a's clock
	Opcode  string      `json:"opcode"`
	PSN     uint32      `json:"psn"`
	LateNS  *int64      `json:"late_ns"`
	Edge    bool        `json:"edge"`
	Cut     int         `json:"cut_bytes"`
	BadA    bool        `json:"icrc_wrong_a"`
	BadB    bool        `json:"icrc_wrong_b"`
	Changes []ChangeDoc `json:"changes"`
}

// ChangeDoc is a field that changed.
type ChangeDoc struct {
	Field  string   `json:"field"`
	Offset int      `json:"offset"` // of the first byte, in the frame of a
	Before uint64   `json:"before"`
	After  uint64   `json:"after"`
	Bits   [][2]int `json:"bits"` // byte and bit (0 = lowest) in the frame of a
}

// MessagesDoc compares work requests.
type MessagesDoc struct {
	MatchedBy  string    `json:"matched_by"` // psn, order
	A          uint64    `json:"a"`
	B          uint64    `json:"b"`
	Matched    uint64    `json:"matched"`
	OnlyA      uint64    `json:"only_a"`
	OnlyB      uint64    `json:"only_b"`
	CompletedA uint64    `json:"completed_a"`
	CompletedB uint64    `json:"completed_b"`
	ResendsA   uint64    `json:"resends_a"`
	ResendsB   uint64    `json:"resends_b"`
	BytesA     uint64    `json:"bytes_a"`
	BytesB     uint64    `json:"bytes_b"`
	LatencyA   *DelayDoc `json:"latency_ns_a"`
	LatencyB   *DelayDoc `json:"latency_ns_b"`
	Verdict    string    `json:"latency_verdict"` // a_faster, b_faster, same, unknown
	LeftOutA   uint64    `json:"left_out_a"`
	LeftOutB   uint64    `json:"left_out_b"`
	NotListed  uint64    `json:"not_listed"`
	BothHave   int       `json:"findings_of_both"`
}

// MessageDiff is a message that the two tell differently.
type MessageDiff struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Op       string  `json:"operation"`
	FirstPSN uint32  `json:"first_psn"`
	FrameA   *uint64 `json:"frame_a"`
	FrameB   *uint64 `json:"frame_b"`
	StatusA  *string `json:"status_a"`
	StatusB  *string `json:"status_b"`
	ResendsA uint32  `json:"resends_a"`
	ResendsB uint32  `json:"resends_b"`
	BytesA   uint64  `json:"bytes_a"`
	BytesB   uint64  `json:"bytes_b"`
}

// FindingDoc is a finding that one side alone has.
type FindingDoc struct {
	Side     string `json:"side"`
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Where    string `json:"where"`
	Frame    uint64 `json:"frame"`
	Count    uint64 `json:"count"`
}

// Document makes the document.
func (r *Result) Document() *Document {
	d := &Document{Schema: Schema, A: sideDoc(&r.A), B: sideDoc(&r.B), result: r}
	d.Findings, d.Streams, d.Rewrites, d.Listed, d.Differ = []FindingDoc{}, []StreamDoc{}, []RewriteDoc{}, []PacketDoc{}, []MessageDiff{}
	if !r.NoPackets {
		t := &r.Totals
		d.Packets = &PacketsDoc{
			Matched: r.Matched, Lost: t[Lost], Duplicated: t[Copied], Reordered: t[Overtaken], Changed: t[Changed], Marked: t[Marked],
			Appeared: t[Appeared], OnlyA: t[OnlyA], OnlyB: t[OnlyB], OutsideA: r.Outside[0], OutsideB: r.Outside[1], NotListed: r.Left,
		}
	}
	if c := &r.Clock; c.Known && !r.ByIndex {
		d.Clock = &ClockDoc{
			ReferenceNS: c.Reference, OffsetNS: int64(math.Round(c.Offset)), OffsetErrorNS: int64(math.Ceil(c.Error)),
			DriftPPM: c.Drift, DriftErrorPPM: c.DriftErr, Bounded: c.Bounded, BentNS: int64(c.Bent), Samples: c.Samples,
		}
	}
	for i := range r.Streams {
		d.Streams = append(d.Streams, r.streamDoc(&r.Streams[i]))
	}
	for _, w := range r.Rewrites {
		d.Rewrites = append(d.Rewrites, RewriteDoc(w))
	}
	for i := range r.Packets {
		d.Listed = append(d.Listed, packetDoc(&r.Packets[i]))
	}
	if m := r.Messages; m != nil {
		d.messages(m)
	}
	return d
}

func sideDoc(s *SideInfo) SideDoc {
	d := SideDoc{Name: s.Name, Frames: s.Frames, Packets: s.Packets, Errors: []string{}}
	if s.Timed {
		d.FirstNS, d.LastNS = &s.First, &s.Last
	}
	for _, err := range s.Damage {
		d.Errors = append(d.Errors, err.Error())
	}
	return d
}

// delays reports whether one-way delays can be told.
func (r *Result) delays(s *Stream) bool {
	return r.Clock.Known && r.Clock.Bounded && !r.ByIndex && s.First != 0 && s.Matched > 0
}

func (r *Result) streamDoc(s *Stream) StreamDoc {
	d := StreamDoc{
		Src: s.Src.String(), Dst: s.Dst.String(), DestQP: s.DestQP, First: "unknown", PacketsA: s.Packets[0], PacketsB: s.Packets[1],
		Matched: s.Matched, Lost: s.Lost, Duplicated: s.Copies, Reordered: s.Overtaken, Changed: s.Changed, Marked: s.Marked,
		OnlyA: s.Alone[0], OnlyB: s.Alone[1],
	}
	if s.SrcQP != 0 {
		d.SrcQP = &s.SrcQP
	}
	if s.First != 0 {
		d.First = string(rune(s.First))
	}
	if r.delays(s) {
		sum := s.delay.sumUp()
		d.Delay = delayDoc(&sum)
	}
	if j, ok := s.Jitter(); ok && !r.ByIndex {
		d.JitterNS = &j
	}
	return d
}

func delayDoc(s *Delays) *DelayDoc {
	if s.Count == 0 {
		return nil
	}
	d := &DelayDoc{Count: s.Count, Min: s.Min, Mean: s.Mean, Max: s.Max}
	if s.Sorted {
		d.P50, d.P99, d.P50CI = &s.P50, &s.P99, []int64{s.Low, s.High}
	}
	return d
}

func frameDoc(f uint64) *uint64 {
	if f == 0 {
		return nil
	}
	return &f
}

func packetDoc(p *Packet) PacketDoc {
	d := PacketDoc{
		Kind: p.Kind.String(), Stream: p.Stream, FrameA: frameDoc(p.Frame[0]), FrameB: frameDoc(p.Frame[1]), Copies: append([]uint64{}, p.Copies...),
		TimeNS: p.Time, Opcode: opcodeToken(p.Opcode), PSN: uint32(p.PSN), Edge: p.Edge, Cut: p.Missing, BadA: p.BadA, BadB: p.BadB, Changes: []ChangeDoc{},
	}
	if p.Kind == Overtaken {
		d.LateNS = &p.Late
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		x := ChangeDoc{Field: c.Field, Offset: c.Offset, Before: c.Before, After: c.After, Bits: [][2]int{}}
		for _, b := range c.Bits {
			x.Bits = append(x.Bits, [2]int{b.Byte, b.Bit})
		}
		d.Changes = append(d.Changes, x)
	}
	return d
}

func opcodeToken(op dissect.Opcode) string { return dissect.Opcodes()[op].Token }

// messages adds what was found above the packets.
func (d *Document) messages(m *Messages) {
	d.Messages = &MessagesDoc{
		MatchedBy: m.By, A: m.Count[0], B: m.Count[1], Matched: m.Matched, OnlyA: m.Alone[0], OnlyB: m.Alone[1],
		CompletedA: m.Done[0], CompletedB: m.Done[1], ResendsA: m.Resends[0], ResendsB: m.Resends[1], BytesA: m.Bytes[0], BytesB: m.Bytes[1],
		LatencyA: delayDoc(&m.Latency[0]), LatencyB: delayDoc(&m.Latency[1]), Verdict: m.Verdict(),
		LeftOutA: m.Left[0], LeftOutB: m.Left[1], NotListed: m.More, BothHave: m.Both,
	}
	for i := range m.Differ {
		p := &m.Differ[i]
		x := MessageDiff{
			From: p.From.String(), To: p.To.String(), Op: p.Op, FirstPSN: uint32(p.FirstPSN), FrameA: frameDoc(p.Frame[0]), FrameB: frameDoc(p.Frame[1]),
			ResendsA: p.Resends[0], ResendsB: p.Resends[1], BytesA: p.Bytes[0], BytesB: p.Bytes[1],
		}
		if p.Status[0] != "" {
			x.StatusA = &p.Status[0]
		}
		if p.Status[1] != "" {
			x.StatusB = &p.Status[1]
		}
		d.Differ = append(d.Differ, x)
	}
	for side, list := range m.Single {
		for _, f := range list {
			d.Findings = append(d.Findings, FindingDoc{
				Side: string(rune('a' + side)), ID: f.ID, Severity: f.Severity, Summary: f.Summary, Where: f.Where, Frame: f.Frame, Count: f.Count,
			})
		}
	}
}

// Encode writes the document as JSON.
func (d *Document) Encode(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}

// Different reports whether anything is different at all; marks and rewriting
// are what networks do.
func (d *Document) Different() bool {
	p := d.Packets
	return p != nil && p.Lost+p.Duplicated+p.Reordered+p.Changed+p.Appeared+p.OnlyA+p.OnlyB > 0 || len(d.Differ) > 0 || len(d.Findings) > 0
}
