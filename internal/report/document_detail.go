package report

import (
	"fmt"

	"github.com/rocescope/rocescope/flows"
)

// HostPair is what all queue pairs of two hosts have in common.
type HostPair struct {
	A    string   `json:"a"`
	B    string   `json:"b"`
	AToB HostPath `json:"a_to_b"`
	BToA HostPath `json:"b_to_a"`
}

// HostPath is one direction between two hosts.
type HostPath struct {
	Seen          bool           `json:"seen"`
	QPs           int            `json:"qps"` // distinct destinations, as far as counted
	SourcePorts   int            `json:"udp_source_ports"`
	DSCP          []int          `json:"dscp"`
	Priorities    []int          `json:"priorities"`
	VLANs         []*int         `json:"vlans"`  // null: without a tag
	MigReq        []bool         `json:"migreq"` // the values that streams began with
	RoCE          []int          `json:"roce_versions"`
	ECNCE         uint64         `json:"ecn_ce"`
	CNPs          uint64         `json:"cnps"`
	StrayCNPs     uint64         `json:"stray_cnps"` // of them: for queue pairs that are not in the capture
	CNPDSCP       []int          `json:"cnp_dscp"`
	CNPIntervalNS *int64         `json:"cnp_interval_ns"`
	Checksums     map[string]int `json:"udp_checksums"` // of the first packet of each stream: zero, right, partial, wrong
}

// PauseSender is a station that sends pause frames.
type PauseSender struct {
	MAC        string          `json:"mac"`
	PFC        uint64          `json:"pfc"`
	Global     uint64          `json:"global"`
	Malformed  uint64          `json:"malformed"`
	First      *Moment         `json:"first_xoff"`
	FirstNS    *int64          `json:"first_xoff_ns"`
	FirstFrame *uint64         `json:"first_frame"`
	Priorities []PausePriority `json:"priorities"` // those that it stopped or let go
}

// PausePriority is what a station did with one priority.
type PausePriority struct {
	Priority  *int   `json:"priority"` // null: the whole link
	XOFF      uint64 `json:"xoff"`
	XON       uint64 `json:"xon"`
	PausedNS  int64  `json:"paused_ns"`
	LongestNS int64  `json:"longest_ns"`
	MaxQuanta int    `json:"max_quanta"`
	Data      uint64 `json:"data"`    // packets that came to the station meanwhile
	Ignored   uint64 `json:"ignored"` // of them: later than any station may take to stop
}

// Shadow is what comparing READs and atomics with the memory rebuilt from WRITEs found.
type Shadow struct {
	Compared  uint64 `json:"compared_bytes"`
	Unknown   uint64 `json:"unknown_bytes"`
	Differing uint64 `json:"differing_answers"`
	Held      uint64 `json:"held_bytes"`
	Forgotten uint64 `json:"forgotten_bytes"`
}

// RTT is from a request that asks for an answer to that answer.
type RTT struct {
	Count uint64 `json:"count"`
	Min   *int64 `json:"min"`
	Mean  *int64 `json:"mean"`
	Max   *int64 `json:"max"`
}

// Reaction is how fast a sender was before and behind CNPs.
type Reaction struct {
	CNPs   uint64  `json:"cnps"`
	Before float64 `json:"before_bps"`
	After  float64 `json:"after_bps"`
}

// TimeBudget is where a requester's time went, in nanoseconds.
type TimeBudget struct {
	Total       int64 `json:"total"`
	Application int64 `json:"application"` // it had nothing to send
	InFlight    int64 `json:"in_flight"`
	RNR         int64 `json:"rnr"`
	Timeout     int64 `json:"timeout"`
	Recovery    int64 `json:"recovery"`
	Credit      int64 `json:"credit"`
	ReadDepth   int64 `json:"read_depth"`
	Congestion  int64 `json:"congestion"`
	Paused      int64 `json:"paused"`
}

// MemoryMap is the responder's memory, as the messages name it.
type MemoryMap struct {
	Regions  []MemoryRegion `json:"regions"`
	Refused  []Refusal      `json:"refused"`
	Overlaps uint64         `json:"overlaps"`
	More     bool           `json:"more"` // there were more rkeys than are kept
}

// MemoryRegion is what was done under one rkey.
type MemoryRegion struct {
	RKey       uint32      `json:"rkey"`
	Writes     uint64      `json:"writes"` // messages
	Reads      uint64      `json:"reads"`
	Atomics    uint64      `json:"atomics"`
	Written    []AddrRange `json:"written"`
	Read       []AddrRange `json:"read"`
	Atomic     []AddrRange `json:"atomic"`
	Merged     bool        `json:"merged"` // ranges that do not touch were merged, for there were too many
	FirstFrame *uint64     `json:"first_frame"`
	LastFrame  *uint64     `json:"last_frame"`
}

// AddrRange is the addresses from From up to To, which is not one of them.
type AddrRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Refusal is an access that the responder refused.
type Refusal struct {
	Operation string  `json:"operation"`
	VA        uint64  `json:"va"`
	RKey      uint32  `json:"rkey"`
	Bytes     uint64  `json:"bytes"`
	Status    string  `json:"status"`
	Frame     *uint64 `json:"frame"`
}

// Bucket is a part of a histogram of latencies: From <= latency < To. The last one has no end.
type Bucket struct {
	From  int64  `json:"from"`
	To    *int64 `json:"to"`
	Count uint64 `json:"count"`
}

// Series is how a connection went over time. Points without a packet are left out.
type Series struct {
	StartNS    int64   `json:"start_ns"`
	IntervalNS int64   `json:"interval_ns"`
	Points     []Point `json:"points"`
}

// Point is one interval.
type Point struct {
	TimeNS int64       `json:"time_ns"`
	AToB   PointStream `json:"a_to_b"`
	BToA   PointStream `json:"b_to_a"`
}

// PointStream is one direction of a point.
type PointStream struct {
	Packets         uint64  `json:"packets"`
	Bytes           uint64  `json:"bytes"`
	PayloadBytes    uint64  `json:"payload_bytes"`
	GoodputBPS      float64 `json:"goodput_bps"`
	Messages        uint64  `json:"messages"`
	Retransmissions uint64  `json:"retransmitted_packets"`
	ECNCE           uint64  `json:"ecn_ce"`
	CNPs            uint64  `json:"cnps"`
	InFlight        uint64  `json:"in_flight_bytes"`
	Outstanding     uint32  `json:"outstanding"`
	Credits         *int    `json:"credits"` // fewest that an answer granted; null: no answer told
	Latency         struct {
		Count uint64 `json:"count"`
		P50   *int64 `json:"p50"`
		P99   *int64 `json:"p99"`
		Max   *int64 `json:"max"`
	} `json:"latency_ns"`
	RTT struct {
		Count uint64 `json:"count"`
		Min   *int64 `json:"min"`
		Mean  *int64 `json:"mean"`
	} `json:"rtt_ns"`
}

func newHostPair(f *flows.HostPair) HostPair {
	return HostPair{A: f.A.String(), B: f.B.String(), AToB: newHostPath(&f.Paths[0]), BToA: newHostPath(&f.Paths[1])}
}

func newHostPath(f *flows.HostPath) HostPath {
	p := HostPath{
		Seen: f.Seen, QPs: f.QPs, SourcePorts: f.SrcPorts, DSCP: ints(f.DSCP), Priorities: ints(f.Priorities), VLANs: []*int{},
		MigReq: []bool{}, RoCE: []int{}, ECNCE: f.CE, CNPs: f.CNPs, StrayCNPs: f.StrayCNPs, CNPDSCP: ints(f.CNPDSCP),
		CNPIntervalNS: ns(int64(f.CNPInterval)),
		Checksums:     map[string]int{"zero": f.Checksums.Zero, "right": f.Checksums.Right, "partial": f.Checksums.Partial, "wrong": f.Checksums.Wrong},
	}
	for _, v := range f.VLANs {
		p.VLANs = append(p.VLANs, known(v))
	}
	if f.MigReqOff {
		p.MigReq = append(p.MigReq, false)
	}
	if f.MigReqOn {
		p.MigReq = append(p.MigReq, true)
	}
	if f.RoCEv1 {
		p.RoCE = append(p.RoCE, 1)
	}
	if f.RoCEv2 {
		p.RoCE = append(p.RoCE, 2)
	}
	return p
}

// wholeLink is the index of what is no priority: 802.3x stops all of a link.
const wholeLink = 8

func newPauseSender(f *flows.PauseSender) PauseSender {
	p := PauseSender{
		MAC: fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", f.MAC[0], f.MAC[1], f.MAC[2], f.MAC[3], f.MAC[4], f.MAC[5]),
		PFC: f.PFC, Global: f.Global, Malformed: f.Malformed,
		First: moment(f.FirstXOFF), FirstNS: ns(f.FirstXOFF), FirstFrame: frame(f.FirstFrame), Priorities: []PausePriority{},
	}
	for i := range f.Priorities {
		n := &f.Priorities[i]
		if n.XOFF+n.XON == 0 {
			continue
		}
		one := PausePriority{
			XOFF: n.XOFF, XON: n.XON, PausedNS: int64(n.Paused), LongestNS: int64(n.Longest), MaxQuanta: int(n.MaxQuanta), Data: n.Data, Ignored: n.Ignored,
		}
		if i != wholeLink {
			one.Priority = &i
		}
		p.Priorities = append(p.Priorities, one)
	}
	return p
}

func newRTT(f flows.RTT) RTT {
	r := RTT{Count: f.Count}
	if f.Count > 0 {
		r.Min, r.Mean, r.Max = span(f.Min), span(f.Mean), span(f.Max)
	}
	return r
}

// addDetails adds to a connection what only a bounded number of them have.
func (c *Connection) addDetails(f *flows.Detail) {
	if f == nil {
		return
	}
	for d, s := range []*Stream{&c.AToB, &c.BToA} {
		if b := &f.Budget[d]; b.Total > 0 {
			s.Time = &TimeBudget{
				Total: int64(b.Total), Application: int64(b.Application), InFlight: int64(b.InFlight), RNR: int64(b.RNR), Timeout: int64(b.Timeout),
				Recovery: int64(b.Recovery), Credit: int64(b.Credit), ReadDepth: int64(b.ReadDepth), Congestion: int64(b.Congestion), Paused: int64(b.Paused),
			}
		}
		if r := &f.Reaction[d]; r.CNPs > 0 {
			s.Reaction = &Reaction{CNPs: r.CNPs, Before: rate(r.Before), After: rate(r.After)}
		}
		s.Memory = newMemoryMap(&f.Memory[d])
	}
}

func newMemoryMap(f *flows.MemoryMap) *MemoryMap {
	if len(f.Regions)+len(f.Refused) == 0 {
		return nil
	}
	m := &MemoryMap{Regions: []MemoryRegion{}, Refused: []Refusal{}, Overlaps: f.Overlaps, More: f.More}
	for i := range f.Regions {
		r := &f.Regions[i]
		m.Regions = append(m.Regions, MemoryRegion{
			RKey: r.RKey, Writes: r.Writes, Reads: r.Reads, Atomics: r.Atomics,
			Written: ranges(r.Written), Read: ranges(r.Read), Atomic: ranges(r.Atomic), Merged: r.Merged,
			FirstFrame: frame(r.FirstFrame), LastFrame: frame(r.LatestFrame),
		})
	}
	for i := range f.Refused {
		r := &f.Refused[i]
		m.Refused = append(m.Refused, Refusal{Operation: r.Op.String(), VA: r.VA, RKey: r.RKey, Bytes: r.Bytes, Status: r.Status.String(), Frame: frame(r.Frame)})
	}
	return m
}

func ranges(list []flows.AddressRange) []AddrRange {
	out := make([]AddrRange, 0, len(list))
	for _, r := range list {
		out = append(out, AddrRange(r))
	}
	return out
}

// addSeries adds what is heavy, and so only there when asked for.
func (c *Connection) addSeries(f *flows.Connection) {
	for d, s := range []*Stream{&c.AToB, &c.BToA} {
		s.Histogram = []Bucket{}
		for _, b := range f.Streams[d].Latencies {
			one := Bucket{From: b.From, Count: b.Count}
			if b.To > 0 {
				one.To = &b.To
			}
			s.Histogram = append(s.Histogram, one)
		}
	}
	if f.Detail == nil {
		return
	}
	from := &f.Detail.Series
	c.Series = &Series{StartNS: from.Start, IntervalNS: int64(from.Interval), Points: make([]Point, 0, len(from.Points))}
	for i := range from.Points {
		p := &from.Points[i]
		c.Series.Points = append(c.Series.Points, Point{
			TimeNS: p.Time, AToB: newPointStream(&p.Streams[flows.AToB], c.Series.IntervalNS), BToA: newPointStream(&p.Streams[flows.BToA], c.Series.IntervalNS),
		})
	}
}

func newPointStream(f *flows.PointStream, interval int64) PointStream {
	p := PointStream{
		Packets: f.Packets, Bytes: f.Bytes, PayloadBytes: f.Payload, Messages: f.Messages, Retransmissions: f.Retransmissions,
		ECNCE: f.CE, CNPs: f.CNPs, InFlight: f.InFlight, Outstanding: f.Outstanding,
		GoodputBPS: rate(float64(f.Payload) * 8e9 / float64(max(interval, 1))),
	}
	if f.CreditsKnown {
		p.Credits = &f.Credits
	}
	p.Latency.Count = f.Latency.Count
	if f.Latency.Count > 0 {
		p.Latency.P50, p.Latency.P99, p.Latency.Max = span(f.Latency.P50), span(f.Latency.P99), span(f.Latency.Max)
	}
	p.RTT.Count = f.RTT.Count
	if f.RTT.Count > 0 {
		p.RTT.Min, p.RTT.Mean = span(f.RTT.Min), span(f.RTT.Mean)
	}
	return p
}
