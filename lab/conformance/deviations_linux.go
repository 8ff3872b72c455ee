package conformance

import (
	"regexp"
	"slices"

	"github.com/rocescope/rocescope/inject/suite"
)

// Deviation is a case in which Linux's soft-RoCE does something else than is required, and the one thing that it does instead.
type Deviation struct {
	Case   string
	Status suite.Status
	Seen   string // a pattern that all of the case's "seen" matches
	Where  string // in drivers/infiniband/sw/rxe of Linux 6.1.192: the file and its function
	Why    string
}

// Smoke are the few cases that are run before every change: both roles, both kinds of outcome.
var Smoke = []string{"GOOD-WRITE", "VLAN-01", "ICRC-01", "RETH-01", "LEN-06", "PSN-01", "PSN-09", "Q-WRITE", "Q-READ", "AETH-05", "NAK-05", "RSP-01"}

// differs is what a READ seems to have brought that its completion calls good.
const differs = `message 1: byte \d+ is 0x.. here and 0x.. at the device`

// The files of the driver that reasons point to.
const (
	comp = "rxe_comp.c: "
	resp = "rxe_resp.c: "
	recv = "rxe_recv.c: "
)

// Deviations of soft-RoCE, each held against the driver's source.
var Deviations = []Deviation{
	{
		Case: "RETH-10", Status: suite.Failed, Seen: "NAK-ACC: .*", Where: resp + "check_length, check_rkey",
		Why: "no request may be longer than 2^31 bytes (invalid request); check_length looks at nothing, and check_rkey holds the length against the memory region only, which is shorter",
	},
	{
		Case: "LEN-07", Status: suite.Failed, Seen: "NAK-ACC: .*", Where: resp + "check_length, check_rkey",
		Why: "as RETH-10: the length is held against the memory region only",
	},
	{
		Case: "LEN-HUGE", Status: suite.Failed, Seen: "1: none", Where: resp + "read_reply, prepare_ack_packet",
		Why: "the WRITE of 2^31 bytes is executed; of a READ of as many min_t(int, resid, mtu) is -2^31, no packet of that length can be had (alloc_skb), and an RNR NAK says so: the READ is sent again and again (an RNR retry count of 7 is endless)",
	},
	{
		Case: "LEN-06", Status: suite.Failed, Seen: "NAK-OP: .*", Where: "rxe_mr.c: copy_data; " + resp + "send_data_in",
		Why: "copy_data says EINVAL of a message that is longer than its receive; send_data_in takes anything but ENOSPC for a malformed WQE (NAK 3), and not for a length error (NAK 1)",
	},
	{
		Case: "PSN-18", Status: suite.Failed, Seen: `DUP-ACK: .*: its PSN is \d+ where 3 is due`, Where: resp + "duplicate_request, read_reply",
		Why: "a duplicate is acknowledged with the newest PSN executed; duplicate_request takes resp.ack_psn - 1, which execute and atomic_reply move on, and read_reply does not",
	},
	{
		Case: "UC-01", Status: suite.Failed, Seen: "12[0-8] bytes differ, the first at offset 1638[4-9]: .*", Where: resp + "check_op_seq, do_class_d1e_error",
		Why: "a new message begins anew (9.8.2.2.2); check_op_seq misses the LAST of the unfinished one, and do_class_d1e_error forgets that one only where a receive is held, which a WRITE does not hold: every later message is dropped",
	},
	{
		Case: "CC-01", Status: suite.Failed, Seen: "0", Where: "rxe_net.c: rxe_udp_encap_recv; rxe_opcode.c",
		Why: "it has no congestion control: nobody looks at the ECN bits, and the opcode table knows no CNP",
	},
	{Case: "CC-01-EVERY", Status: suite.Failed, Seen: "0", Where: "rxe_net.c: rxe_udp_encap_recv; rxe_opcode.c", Why: "as CC-01"},
	{Case: "CC-02", Status: suite.Failed, Seen: "0", Where: "rxe_net.c: rxe_udp_encap_recv; rxe_opcode.c", Why: "as CC-01"},
	{
		Case: "AETH-01", Status: suite.Failed, Seen: "it is in ERROR, and no completion is an error", Where: comp + "check_ack",
		Why: "whether a reserved syndrome is an error is left open; check_ack says so without setting the WQE's status: the request completes with SUCCESS, and the queue pair is in ERROR (10.3.1.7)",
	},
	{
		Case: "AETH-05", Status: suite.Failed, Seen: differs, Where: comp + "check_ack",
		Why: "a response whose AETH is no ACK must end the request as a bad response; check_ack goes to COMPST_ERROR without setting the WQE's status, which is SUCCESS still: the request completes with other data, and the queue pair is in ERROR",
	},
	{
		Case: "NAK-07", Status: suite.Failed, Seen: differs, Where: comp + "check_ack",
		Why: "as AETH-05",
	},
	{
		Case: "RSP-06", Status: suite.Failed, Seen: differs, Where: comp + "check_ack",
		Why: "as AETH-05: an ATOMIC ACK for a READ goes to COMPST_ERROR, and the READ completes with SUCCESS and without data",
	},
	{
		Case: "RSP-03", Status: suite.Failed, Seen: "1: SUCCESS", Where: comp + "check_ack",
		Why: "as AETH-05: a READ whose responses begin with a LAST completes with SUCCESS and with other data",
	},
	{
		Case: "RSP-04", Status: suite.Failed, Seen: "1: none", Where: comp + "do_read",
		Why: "a response that is shorter than it has to be is a local length error; do_read copies whatever came and never looks at the path MTU, so that at the LAST bytes are missing, and the rest is asked for at each time-out, again and again (a retry count of 7 is endless)",
	},

	// What the specification leaves open, or nobody confirms.
	{
		Case: "ETH-02", Status: suite.Reported, Seen: "ACK: .*", Where: recv + "hdr_check, check_addr",
		Why: "addresses are held against the IP header only; UDP hands up what came by a broadcast frame",
	},
	{
		Case: "IP-10-DF", Status: suite.Reported, Seen: "ACK: .*", Where: "rxe_net.c: rxe_udp_encap_recv",
		Why: "the packet comes from UDP, which does not ask for the flag, and rxe does not look at the IP header's flags",
	},
	{
		Case: "UDP-07", Status: suite.Reported, Seen: "ACK: .*", Where: "rxe_net.c: rxe_udp_encap_recv",
		Why: "pkt->paylen is UDP's length; what the IP datagram has behind it was cut off by UDP",
	},
	{
		Case: "BTH-02", Status: suite.Reported, Seen: "DROP: nothing", Where: recv + "rxe_rcv",
		Why: "an opcode without a row in the table is dropped before the queue pair is looked up",
	},
	{Case: "BTH-02-15", Status: suite.Reported, Seen: "DROP: nothing", Where: recv + "rxe_rcv", Why: "as BTH-02"},
	{Case: "BTH-02-18", Status: suite.Reported, Seen: "DROP: nothing", Where: recv + "rxe_rcv", Why: "as BTH-02"},
	{
		Case: "BTH-24", Status: suite.Reported, Seen: "DROP: nothing", Where: recv + "rxe_rcv; rxe_opcode.c",
		Why: "as BTH-02: the opcodes of annex A19 came with Linux 6.2",
	},
	{
		Case: "LEN-01-SEND", Status: suite.Reported, Seen: "ACK: .*", Where: resp + "check_length, send_data_in",
		Why: "check_length looks at nothing: a SEND's FIRST may have any length that fits the receive (WRITEs are checked in check_rkey)",
	},
	{
		Case: "RES-01-LATER", Status: suite.Reported, Seen: "NAK-SEQ: .*", Where: resp + "check_psn",
		Why: "an RNR NAK leaves resp.psn and sent_psn_nak as they are, so that the next request is one behind a gap",
	},
	{
		Case: "ACK-06", Status: suite.Disputed, Seen: "1: SUCCESS", Where: comp + "check_psn",
		Why: "a PSN beyond the WQE's last completes a SEND or WRITE; that it was never sent is not looked at",
	},
}

// known finds the deviation of a case.
func known(id string) *Deviation {
	i := slices.IndexFunc(Deviations, func(d Deviation) bool { return d.Case == id })
	if i < 0 {
		return nil
	}
	return &Deviations[i]
}

// is reports whether the outcome of a case is the one that the list has.
func (d *Deviation) is(c *suite.CaseResult) bool {
	return c.Status == d.Status && regexp.MustCompile("^(?:"+d.Seen+")$").MatchString(c.Seen)
}
