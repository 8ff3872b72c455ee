package bringup

import "context"

// Step is one step of the way.
type Step struct {
	Name   string `json:"name"`
	Proves string `json:"proves"`
	Means  string `json:"means"` // what it usually means in a core when it fails
	Look   string `json:"look"`  // what to look at then

	do func(*run, context.Context) (detail string, err error)
}

// Steps are all steps, in their order.
func Steps() []Step { return append([]Step(nil), steps...) }

var steps = []Step{
	{
		"ARP", "the link is up, frames get there and back, and the target knows its address (neighbour discovery for IPv6)",
		"the target's MAC drops the frames, or its ARP block has another address, or none was set; the answer has a wrong target MAC",
		"link state and speed on both sides (FEC and auto-negotiation as well), the core's address registers, its receive counters before any filter; a capture at the peer",
		(*run).arp,
	},
	{
		"ping", "IP works both ways: header checksum, lengths, and an answer to the address that asked",
		"the IP block checks the header checksum wrongly or answers with a wrong one, or the core has no ICMP: --skip ping then",
		"IP checksum and total length of the answer in a capture; whether the core has an ICMP block at all",
		(*run).ping,
	},
	{
		"UD", "datagrams to UDP port 4791 arrive at QP 1, their ICRC is accepted, and the answer's ICRC is right: a SIDR_REQ is answered, whatever it says",
		"the ICRC is computed wrongly (masked fields, the eight bytes of ones in front, byte order), QP 1 or its Q_Key 0x80010000 are not set up, or there is no communication manager: --skip UD, or --hand",
		"the core's ICRC error counter; a capture of the answer with rocescope show -V, which names a wrong ICRC and what it should be",
		(*run).datagram,
	},
	{
		"connect", "the two sides agree on QPNs, PSNs and path MTU, and the queue pair gets to RTS",
		"CM's REQ is answered by REJ (nobody listens on this port, or resources are out), or not at all; REP with a QPN or PSN in the wrong place",
		"the reason in the REJ, the service ID (port) that the target listens on, the state of its connection table",
		(*run).connect,
	},
	{
		"WRITE 1", "the smallest RC request is taken and acknowledged: queue pair context, rkey, address, pad of three bytes, and an ACK with right PSN and MSN",
		"no answer: the queue pair is not in RTR, its expected PSN is another, or its peer's QPN or address; NAK 0x60: the starting PSN is another; NAK 0x61: the length is taken from IP or UDP and the pad not taken off; NAK 0x62: rkey, address or access rights",
		"the core's queue pair context (state, expected PSN, remote QPN, remote address, remote MAC), its memory table, and its drop counters by reason",
		(*run).writeOne,
	},
	{
		"sizes", "messages of no byte, of every remainder of a word and a data bus, around the path MTU, and of several packets are acknowledged",
		"0 bytes: a state machine waits for a payload beat; around the bus width: byte enables (tkeep) of the last beat; above the path MTU: FIRST, MIDDLE and LAST are not put together, or the core's path MTU is another",
		"the first size that fails; byte enables and the length counter of the receive path in simulation with that size",
		(*run).sizes,
	},
	{
		"READ", "READs are answered, in as many packets as needed, and what was written stands in memory, byte for byte, with nothing beside it changed",
		"no answer: the request does not get to the DMA engine, or its answer is taken for a new request; wrong data: address or byte order; changed bytes behind the data: pad bytes are written",
		"the offset of the first wrong byte: a multiple of the path MTU points to addresses of later packets, one behind the data to pads, anything else to the data path",
		(*run).read,
	},
	{
		"ATOMIC", "FETCH_ADD and CMP_SWAP change memory once, and answer with the value before",
		"NAK 0x61: the core has no atomics, or the queue pair does not allow them (--skip ATOMIC, if that is known); value 0 in the answer: the data path of the answer is a stub; wrong sum: byte order",
		"the original value in ATOMIC ACK against what a READ shows before and after",
		(*run).atomic,
	},
	{
		"loss", "packets that are lost, or come twice, are asked for again or sent again, and data is right in the end",
		"no NAK 0x60 on a gap: loss is repaired by time-out only, or never; retry exceeded: the expected PSN moved on though the packet was not executed, or the core is silent after its NAK; wrong data: a duplicate was executed",
		"expected PSN in the core's context after the gap, and whether its NAK names it; then: rocescope test, every rule one by one",
		(*run).loss,
	},
}
