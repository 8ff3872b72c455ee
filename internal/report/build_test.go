package report

import (
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

const (
	second = int64(time.Second)
	start  = 1_760_000_000 * second
)

func ptr[T any](v T) *T { return &v }

func qp(addr string, qpn uint32, state flows.State) flows.QP {
	return flows.QP{
		QPName: flows.QPName{Addr: dissect.AddrFrom(netip.MustParseAddr(addr)), VLAN: -1, QPN: qpn},
		Known:  true, State: state, PathMTU: 1024, HasPSN: true, FirstPSN: 0x264c54,
		InUse: flows.InUse{CreditLimit: -1},
	}
}

// troubled is a snapshot in which a lot went wrong: losses, a refusal, an IPv6 pair, a stream without a partner.
func troubled() *flows.Snapshot {
	s := &flows.Snapshot{
		Packets:   1518,
		Protocols: flows.ProtocolCounts{RoCEv2: 1477, CM: 6, SocketExchange: 35, PFC: 2, CNP: 1, Other: 4},
	}
	s.Opcodes[dissect.OpRCWriteFirst] = 300
	s.Opcodes[dissect.OpRCWriteLast] = 290
	s.Opcodes[dissect.OpRCAcknowledge] = 80
	s.ICRC[dissect.ICRCValid] = 1460
	s.ICRC[dissect.ICRCInvalid] = 3
	s.ICRC[dissect.ICRCNotCaptured] = 14

	lost := flows.Connection{
		ID: 1, Transport: dissect.RC, Evidence: flows.BySocket, Why: "both sides' address lines over TCP (frames 3 and 5)",
		A: qp("10.77.0.1", 0x14, flows.StateRTS), B: qp("10.77.0.2", 0x15, flows.StateRTR), Directions: 2, Tap: flows.TapNearB,
		FirstSeen: start + second, LastSeen: start + 3*second, FirstFrame: 17,
	}
	lost.A.Negotiated = flows.Negotiated{
		Set: true, PathMTU: 1024, StartPSN: 0x264c54, RetryCount: -1, RNRRetryCount: -1, ResponderResources: -1, InitiatorDepth: -1, AckTimeout: 14,
		RKey: 0x7d9, VA: 0x55f8f2bd7000, HasMemory: true,
	}
	lost.A.History = []flows.StateStep{
		{State: flows.StateRTR, Frame: 5, Time: start, Why: "the other side's QPN and PSN are known", Presumed: true},
		{State: flows.StateRTS, Frame: 17, Time: start + second, Why: "first request"},
	}
	lost.B.History = []flows.StateStep{{State: flows.StateRTR, Frame: 19, Time: start + second + 5000, Why: "first answer"}}
	ab := &lost.Streams[flows.AToB]
	*ab = flows.Stream{
		Packets: 302, Bytes: 334_000, PayloadBytes: 309_000, RetransmittedPackets: 62, RetransmittedBytes: 63_488,
		Duplicates: 5, OutOfOrder: 9, LostBeforeTap: 11, ECNCE: 4, Goodput: 1.2345e9, DSCP: []uint8{26}, SrcPorts: 1, SrcPort: 49152,
		FirstSeen: start + second, LastSeen: start + 3*second,
		Latency: flows.Latency{Count: 60, Coalesced: 12, Min: 81_000, P50: 123_456, P99: 71_234_567, Max: 80_000_000},
	}
	ab.Messages[flows.OpWrite] = flows.MessageCounts{Count: 60, Bytes: 245_760, Completed: 59, Imm: 2}
	ab.Retransmissions = [flows.NumCauses]uint64{flows.CauseNAK: 6, flows.CauseTimeout: 1}
	ba := &lost.Streams[flows.BToA]
	*ba = flows.Stream{Packets: 80, Bytes: 4960, Acks: 60, RNRNAKs: 3, RNRWait: 2 * time.Millisecond, CNPs: 1, SrcPorts: 1, SrcPort: 49152, FirstSeen: start + second, LastSeen: start + 3*second}
	ba.NAKs[dissect.NAKSequence] = 6

	lost.A.InUse = flows.InUse{
		SQSent: 60, SQAcked: 59, Outstanding: 16, OutstandingPackets: 64, CreditLimit: 75, Credits: 12, PathMTU: 1024, Retries: 3,
		TimeoutMin: 70_000_000, TimeoutMax: 83_000_000, TimeoutCodes: []uint8{12, 13},
	}
	lost.B.InUse = flows.InUse{RQConsumed: 2, CreditLimit: -1}
	lost.B.Negotiated = flows.Negotiated{
		Set: true, PathMTU: 2048, StartPSN: 0x10, RetryCount: 7, RNRRetryCount: 7, ResponderResources: 4, InitiatorDepth: 4, AckTimeout: 18, SRQ: true,
	}
	ab.RTT = flows.RTT{Count: 60, Min: 50_000, Mean: 60_000, Max: 71_000_000}
	ab.Priorities, ab.MigReq = []uint8{3}, true
	ab.Latencies = []flows.LatencyBucket{{From: 65536, To: 131072, Count: 58}, {From: 1 << 40, Count: 2}}
	ba.CNPDSCP, ba.CNPInterval = []uint8{48}, 50*time.Microsecond
	lost.Detail = &flows.Detail{}
	lost.Detail.Budget[flows.AToB] = flows.Budget{
		Total: 2 * time.Second, Application: time.Second, InFlight: 100 * time.Millisecond, RNR: 2 * time.Millisecond, Timeout: 800 * time.Millisecond,
		Recovery: 90 * time.Millisecond, Credit: time.Millisecond, ReadDepth: time.Millisecond, Congestion: 3 * time.Millisecond, Paused: 3 * time.Millisecond,
	}
	lost.Detail.Reaction[flows.AToB] = flows.RateReaction{CNPs: 1, Before: 9e9, After: 4.5e9}
	lost.Detail.Memory[flows.AToB] = flows.MemoryMap{
		Regions: []flows.MemoryRegion{{
			RKey: 0x7d9, Writes: 60, Written: []flows.AddressRange{{From: 0x1000, To: 0x2000}, {From: 0x8000, To: 0x9000}},
			Reads: 1, Read: []flows.AddressRange{{From: 0x1000, To: 0x1008}}, FirstFrame: 17, LatestFrame: 400,
		}},
		Refused:  []flows.Refusal{{Op: flows.OpWrite, VA: 0x5000, RKey: 0x7d9, Bytes: 8, Status: flows.StatusRemAccess, Frame: 777}},
		Overlaps: 3,
	}
	lost.Detail.Series = flows.Series{Start: start + second, Interval: time.Second, Points: []flows.Point{{Time: start + second}, {Time: start + 2*second}}}
	lost.Detail.Series.Points[0].Streams = [2]flows.PointStream{
		flows.AToB: {
			Packets: 200, Bytes: 220_000, Payload: 200_000, Messages: 40, InFlight: 65_536, Outstanding: 16, Credits: 24, CreditsKnown: true,
			Latency: flows.PointLatency{Count: 40, P50: 120_000, P99: 130_000, Max: 131_000}, RTT: flows.RTT{Count: 40, Min: 50_000, Mean: 60_000},
		},
		flows.BToA: {Packets: 40, Bytes: 2480},
	}
	lost.Detail.Series.Points[1].Streams[flows.AToB] = flows.PointStream{Packets: 102, Bytes: 114_000, Payload: 109_000, Retransmissions: 62, CE: 4, Outstanding: 1}

	s.HostPairs = []flows.HostPair{{A: lost.A.Addr, B: lost.B.Addr, Paths: [2]flows.HostPath{
		{Seen: true, QPs: 3, SrcPorts: 1, DSCP: []uint8{26}, Priorities: []uint8{3}, VLANs: []int{-1, 100}, MigReqOn: true, RoCEv2: true, CE: 4, Checksums: flows.Checksums{Zero: 3}},
		{Seen: true, QPs: 2, SrcPorts: 1, DSCP: []uint8{0, 26}, MigReqOff: true, RoCEv2: true, CNPs: 1, CNPDSCP: []uint8{48}, CNPInterval: 50 * time.Microsecond},
	}}}
	paused := flows.PauseSender{MAC: [6]byte{2, 0, 0, 0, 0x77, 2}, PFC: 2, FirstXOFF: start + second, FirstFrame: 20}
	paused.Priorities[3] = flows.PausePriority{XOFF: 1, XON: 1, Paused: 3 * time.Millisecond, Longest: 3 * time.Millisecond, MaxQuanta: 65535, Data: 2, Ignored: 1}
	paused.Priorities[8] = flows.PausePriority{XOFF: 1, Paused: time.Microsecond, Longest: time.Microsecond, MaxQuanta: 4}
	s.Pauses = []flows.PauseSender{paused}
	s.Shadow = flows.ShadowMemory{On: true, Compared: 8200, Unknown: 56, Differing: 2, Bytes: 61440, Forgotten: 4096}

	refused := flows.Connection{
		ID: 2, Transport: dissect.RC, Evidence: flows.ByCM, Why: "REQ (frame 600), REP (frame 601)", ServiceID: 0x1060000,
		A: qp("2001:db8:aaaa:bbbb:cccc:dddd:eeee:1", 0x1a2b3c, flows.StateError), B: qp("2001:db8:aaaa:bbbb:cccc:dddd:eeee:2", 0x11, flows.StateRTS),
		Directions: 2, FirstSeen: start + 4*second, LastSeen: start + 5*second, FirstFrame: 600, Established: start + 4*second,
	}
	refused.A.VLAN, refused.B.VLAN = 100, 100
	refused.B.PathMTU = 2048
	refused.Streams[flows.AToB].Messages[flows.OpCompareSwap] = flows.MessageCounts{Count: 3, Bytes: 24, Completed: 3}
	refused.Streams[flows.AToB].Messages[flows.OpFetchAdd] = flows.MessageCounts{Count: 2, Bytes: 16, Completed: 1, Failed: 1}
	refused.Streams[flows.AToB].Packets = 5
	refused.Streams[flows.BToA].Messages[flows.OpSend] = flows.MessageCounts{Count: 7, Bytes: 700, Completed: 7, Inv: 7}
	refused.Streams[flows.BToA].Packets = 12
	refused.Streams[flows.BToA].NAKs[dissect.NAKRemoteAccess] = 1

	alone := flows.Connection{
		ID: 3, Transport: dissect.UC, Evidence: flows.Unpaired, Why: "a UC stream without a reverse packet: its source QP cannot be known",
		A: qp("10.77.0.1", 0, flows.StateRTS), B: qp("10.77.0.2", 0x17, flows.StateUnknown), Directions: 1, FirstFrame: 900,
		FirstSeen: start + 5*second, LastSeen: start + 6*second,
	}
	alone.A.Known = false
	alone.Streams[flows.AToB].Messages[flows.OpWrite] = flows.MessageCounts{Count: 10, Bytes: 40_000, Completed: 8}
	alone.Streams[flows.AToB].Packets = 38
	alone.Streams[flows.AToB].LostBeforeTap = 2

	unsure := flows.Connection{
		ID: 4, Transport: dissect.RC, Evidence: flows.Ambiguous, Why: "two queue pairs acknowledge the same PSNs",
		A: qp("10.77.0.1", 0x20, flows.StateRTS), B: qp("10.77.0.2", 0, flows.StateUnknown), Directions: 1, FirstFrame: 950,
		Candidates: []flows.QPName{{Addr: dissect.AddrFrom(netip.MustParseAddr("10.77.0.2")), VLAN: -1, QPN: 0x21}, {Addr: dissect.AddrFrom(netip.MustParseAddr("10.77.0.2")), VLAN: -1, QPN: 0x22}},
	}
	unsure.B.Known = false
	unsure.Streams[flows.AToB].Messages[flows.OpRead] = flows.MessageCounts{Count: 2, Bytes: 8192}
	unsure.Streams[flows.AToB].Packets = 2
	unsure.Streams[flows.BToA] = flows.Stream{Packets: 8, LostBehindTap: 1}

	datagram := flows.Connection{
		ID: 5, Transport: dissect.UD, Evidence: flows.ByDETH,
		A: qp("10.77.0.1", 0x30, flows.StateRTS), B: qp("10.77.0.2", 0x31, flows.StateUnknown), Directions: 1, FirstFrame: 1000,
	}
	datagram.Streams[flows.AToB].Messages[flows.OpSend] = flows.MessageCounts{Count: 20, Bytes: 20_000, Completed: 20}
	datagram.Streams[flows.AToB].Packets = 20
	other := datagram
	other.ID, other.B = 6, qp("10.77.0.3", 0x32, flows.StateUnknown)

	s.Connections = []flows.Connection{lost, refused, alone, unsure, datagram, other}
	return s
}

func troubledCapture() Capture {
	return Capture{
		Files: []string{"captures/trouble.pcapng"}, Packets: 1518, Bytes: 500_000, CapturedBytes: 480_000,
		First: start, Last: start + 6*second + 4321, LinkTypes: []string{"Ethernet"}, Truncated: 14, Malformed: 1,
		Errors: []string{"trouble.pcapng: block 1519 at offset 0x7a120: cut off"},
	}
}

// troubledDocument has findings, written here so that the layout does not change with the check table's words.
func troubledDocument() *Document {
	d := NewDocument(troubled(), troubledCapture())
	ab := "a_to_b"
	d.Findings = []Finding{
		{
			ID: "nak_remote_access", Title: "Refused: remote access error", Severity: "error", Connection: ptr(uint32(2)), Stream: &ab, Frame: ptr(uint64(777)), Time: ptr(Moment(start + 4*second)), TimeNS: ptr(start + 4*second),
			Summary:     "10.77.0.2 QP 0x000011 refused message 4, FETCH+ADD of 8 B at VA 0x55f8f2bd7004 with rkey 0x7d9: remote access error (completion status 10).",
			Explanation: "The responder checked the rkey, the address range and the access rights, and one of them did not fit.",
			Rule:        "IBA 9.7.5.2.8", Try: "Compare rkey and address with what the responder registered; three other requests with this rkey worked.", Count: 1,
		},
		{
			ID: "loss_recovered", Title: "Loss was made good", Severity: "warning", Connection: ptr(uint32(1)), Stream: &ab, Frame: ptr(uint64(40)), Time: ptr(Moment(start + second)), TimeNS: ptr(start + second + 12_345_678),
			Summary: "11 packets were lost before this tap; 6 NAKs made the requester send 62 packets (62.0 KiB) again.",
			Try:     "Look at drop counters between requester and tap.", Count: 6,
		},
		{
			ID: "loss_recovered", Title: "Loss was made good", Severity: "warning", Connection: ptr(uint32(3)), Stream: &ab, Frame: ptr(uint64(903)), Summary: "2 packets were lost.",
			Try: "Look at drop counters between requester and tap.", Count: 1,
		},
		{ID: "capture_cut", Title: "Packets were cut short", Severity: "note", Summary: "The capture kept 96 bytes of each packet; 14 ICRCs could not be checked (≤ 1 %).", Count: 14},
	}
	return d
}

// healthy is the usual first capture: one connection, nothing wrong.
func healthy() *Document {
	s := &flows.Snapshot{Packets: 120, Protocols: flows.ProtocolCounts{RoCEv2: 120}}
	s.ICRC[dissect.ICRCValid] = 120
	c := flows.Connection{
		ID: 1, Transport: dissect.RC, Evidence: flows.ByCM, Why: "REQ (frame 1), REP (frame 2)", Directions: 2,
		A: qp("192.168.100.101", 0x11, flows.StateRTS), B: qp("192.168.100.102", 0x12, flows.StateRTS), FirstSeen: start, LastSeen: start + second,
	}
	c.Streams[flows.AToB] = flows.Stream{Packets: 100, PayloadBytes: 65536, Goodput: 94.1e9, Latency: flows.Latency{Count: 20, Min: 1500, P50: 2100, P99: 3400, Max: 3500}}
	c.Streams[flows.AToB].Messages[flows.OpWrite] = flows.MessageCounts{Count: 20, Bytes: 65536, Completed: 20}
	c.Streams[flows.BToA] = flows.Stream{Packets: 20, Acks: 20}
	s.Connections = []flows.Connection{c}
	return NewDocument(s, Capture{Files: []string{"good.pcap"}, Packets: 120, First: start, Last: start + second/2})
}
