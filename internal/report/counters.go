package report

import (
	"fmt"
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// predictor is a row of the table of counters: what of the capture predicts the counter, and how far it may be off for
// reasons that the capture itself shows.
type predictor struct {
	names   []string // as drivers spell it
	about   string   // what it counts
	predict func(v *hostView) uint64
	slack   func(v *hostView) []slack
	ifMore  string // what it means that the device counts more, without an explanation; "" = the usual
	ifFewer string
}

// What a difference means where the table has no words of its own.
const (
	usuallyMore  = "The capture does not have all that the device counted."
	usuallyFewer = "The device did not get, or did not count, what came past the tap."
)

// slack is by how much a device may count more, or fewer, than the capture predicts, and why.
type slack struct {
	more, fewer uint64
	why         string
}

// predictorTable is the one table of counters. To teach the program another one, add a row or a name. rxe is Linux's
// soft-RoCE; mlx5, bnxt_re and irdma are the drivers of NVIDIA's, Broadcom's and Intel's adapters.
var predictorTable = []predictor{
	{
		names:   []string{"sent_pkts", "tx_vport_rdma_unicast_packets", "tx_roce_only_pkts", "TxUDP"}, // rxe, mlx5 (ethtool), bnxt_re, irdma
		about:   "RoCE packets sent",
		predict: func(v *hostView) uint64 { return v.packets.sent },
		slack: func(v *hostView) []slack {
			return []slack{
				{more: v.out.LostBeforeTap, why: fmt.Sprintf("%s lost between this host and the tap", were(v.out.LostBeforeTap, "packet"))},
				{fewer: v.out.NetworkDuplicates, why: fmt.Sprintf("%s doubled between this host and the tap", were(v.out.NetworkDuplicates, "packet"))},
				{fewer: v.packets.multicastSent, why: "a counter of unicast leaves multicast out"},
			}
		},
		ifMore:  "Packets of it were lost before the tap, or the capture does not cover the time between the two readings.",
		ifFewer: "Packets of it were doubled before the tap, or the two readings do not cover the capture.",
	},
	{
		names:   []string{"rcvd_pkts", "rx_vport_rdma_unicast_packets", "rx_roce_only_pkts", "RxUDP"},
		about:   "RoCE packets received",
		predict: func(v *hostView) uint64 { return v.packets.received },
		slack: func(v *hostView) []slack {
			return []slack{
				{more: v.packets.multicastSent, why: "the host gets its own multicast packets back, and the wire does not show that"},
				{more: v.multicast, why: "multicast packets of others reach it if it is a member of their group"},
				{fewer: v.packets.badReceived, why: fmt.Sprintf("%s dropped uncounted because of a wrong ICRC", were(v.packets.badReceived, "packet"))},
				{fewer: v.in.LostBehindTap, why: fmt.Sprintf("%s lost between the tap and this host", were(v.in.LostBehindTap, "packet"))},
				{fewer: v.packets.cnpReceived, why: "CNPs may not count as packets"},
				{fewer: v.unanswered, why: "nobody answered its peer any more: packets to a queue pair that is gone are dropped uncounted"},
				{fewer: v.in.RetransmittedPackets + v.out.RetransmittedPackets, why: "packets had to be sent again: of them and their answers some were lost between the tap and this host, or came when their queue pair was gone, and are dropped uncounted"},
			}
		},
		ifMore:  "Packets were doubled behind the tap, or the capture does not have all that it got.",
		ifFewer: "Packets were lost between the tap and the device, or dropped by it before they were counted: look at its discard counters.",
	},
	{
		names:   []string{"duplicate_request", "dup_req"},
		about:   "requests that came more than once",
		predict: func(v *hostView) uint64 { return v.in.Duplicates },
		slack: func(v *hostView) []slack {
			return []slack{{
				fewer: when(v.in.RetransmittedPackets+v.in.Reordered > 0, v.in.Duplicates),
				why:   "of a repeated request the responder counts only one that it had accepted before, not one that it had dropped as out of sequence or refused, nor one whose queue pair was gone",
			}}
		},
		ifMore: "Requests were doubled behind the tap, or it takes new requests for old ones: look at how it compares the PSN with the expected one.",
	},
	{
		names:   []string{"out_of_seq_request"}, // rxe
		about:   "requests behind a gap that were answered by a sequence NAK",
		predict: func(v *hostView) uint64 { return v.out.NAKs[dissect.NAKSequence] },
		slack: func(v *hostView) []slack {
			return []slack{
				{more: v.out.LostBeforeTap, why: "NAKs may have been lost between this host and the tap"},
				{more: v.packets.badSent, why: "NAKs may be among its packets that came damaged to the tap"},
			}
		},
		ifMore: "Sequence NAKs of it did not come past the tap.",
	},
	{
		names:   []string{"out_of_sequence", "oos_drop_count", "rx_out_of_sequence", "Rcvd Out of order packets"}, // mlx5; bnxt_re; irdma
		about:   "packets that were not the expected next",
		predict: func(v *hostView) uint64 { return v.in.OutOfOrder + v.in.LostBehindTap },
		slack: func(v *hostView) []slack {
			return []slack{{more: v.in.Duplicates + v.in.RetransmittedPackets, why: "the device counts each packet behind a gap until the missing one comes; predicted is the number of gaps"}}
		},
		ifMore: "Packets were lost or overtaken between the tap and the device.",
	},
	{
		names:   []string{"rcvd_seq_err"}, // rxe
		about:   "sequence NAKs received that made it go back",
		predict: func(v *hostView) uint64 { return v.out.Retransmissions[flows.CauseNAK] },
		slack: func(v *hostView) []slack {
			return []slack{{
				fewer: v.out.Retransmissions[flows.CauseNAK],
				why:   "soft-RoCE counts a sequence NAK only where it acknowledges something new as well; predicted is each go-back behind one",
			}}
		},
		ifMore: "NAKs that it got did not come past the tap.",
	},
	{
		names:   []string{"packet_seq_err", "seq_err_naks_rcvd", "Nak Sequence Error"}, // mlx5, bnxt_re, irdma
		about:   "sequence NAKs received",
		predict: func(v *hostView) uint64 { return v.in.NAKs[dissect.NAKSequence] },
		ifMore:  "The capture does not have all of them.",
		ifFewer: "NAKs were lost between the tap and the device.",
	},
	{
		names:   []string{"implied_nak_seq_err", "Nak Sequence Error Implied"}, // mlx5, irdma
		about:   "answers to READs or atomics that skipped a PSN",
		predict: func(v *hostView) uint64 { return v.responseGaps },
		slack: func(v *hostView) []slack {
			return []slack{{fewer: v.responseGaps, more: when(v.responseGaps > 0, v.in.RetransmittedPackets), why: "one loss may leave several gaps, and devices differ in which they count"}}
		},
		ifMore: "Answers were lost between the tap and the device.",
	},
	{
		names: []string{"completer_retry_err"}, // rxe
		about: "times that it went back, for whatever reason but an RNR NAK",
		predict: func(v *hostView) uint64 {
			r := &v.out.Retransmissions
			return r[flows.CauseNAK] + r[flows.CauseTimeout] + r[flows.CauseSpurious]
		},
		slack: func(v *hostView) []slack {
			r := &v.out.Retransmissions
			all := r[flows.CauseNAK] + r[flows.CauseTimeout] + r[flows.CauseSpurious]
			return []slack{
				{more: when(v.in.RNRNAKs > 0, v.in.NAKs[dissect.NAKSequence]), why: "sequence NAKs that packets behind a refused message drew count as go-backs for the stack, while predicted is one wait for the receiver"},
				{more: when(v.out.Reordered > 0, all), fewer: when(v.out.Reordered > 0, all), why: "packets were overtaken on their way to the tap, so that several go-backs stand mixed in the capture: their number is an estimate"},
				{more: v.out.Ambiguous, why: "for some resends the wire does not tell whether they were a go-back, so they are not predicted"},
			}
		},
		ifMore: "Resends were lost before the tap, or the capture does not have all of them.",
	},
	{
		names: []string{"local_ack_timeout_err", "to_retransmits", "RTO"}, // mlx5, bnxt_re, irdma
		about: "times that its ACK timer ran out",
		predict: func(v *hostView) uint64 {
			return v.out.Retransmissions[flows.CauseTimeout] + v.out.Retransmissions[flows.CauseSpurious]
		},
		slack: func(v *hostView) []slack {
			return []slack{
				{fewer: v.out.Retransmissions[flows.CauseSpurious], why: "requests sent again although their ACK had passed the tap need not be time-outs"},
				{more: v.retryExceeded + v.openAgain, why: "the last time-out of a message that is given up makes it send nothing again"},
			}
		},
		ifMore:  "It sent again what did not come past the tap.",
		ifFewer: "It repeats requests for another reason than a time-out.",
	},
	{
		names:   []string{"send_rnr_err", "RNR sent"}, // rxe, irdma
		about:   "RNR NAKs sent",
		predict: func(v *hostView) uint64 { return v.out.RNRNAKs },
		ifMore:  "RNR NAKs were lost before the tap.",
	},
	{
		names:   []string{"rcvd_rnr_err", "rnr_nak_retry_err", "rnr_naks_rcvd", "RNR received"}, // rxe, mlx5, bnxt_re, irdma
		about:   "RNR NAKs received",
		predict: func(v *hostView) uint64 { return v.in.RNRNAKs },
		ifFewer: "RNR NAKs were lost between the tap and the device.",
	},
	{
		names:   []string{"out_of_buffer", "rx_out_of_buffer"}, // mlx5, bnxt_re
		about:   "requests that found no receive WQE",
		predict: func(v *hostView) uint64 { return v.out.RNRNAKs },
		slack: func(v *hostView) []slack {
			return []slack{{more: v.unreliableIn, why: "UC and UD messages that find no receive are dropped without a word on the wire"}}
		},
		ifMore: "It dropped requests without an RNR NAK.",
	},
	{
		names:   []string{"retry_exceeded_err", "req_transport_retries_exceeded", "max_retry_exceeded"}, // rxe, mlx5, bnxt_re
		about:   "messages given up because nobody answered",
		predict: func(v *hostView) uint64 { return v.retryExceeded },
		slack: func(v *hostView) []slack {
			return []slack{
				{more: v.openAgain, why: "a message that had been sent again was still open when the capture ended: silence so short does not prove that it was given up"},
				{more: v.rnrExceeded, fewer: v.retryExceeded, why: "that a message was given up is concluded from silence"},
			}
		},
		ifMore: "It gave up messages that the capture does not have.",
	},
	{
		names:   []string{"retry_rnr_exceeded_err", "req_rnr_retries_exceeded"}, // rxe, mlx5
		about:   "messages given up because the receiver was never ready",
		predict: func(v *hostView) uint64 { return v.rnrExceeded },
		slack: func(v *hostView) []slack {
			return []slack{{more: v.openRNR, why: "a message that waited for the receiver was still open when the capture ended"}}
		},
		ifMore: "It gave up messages that the capture does not have.",
	},
	{
		names:   []string{"rdma_sends"}, // rxe
		about:   "SENDs completed, management datagrams included",
		predict: func(v *hostView) uint64 { return v.out.Messages[flows.OpSend].Completed + v.packets.madsSent },
		slack: func(v *hostView) []slack {
			return []slack{{more: v.out.LostBeforeTap, why: "messages of packets that were lost before the tap are not all seen"}}
		},
		ifMore: "The capture does not have all of its SENDs.",
	},
	{
		names:   []string{"rdma_recvs"}, // rxe
		about:   "receive WQEs used, management datagrams included",
		predict: func(v *hostView) uint64 { return v.rqUsed + v.packets.madsReceived },
		slack: func(v *hostView) []slack {
			return []slack{
				{more: v.multicast, why: "multicast packets of others reach it if it is a member of their group"},
				{fewer: v.unreliableIn, why: "UC and UD messages that find no receive are dropped without a word on the wire"},
			}
		},
		ifFewer: "Messages did not reach their receive queue although they were acknowledged.",
	},
	{
		names:   []string{"rx_write_requests"}, // mlx5
		about:   "WRITE requests received",
		predict: func(v *hostView) uint64 { return v.in.Messages[flows.OpWrite].Count },
		slack:   requestSlack,
		ifFewer: "Requests were lost between the tap and the device.",
	},
	{
		names:   []string{"rx_read_requests"}, // mlx5
		about:   "READ requests received",
		predict: func(v *hostView) uint64 { return v.in.Messages[flows.OpRead].Count },
		slack:   requestSlack,
		ifFewer: "Requests were lost between the tap and the device.",
	},
	{
		names: []string{"rx_atomic_requests"}, // mlx5
		about: "atomics received",
		predict: func(v *hostView) uint64 {
			return v.in.Messages[flows.OpCompareSwap].Count + v.in.Messages[flows.OpFetchAdd].Count
		},
		slack:   requestSlack,
		ifFewer: "Requests were lost between the tap and the device.",
	},
	{
		names:   []string{"tx_read_req"}, // bnxt_re counts packets, here and below
		about:   "READ request packets sent",
		predict: func(v *hostView) uint64 { return v.packets.requestsSent[dissect.Read] },
		slack:   sentSlack,
		ifMore:  "Packets were lost before the tap.",
	},
	{
		names:   []string{"tx_read_resp"},
		about:   "READ response packets sent",
		predict: func(v *hostView) uint64 { return v.packets.responsesSent[dissect.Read] },
		slack:   sentSlack,
		ifMore:  "Packets were lost before the tap.",
	},
	{
		names:   []string{"tx_write_req"},
		about:   "WRITE packets sent",
		predict: func(v *hostView) uint64 { return v.packets.requestsSent[dissect.Write] },
		slack:   sentSlack,
		ifMore:  "Packets were lost before the tap.",
	},
	{
		names:   []string{"tx_send_req"},
		about:   "SEND packets sent",
		predict: func(v *hostView) uint64 { return v.packets.requestsSent[dissect.Send] },
		slack:   sentSlack,
		ifMore:  "Packets were lost before the tap.",
	},
	{
		names: []string{"tx_atomic_req", "Tx atomics"}, // bnxt_re, irdma
		about: "atomics sent",
		predict: func(v *hostView) uint64 {
			return v.packets.requestsSent[dissect.CompareSwap] + v.packets.requestsSent[dissect.FetchAdd]
		},
		slack:  sentSlack,
		ifMore: "Packets were lost before the tap.",
	},
	{
		names:   []string{"rx_read_req"},
		about:   "READ request packets received",
		predict: func(v *hostView) uint64 { return v.packets.requestsReceived[dissect.Read] },
		slack:   receivedSlack,
		ifFewer: "Packets were lost between the tap and the device.",
	},
	{
		names:   []string{"rx_read_resp"},
		about:   "READ response packets received",
		predict: func(v *hostView) uint64 { return v.packets.responsesReceived[dissect.Read] },
		slack:   receivedSlack,
		ifFewer: "Packets were lost between the tap and the device.",
	},
	{
		names:   []string{"rx_write_req"},
		about:   "WRITE packets received",
		predict: func(v *hostView) uint64 { return v.packets.requestsReceived[dissect.Write] },
		slack:   receivedSlack,
		ifFewer: "Packets were lost between the tap and the device.",
	},
	{
		names:   []string{"rx_send_req"},
		about:   "SEND packets received",
		predict: func(v *hostView) uint64 { return v.packets.requestsReceived[dissect.Send] },
		slack:   receivedSlack,
		ifFewer: "Packets were lost between the tap and the device.",
	},
	{
		names: []string{"rx_atomic_req", "Rx atomics"},
		about: "atomics received",
		predict: func(v *hostView) uint64 {
			return v.packets.requestsReceived[dissect.CompareSwap] + v.packets.requestsReceived[dissect.FetchAdd]
		},
		slack:   receivedSlack,
		ifFewer: "Packets were lost between the tap and the device.",
	},
	{
		names:   []string{"req_remote_access_errors", "remote_access_err"}, // mlx5, bnxt_re
		about:   "its requests refused by a NAK: remote access error",
		predict: func(v *hostView) uint64 { return v.in.NAKs[dissect.NAKRemoteAccess] },
		ifFewer: "The NAK did not reach it.",
	},
	{
		names:   []string{"req_remote_invalid_request", "remote_invalid_req_err"},
		about:   "its requests refused by a NAK: invalid request",
		predict: func(v *hostView) uint64 { return v.in.NAKs[dissect.NAKInvalidRequest] },
		ifFewer: "The NAK did not reach it.",
	},
	{
		names:   []string{"remote_op_err"},
		about:   "its requests refused by a NAK: remote operational error",
		predict: func(v *hostView) uint64 { return v.in.NAKs[dissect.NAKRemoteOperational] },
		ifFewer: "The NAK did not reach it.",
	},
	{
		names:   []string{"resp_remote_access_errors"},
		about:   "requests that it refused: remote access error",
		predict: func(v *hostView) uint64 { return v.out.NAKs[dissect.NAKRemoteAccess] },
		ifMore:  "Its NAK was lost before the tap.",
	},
	{
		names:   []string{"np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd"}, // mlx5, bnxt_re, irdma
		about:   "packets received with congestion experienced (CE)",
		predict: func(v *hostView) uint64 { return v.packets.marked },
		slack: func(v *hostView) []slack {
			return []slack{{fewer: v.in.LostBehindTap, why: "marked packets may have been lost between the tap and this host"}}
		},
		ifMore: "A switch between the tap and the device marks packets.",
	},
	{
		names:   []string{"np_cnp_sent", "tx_cnp_pkts", "cnpSent"},
		about:   "CNPs sent",
		predict: func(v *hostView) uint64 { return v.packets.cnpSent },
		ifMore:  "CNPs were lost before the tap, or went another way.",
	},
	{
		names:   []string{"rp_cnp_handled", "rx_cnp_pkts", "cnpHandled"},
		about:   "CNPs received and obeyed",
		predict: func(v *hostView) uint64 { return v.packets.cnpReceived },
		ifFewer: "It ignored CNPs (see rp_cnp_ignored), or they were lost between the tap and the device.",
	},
	{
		names:   []string{"rp_cnp_ignored", "cnpIgnored"},
		about:   "CNPs received and not obeyed",
		predict: func(*hostView) uint64 { return 0 },
		ifMore:  "The device got CNPs that it did not act on: look whether its congestion control is on for this priority, and whether the queue pair is known.",
	},
	{
		names:   []string{"rx_icrc_encapsulated", "CRC errors"}, // mlx5, irdma
		about:   "RoCE packets received with a wrong ICRC",
		predict: func(v *hostView) uint64 { return v.packets.badReceived },
		ifMore:  "Packets were damaged between the tap and the device, or it computes another ICRC than their sender.",
	},
	{names: []string{"ack_deferred", "send_err", "link_downed"}, about: "the inside of soft-RoCE"},
	{names: []string{"lifespan"}, about: "how long the kernel keeps a reading, in ms; not a counter"},
	{names: []string{"resp_local_length_error", "resp_cqe_error", "req_cqe_error", "resp_cqe_flush_error", "req_cqe_flush_error"}, about: "completions with an error, which the wire does not show"},
	{names: []string{"roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans"}, about: "the adapter's own retransmission scheme"},
}

// predictors is the table by name.
var predictors = sync.OnceValue(func() map[string]*predictor {
	m := map[string]*predictor{}
	for i := range predictorTable {
		for _, name := range predictorTable[i].names {
			m[name] = &predictorTable[i]
		}
	}
	return m
})

func requestSlack(v *hostView) []slack {
	return []slack{
		{more: v.in.RetransmittedPackets, why: "the device counts requests that were sent again; predicted is each message once"},
		{fewer: v.in.LostBehindTap, why: "requests were lost between the tap and this host"},
	}
}

func sentSlack(v *hostView) []slack {
	return []slack{
		{more: v.out.LostBeforeTap, why: fmt.Sprintf("%s lost between this host and the tap", were(v.out.LostBeforeTap, "packet"))},
		{fewer: v.out.NetworkDuplicates, why: fmt.Sprintf("%s doubled between this host and the tap", were(v.out.NetworkDuplicates, "packet"))},
	}
}

func receivedSlack(v *hostView) []slack {
	return []slack{{fewer: v.in.LostBehindTap, why: fmt.Sprintf("%s lost between the tap and this host", were(v.in.LostBehindTap, "packet"))}}
}

func when(holds bool, n uint64) uint64 {
	if holds {
		return n
	}
	return 0
}

func were(n uint64, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return Plural(n, what) + " were"
}
