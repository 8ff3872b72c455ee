package report

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// MessageUpper is what an upper protocol says of a message.
type MessageUpper struct {
	Protocol     string  `json:"protocol"` // nvme, rpcrdma, iser, smbdirect
	Kind         string  `json:"kind"`     // of the payload; "data" where the message moves a request's data
	Summary      string  `json:"summary"`
	RequestFrame *uint64 `json:"request_frame"` // of the request that it answers, or whose data it moves
	LatencyNS    *int64  `json:"latency_ns"`    // of an answer, since its request
	Failed       bool    `json:"failed"`        // an answer that tells an error
}

// ConnectionUpper is how a connection used an upper protocol.
type ConnectionUpper struct {
	Protocol string        `json:"protocol"`
	KnownBy  string        `json:"known_by"`
	Queue    *int          `json:"queue"` // NVMe: 0 is the admin queue
	AToB     UpperRequests `json:"a_to_b"`
	BToA     UpperRequests `json:"b_to_a"`
}

// UpperRequests are the requests that one side sent, and the answers to them.
type UpperRequests struct {
	Requests      uint64        `json:"requests"`
	Answers       uint64        `json:"answers"`
	Failed        uint64        `json:"failed"`
	DataTransfers uint64        `json:"data_transfers"`
	Latency       *UpperLatency `json:"latency_ns"` // null: no answer to a request that was seen
}

// UpperLatency is the time from requests to their answers.
type UpperLatency struct {
	Count uint64 `json:"count"`
	Min   int64  `json:"min"`
	Mean  int64  `json:"mean"`
	Max   int64  `json:"max"`
}

func newMessageUpper(u *flows.Upper) *MessageUpper {
	if u == nil {
		return nil
	}
	m := &MessageUpper{Protocol: u.Protocol.Key(), Kind: u.Says(), Summary: u.Summary, RequestFrame: frame(u.Request), Failed: u.Failed}
	if u.Answers() {
		latency := u.Latency
		m.LatencyNS = &latency
	}
	return m
}

func newConnectionUpper(u *flows.UpperUse) *ConnectionUpper {
	if u == nil {
		return nil
	}
	c := &ConnectionUpper{
		Protocol: u.Protocol.Key(), KnownBy: u.Why,
		AToB: newUpperRequests(&u.Requests[flows.AToB]), BToA: newUpperRequests(&u.Requests[flows.BToA]),
	}
	if u.Queue >= 0 {
		queue := u.Queue
		c.Queue = &queue
	}
	return c
}

func newUpperRequests(f *flows.UpperCounts) UpperRequests {
	r := UpperRequests{Requests: f.Requests, Answers: f.Answers, Failed: f.Failed, DataTransfers: f.Data}
	if f.Matched > 0 {
		r.Latency = &UpperLatency{Count: f.Matched, Min: f.LatencyMin, Mean: int64(f.LatencySum / f.Matched), Max: f.LatencyMax}
	}
	return r
}

// upperText is a message's line, and for what belongs to a request which that is.
func upperText(m *Message) string {
	u := m.Upper
	switch {
	case u == nil:
		return ""
	case u.LatencyNS != nil:
		return fmt.Sprintf("%s (to frame %d, %s)", u.Summary, *u.RequestFrame, Duration(time.Duration(*u.LatencyNS)))
	case u.RequestFrame != nil:
		return fmt.Sprintf("%s (frame %d)", u.Summary, *u.RequestFrame)
	}
	return u.Summary
}

// upperTable is what the connections carried.
func upperTable(shown []*Connection) *table {
	tab := &table{columns: []column{
		{title: "conn", key: true, right: true},
		{title: "protocol"},
		{title: "stream"},
		{title: "requests", right: true},
		{title: "answers", right: true},
		{title: "failed", right: true},
		{title: "transfers", right: true},
		{title: "min", right: true},
		{title: "mean", right: true},
		{title: "max", right: true},
		{title: "known by"},
	}}
	for _, c := range shown {
		if c.Upper == nil {
			continue
		}
		name := c.Upper.Protocol
		if p, ok := dissect.UpperByKey(name); ok {
			name = p.String()
		}
		if q := c.Upper.Queue; q != nil {
			name += fmt.Sprintf(", queue %d", *q)
		}
		for _, s := range []struct {
			name string
			r    *UpperRequests
		}{{"a_to_b", &c.Upper.AToB}, {"b_to_a", &c.Upper.BToA}} {
			if s.r.Requests+s.r.Answers+s.r.DataTransfers == 0 && !(s.name == "a_to_b" && c.Upper.BToA.Requests == 0) {
				continue
			}
			var least, mean, most string
			if l := s.r.Latency; l != nil {
				least, mean, most = Duration(time.Duration(l.Min)), Duration(time.Duration(l.Mean)), Duration(time.Duration(l.Max))
			}
			tab.add(text(fmt.Sprint(c.ID)), text(name), text(arrow(s.name)), text(Count(s.r.Requests)), text(Count(s.r.Answers)), number(warning, s.r.Failed),
				text(Count(s.r.DataTransfers)), text(least), text(mean), text(most), text(ascii(c.Upper.KnownBy)))
		}
	}
	return tab
}
