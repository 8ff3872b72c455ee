package rnic

import (
	"fmt"
	"slices"
	"strings"
)

// Misbehaviour is something that real devices were seen to do wrong, and that a device can be told to do (Options.Misbehave): a device
// to test testers with.
type Misbehaviour struct {
	Name   string
	Role   string // the side of a connection that shows it: "responder", "requester" or "both"
	Does   string // what the device does
	Right  string // what one that is right does
	Source string // the reports and rows of the fault catalogue (rocescope faults) that it comes from

	apply func(d *Device, do *behaviour)
}

// Misbehaviours lists what a device can do wrong.
func Misbehaviours() []Misbehaviour { return slices.Clone(misbehaviours[:]) }

// FindMisbehaviour returns the one of a name.
func FindMisbehaviour(name string) (*Misbehaviour, error) {
	var near []string
	for i := range misbehaviours {
		m := &misbehaviours[i]
		if m.Name == name {
			return m, nil
		}
		for _, word := range strings.Split(name, "-") {
			if len(word) > 2 && strings.Contains(m.Name, word) {
				near = append(near, m.Name)
				break
			}
		}
	}
	if len(near) > 0 {
		return nil, fmt.Errorf("no misbehaviour is called %q; similar ones are %s", name, strings.Join(near, ", "))
	}
	return nil, fmt.Errorf("no misbehaviour is called %q; --misbehave list shows all", name)
}

// The roles of misbehaviours.
const (
	asResponder = "responder"
	asRequester = "requester"
	asBoth      = "both"
)

// misbehaviours are in the order of a device's work: what arrives, the responder, the requester, what is sent. Sources: D… are reports
// of devices' failures, all others rows of the fault catalogue.
var misbehaviours = [...]Misbehaviour{
	// What arrives.
	{"address-unchecked", asBoth, "takes packets to other MAC and IP addresses than its own", "drops them silently", "D41, ETH-01, IP-14", addressUnchecked},
	{"version-unchecked", asBoth, "takes packets of every transport header version", "drops all but version 0 silently", "D9, BTH-01", versionUnchecked},
	{"qpn-aliased", asBoth, "looks at the low bits of the QPN only, so that other QPNs reach the same queue pair", "drops packets to unknown QPNs silently", "D10, D23b, BTH-05", qpnAliased},
	{"transport-unchecked", asResponder, "lets a UD packet to an RC queue pair take a PSN, so that the next request is taken for a duplicate", "drops packets of other transports without effect on PSNs", "D21, BTH-03", transportUnchecked},
	{"pkey-unchecked", asBoth, "takes packets of every partition", "drops those of other partitions silently", "D9, BTH-09", pkeyUnchecked},
	{"icrc-unchecked", asBoth, "takes packets whose ICRC is wrong", "drops them silently", "D5, ICRC-01", icrcUnchecked},
	{"icrc-without-pad", asBoth, "leaves the pad bytes out of the ICRC, in what it checks and in what it sends", "includes them", "D59", icrcWithoutPad},
	{"dscp-in-icrc", asBoth, "does not mask the traffic class in the ICRC, and drops what has one", "takes it: the field is masked", "D59, IP-08, ICRC-04", dscpInICRC},
	{"reserved-checked", asBoth, "drops packets in whose reserved bits something stands", "ignores reserved bits", "BTH-18", reservedChecked},
	{"migreq-0-dropped", asBoth, "drops packets whose migration request bit is 0", "takes both values alike", "D60, BTH-12", migreqDropped},
	{"cnp-as-request", asResponder, "takes a congestion notification for a request out of sequence, and sends a NAK", "answers nothing, and leaves PSNs alone", "D20, CC-03", cnpAsRequest},
	{"ghost-response-hang", asBoth, "hangs for good when a READ response arrives that nobody asked for", "ignores it", "D3, RSP-05", ghostResponseHang},
	{"burst-mute", asBoth, "is mute for good behind ten frames of minimum size without a gap", "goes on", "D23, ACK-11", burstMute},
	{"mute-after-roce", asBoth, "answers no ARP and no ping once it has answered a request (with addresses of its own: --address)", "answers both at any time", "D34", muteAfterRoCE},
	{"ring-wrap-hang", asResponder, "hangs for good when its ring of 1024 packets wraps", "goes on", "D67", ringWrapHang},
	{"cm-exhausted", asBoth, "answers no CM message any more behind its thousandth queue pair", "goes on", "D63", cmExhausted},

	// The responder.
	{"stale-psn", asBoth, "begins a connection with the PSNs where the one before ended", "begins with those that were agreed on", "D43, PSN-19a", stalePSN},
	{"error-final", asResponder, "serves no new queue pair once one of them was in ERROR", "serves new ones like the first", "D51, D42", errorFinal},
	{"gap-accepted", asResponder, "executes requests behind a gap, as if nothing was lost", "sends NAK 0x60 with the expected PSN, and executes nothing", "D29, PSN-01, PSN-05", gapAccepted},
	{"gap-silent", asResponder, "drops requests behind a gap without a NAK", "sends one NAK 0x60", "D29, PSN-01", gapSilent},
	{"nak-storm", asResponder, "sends a NAK for each packet behind a gap", "sends one NAK for each gap", "D16, PSN-20", nakStorm},
	{"nak-wrong-psn", asResponder, "names the PSN that arrived in a sequence NAK", "names the PSN that is missing", "D16, PSN-05", nakWrongPSN},
	{"sequence-unchecked", asResponder, "executes WRITE Middle and Last without a First, at the address of the WRITE before", "sends NAK 0x61", "D11, SEQ-01", sequenceUnchecked},
	{"opcode-hang", asResponder, "hangs for good on reserved opcodes, SEND Only and WRITE Only with immediate, and FETCH_ADD", "executes them, or sends NAK 0x61", "D2, BTH-02", opcodeHang},
	{"opcode-silent", asResponder, "drops reserved opcodes of its transport silently", "sends NAK 0x61", "BTH-02", opcodeSilent},
	{"access-unchecked", asResponder, "lets peers write, read and add where the queue pair or the region forbids it", "sends NAK 0x61 or 0x62", "D9, RETH-03, RETH-04", accessUnchecked},
	{"rkey-unchecked", asResponder, "takes every rkey: the address alone finds the memory", "sends NAK 0x62", "D9, RETH-01", rkeyUnchecked},
	{"bounds-unchecked", asResponder, "writes past the end of a region, and acknowledges it", "sends NAK 0x62, and writes nothing past the end", "D9, RETH-07", boundsUnchecked},
	{"va-48-bits", asResponder, "cuts virtual addresses to 48 bits", "looks at all 64", "D9, RETH-06", va48Bits},
	{"length-unchecked", asResponder, "executes requests whose payload and length do not agree, or are beyond the path MTU", "sends NAK 0x61", "D12, RETH-11, RETH-13, LEN-01, LEN-04", lengthUnchecked},
	{"nak-wrong-code", asResponder, "answers what is not allowed with NAK 0x61, and what is not valid with 0x62", "sends 0x62 where something is not allowed, and 0x61 where it is not valid", "RETH-01, LEN-01", nakWrongCode},
	{"rnr-missing", asResponder, "acknowledges a SEND for which no receive is posted, and loses it", "sends an RNR NAK", "RES-01", rnrMissing},
	{"imm-not-delivered", asResponder, "executes a WRITE with immediate without taking a receive", "completes a receive with it; without one it sends an RNR NAK", "D68", immNotDelivered},
	{"zero-write-hang", asResponder, "hangs for good on a WRITE of length 0", "acknowledges it", "D1, LEN-05", zeroWriteHang},
	{"zero-read-silent", asResponder, "drops a READ of length 0", "answers with an empty READ response Only", "D4", zeroReadSilent},
	{"zero-length-psn", asResponder, "does not count the PSN of a message without payload", "counts one packet", "D64", zeroLengthPSN},
	{"pad-written", asResponder, "writes the pad bytes behind the data", "writes the data only", "D6", padWritten},
	{"payload-damaged", asResponder, "damages the last byte of a WRITE's packet whose payload is not of whole 64 bytes", "writes what it got", "D50, D40", payloadDamaged},
	{"long-message-stall", asResponder, "drops the packets of a message behind its 8192nd byte", "executes messages of up to 2^31 bytes", "D26, D62", longMessageStall},
	{"msn-per-packet", asResponder, "counts the MSN by packets", "counts it by messages", "D13, AETH-03", msnPerPacket},
	{"ack-wrong-psn", asResponder, "acknowledges the PSN behind the one that it has executed", "acknowledges the newest that it has executed", "ACK-06", ackWrongPSN},
	{"duplicate-echoed", asResponder, "acknowledges a duplicate with the duplicate's PSN", "acknowledges it with the newest PSN that it has executed", "D15, PSN-07", duplicateEchoed},
	{"duplicate-unanswered", asResponder, "answers no duplicate", "acknowledges it again", "PSN-07", duplicateUnanswered},
	{"duplicate-executed", asResponder, "executes a duplicate WRITE or SEND again", "acknowledges it, and does not execute it", "PSN-07", duplicateExecuted},
	{"atomic-repeated", asResponder, "executes a duplicate atomic again", "answers it with the result that it has saved", "PSN-11, RSP-07", atomicRepeated},
	{"atomic-empty", asResponder, "answers atomics with 0, and does not touch memory", "executes them, and answers with the value before", "D23d, ATM-06", atomicEmpty},
	{"swap-always", asResponder, "swaps also where the comparison fails", "leaves the memory alone, and answers with its value", "ATM-03", swapAlways},
	{"read-resumed-wrong", asResponder, "answers a READ that asks for the rest of an earlier one with the data of that one's beginning", "answers with the data of the address that it names", "D32, PSN-09", readResumedWrong},

	// The requester.
	{"rnr-as-ack", asRequester, "takes an RNR NAK for an acknowledgement", "waits, and sends again", "D17, RNR-01", rnrAsAck},
	{"rnr-not-awaited", asRequester, "sends again at once behind an RNR NAK", "waits for the time that it names at least", "RNR-01", rnrNotAwaited},
	{"rnr-seven-counted", asRequester, "gives up behind the seventh RNR NAK where the RNR retry count is 7", "tries for ever: 7 means that", "D39, RNR-02", rnrSevenCounted},
	{"fatal-nak-retried", asRequester, "sends again what was refused for good", "completes the work request with the NAK's error, and goes to ERROR", "D18, NAK-04, NAK-05, NAK-06", fatalNAKRetried},
	{"never-retries", asRequester, "sends nothing again, neither behind a NAK nor behind a time-out", "goes back to the oldest PSN that is not acknowledged", "D29, PSN-02, NAK-01", neverRetries},
	{"retries-forever", asRequester, "never gives up", "completes the work request with retry exceeded behind as many retries as the queue pair has", "D36, ACK-02, NAK-03", retriesForever},
	{"ghost-ack-taken", asRequester, "completes all that it has sent on an acknowledgement of a PSN that it never sent", "ignores it", "ACK-06", ghostACKTaken},
	{"implied-nak-ignored", asRequester, "completes a READ whose answer is missing when a later request is acknowledged", "asks for it again", "ACK-08", impliedNAKIgnored},
	{"completions-merged", asRequester, "makes one completion for all messages that one acknowledgement covers", "makes one for each", "D52, ACK-07", completionsMerged},

	// What is sent.
	{"pad-missing", asBoth, "sends payloads without pad", "fills the last word up, and counts that in PadCnt", "D7, BTH-16", padMissing},
	{"length-in-words", asRequester, "sends WRITEs of one packet with their length rounded down to whole words", "sends what was posted", "D8, D40", lengthInWords},
	{"write-with-read-address", asRequester, "sends the first WRITE behind a READ with the READ's address and length", "sends what was posted", "D31", writeWithReadAddress},
	{"udp-length-long", asBoth, "counts the ICRC twice in the length of UDP", "counts it once", "D48, UDP-08", udpLengthLong},
	{"hop-limit-1", asBoth, "sends with a hop limit of 1", "sends with one that gets behind a router", "D65", hopLimit1},
}
