package report

import (
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/flows/iwarp"
)

// IWARPConnection is a TCP connection that carries iWARP. A is the initiator, who connects.
type IWARPConnection struct {
	ID         uint32       `json:"id"`
	A          TCPEnd       `json:"a"`
	B          TCPEnd       `json:"b"`
	VLAN       *int         `json:"vlan"`
	First      *Moment      `json:"first"`
	Last       *Moment      `json:"last"`
	FirstNS    *int64       `json:"first_ns"`
	LastNS     *int64       `json:"last_ns"`
	FirstFrame uint64       `json:"first_frame"`
	Packets    uint64       `json:"packets"` // of TCP
	CRC        bool         `json:"crc"`     // CRC-32C is used
	Request    *IWARPSetUp  `json:"request"` // null: not captured
	Reply      *IWARPSetUp  `json:"reply"`
	Terminated *string      `json:"terminated"` // the error that a Terminate message told
	Closed     bool         `json:"closed"`     // FIN or RST was seen
	AToB       *IWARPStream `json:"a_to_b"`
	BToA       *IWARPStream `json:"b_to_a"`
}

// TCPEnd is one end of a TCP connection.
type TCPEnd struct {
	Address string `json:"address"`
	Port    uint16 `json:"port"`
}

// IWARPSetUp is an MPA start-up frame.
type IWARPSetUp struct {
	Revision     int  `json:"revision"`
	Markers      bool `json:"markers"` // its sender wants to receive them
	CRC          bool `json:"crc"`
	Rejected     bool `json:"rejected"`
	IRD          *int `json:"ird"` // null: not told
	ORD          *int `json:"ord"`
	PrivateBytes int  `json:"private_bytes"`
}

// IWARPStream is one direction, with the messages asked for by who sends in it.
type IWARPStream struct {
	FPDUs        uint64                   `json:"fpdus"`
	PayloadBytes uint64                   `json:"payload_bytes"`
	Messages     map[string]MessageCounts `json:"messages"`
	Latency      Latency                  `json:"latency_ns"` // to TCP's acknowledgement, or to the end of the answer
	MaxReads     int                      `json:"max_reads"`  // READs and atomics open at a time
	Markers      uint64                   `json:"markers"`
	BadCRC       uint64                   `json:"bad_crc"`
	Again        uint64                   `json:"resent_segments"` // of TCP
	Lost         uint64                   `json:"capture_lost_bytes"`
	Resyncs      uint64                   `json:"resyncs"` // times that FPDUs had to be found
}

func newIWARP(s *flows.Snapshot) []IWARPConnection {
	list := make([]IWARPConnection, 0, len(s.IWARP))
	for i := range s.IWARP {
		c := &s.IWARP[i]
		n := IWARPConnection{
			ID: c.ID, A: TCPEnd{c.A.Addr.String(), c.A.Port}, B: TCPEnd{c.B.Addr.String(), c.B.Port}, VLAN: vlan(c.VLAN),
			First: moment(c.First), Last: moment(c.Last), FirstNS: ns(c.First), LastNS: ns(c.Last), FirstFrame: c.FirstFrame,
			Packets: c.Packets, CRC: c.CRC, Request: setUp(&c.Request), Reply: setUp(&c.Reply), Closed: c.Closed,
			AToB: iwarpStream(&c.Streams[iwarp.AToB]), BToA: iwarpStream(&c.Streams[iwarp.BToA]),
		}
		if c.Terminated {
			why := c.Error.String()
			n.Terminated = &why
		}
		list = append(list, n)
	}
	return list
}

func setUp(u *iwarp.SetUp) *IWARPSetUp {
	if !u.Seen {
		return nil
	}
	s := &IWARPSetUp{Revision: int(u.Revision), Markers: u.Markers, CRC: u.CRC, Rejected: u.Rejected, PrivateBytes: u.Private}
	if u.Enhanced {
		ird, ord := int(u.IRD), int(u.ORD)
		s.IRD, s.ORD = &ird, &ord
	}
	return s
}

func iwarpStream(s *iwarp.Stream) *IWARPStream {
	n := &IWARPStream{
		FPDUs: s.FPDUs, PayloadBytes: s.Payload, Messages: map[string]MessageCounts{}, Latency: Latency{Count: s.Latency.Count},
		MaxReads: s.MaxReads, Markers: s.Markers, BadCRC: s.BadCRC, Again: s.Again, Lost: s.Lost, Resyncs: s.Resyncs,
	}
	if l := s.Latency; l.Count > 0 {
		n.Latency.Min, n.Latency.P50, n.Latency.P99, n.Latency.Max = &l.Min, &l.P50, &l.P99, &l.Max
	}
	for op, m := range s.Messages {
		if m.Count > 0 {
			n.Messages[iwarp.Op(op).String()] = MessageCounts{Count: m.Count, Bytes: m.Bytes, Completed: m.Done}
		}
	}
	return n
}
