package flows

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

// The rows of the check table, by name. The order is that of the table.
const (
	findBadICRC FindingID = iota
	findICRCSolved
	findOpcode
	findTVer
	findPad
	findPayloadMTU
	findPayloadLength
	findOpcodeOrder
	findMessageLength
	findPSNGap
	findPSNJump
	findPSNStart
	findNetworkDuplicate
	findReordered
	findLostBeforeTap
	findLostBehindTap
	findLostForGood
	findCaptureLoss
	findGhostAck
	findResponseGap
	findResponseLost
	findResponseLostBehind
	findRetransmission
	findTimeout
	findSpurious
	findRetryExhausted
	findRNR
	findRNREarly
	findRNRExhausted
	findRNRLong
	findRNRStorm
	findReadSpan
	findAtomicAligned
	findMTUAsymmetry
	findMSN
	findOpenMessage
	findNoResponder
	findDREQUnanswered
	findNAKInvalidRequest
	findNAKRemoteAccess
	findNAKRemoteOperational
	findNAKInvalidRD
	findReservedSyndrome
	findReadDepth
	findAtomicReplay
	findRejected
	findCMResent
	findNoData
	findCENoCNP
	findCNPNoCE
	findCNPDSCP
	findDSCPMixed
	findUnprotected
	findPFCOff
	findOneSrcPort
	findSrcPortRange
	findVLANMixed
	findZeroMAC
	findLinkLocal
	findMigReq
	findUDPChecksum
	findRoCEVersions
	findPauseStorm
	findPauseIgnored
	findPausePassed
	findPauseMalformed
	findPauseOrder
	findWriteOverlap
	findReadDiffers
	findWaiting
	findBadVCRC
	findVendor
	findSeenTwice
	findForeignSource
	findPKey
	findIWARPCRC
	findIWARPMarker
	findIWARPStartUp
	findIWARPDepths
	findIWARPHeader
	findIWARPMSN
	findIWARPSegment
	findIWARPResponse
	findIWARPReadOrder
	findIWARPReadDepth
	findIWARPFirst
	findIWARPAfter
	findIWARPTerminated
	findIWARPRejected
	findIWARPLost
	numFindings
)

// checks is the table of all that can be found. A new check is a row here and
// a call of report where it is seen.
var checks = [numFindings]Check{
	findBadICRC: {
		ID: "bad_icrc", Severity: Error, Title: "Invariant CRC is wrong",
		Explain: "The packet's invariant CRC does not fit its bytes: it was damaged on the way, or its sender computes the CRC wrongly. A receiver drops it without an answer, so to the queue pair it is a lost packet.",
		Rule:    "IBA Vol 1, 7.8.1; Annex A17.3.3, CA17-24",
		Try:     "If all packets of one sender are wrong, look at its ICRC (masked fields, byte order, pad). If only some are, look at cables, optics and the FEC counters of the path.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s with a wrong invariant CRC (first: PSN %s)", plural(int(f.Count), "packet", "packets"), psnText(f.Args[0]))
		},
	},
	findICRCSolved: {
		ID: "icrc_mistake", Severity: Error, Title: "A sender computes its ICRC wrongly",
		Explain: "All bad packets of this sender have exactly the invariant CRC that one well-known mistake gives. It is not damage on the way.",
		Rule:    "IBA Vol 1, 7.8.1; Annex A17.3.3",
		Try:     "Mend the sender's computation as named. If a header field was rewritten on the way, the device that rewrites it must leave RoCE alone: its ICRC covers addresses and ports.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s from %s have a wrong invariant CRC because %s", plural(int(f.Args[0]), "packet", "packets"), f.Where, f.Detail)
		},
	},
	findOpcode: {
		ID: "reserved_opcode", Severity: Error, Title: "Reserved opcode",
		Explain: "The BTH carries an opcode that no text defines. A responder answers it with NAK invalid request, or drops it.",
		Rule:    "IBA Vol 1, 9.2.1, table 38",
		Try:     "Look at how the sender builds the opcode byte: the top three bits are the transport, the low five the operation.",
		text: func(f *Finding) string {
			return fmt.Sprintf("opcode 0x%02X is reserved (%s)", f.Args[0], plural(int(f.Count), "packet", "packets"))
		},
	},
	findTVer: {
		ID: "transport_version", Severity: Error, Title: "Transport header version is not 0",
		Explain: "The BTH's version field must be 0; receivers drop other packets without an answer.",
		Rule:    "IBA Vol 1, 9.2.5, 9.6.1.1.1",
		Try:     "Look at byte 1 of the sender's BTH: the low four bits must be 0.",
		text: func(f *Finding) string {
			return fmt.Sprintf("transport header version %d (%s)", f.Args[0], plural(int(f.Count), "packet", "packets"))
		},
	},
	findPad: {
		ID: "pad_count", Severity: Error, Title: "Pad count is wrong",
		Explain: "Payload and pad together must be a multiple of four bytes, and the pad is 0 to 3 bytes of what the packet carries. A wrong pad count shifts the end of the data.",
		Rule:    "IBA Vol 1, 9.2.4; 7.8.1 (pad is covered by the ICRC)",
		Try:     "Compare the sender's UDP length with payload + pad + 4: the pad count must be (4 - payload mod 4) mod 4.",
		text: func(f *Finding) string {
			return fmt.Sprintf("pad count %d does not fit the packet of %d payload bytes (%s)", f.Args[0], f.Args[1], plural(int(f.Count), "packet", "packets"))
		},
	},
	findPayloadMTU: {
		ID: "payload_mtu", Severity: Error, Title: "Payload does not fit the path MTU",
		Explain: "FIRST and MIDDLE packets must be exactly the path MTU long, LAST and ONLY at most that. The responder answers NAK invalid request.",
		Rule:    "IBA Vol 1, 9.7.4.1.6 (C9-44 ff.), 9.8.2.2.4 for UC",
		Try:     "Compare the path MTU of the two ends: both must segment by the same one.",
		text: func(f *Finding) string {
			return fmt.Sprintf("payload of %d bytes with a path MTU of %d (%s)", f.Args[0], f.Args[1], plural(int(f.Count), "packet", "packets"))
		},
	},
	findPayloadLength: {
		ID: "payload_length", Severity: Error, Title: "Payload where the opcode allows none",
		Explain: "The opcode fixes what a packet may carry: READ requests, atomics and acknowledgements carry nothing, a LAST packet at least one byte.",
		Rule:    "IBA Vol 1, 9.4, 9.7.4.1.6",
		Try:     "Look at the length that the sender puts in the UDP header of this opcode.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%v carries %d bytes (%s)", dissect.Opcode(f.Args[0]), f.Args[1], plural(int(f.Count), "packet", "packets"))
		},
	},
	findOpcodeOrder: {
		ID: "opcode_order", Severity: Error, Title: "Packets of a message in an illegal order",
		Explain: "Behind a FIRST or MIDDLE only MIDDLE or LAST of the same operation may come, and those never without a FIRST. The responder answers NAK invalid request; UC drops the message.",
		Rule:    "IBA Vol 1, 9.7.4.1.2 (RC), 9.8.2.2.2 (UC)",
		Try:     "Look at the requester's segmentation: messages of one queue pair must never interleave.",
		text: func(f *Finding) string {
			if f.Args[1] > 255 {
				return fmt.Sprintf("%v although no message had begun (PSN %s)", dissect.Opcode(f.Args[0]), psnText(f.Args[2]))
			}
			return fmt.Sprintf("%v behind %v (PSN %s)", dissect.Opcode(f.Args[0]), dissect.Opcode(f.Args[1]), psnText(f.Args[2]))
		},
	},
	findMessageLength: {
		ID: "message_length", Severity: Error, Title: "WRITE carries another length than its RETH says",
		Explain: "The payload of all packets of a WRITE must add up to the DMA length in its RETH. The responder answers NAK invalid request.",
		Rule:    "IBA Vol 1, 9.7.4.1.6 (C9-55)",
		Try:     "Compare the requester's DMA length with the bytes that it sends; mind that DMA length is the whole message's, not the packet's.",
		text: func(f *Finding) string {
			return fmt.Sprintf("a WRITE of %d bytes by its RETH carried %d (message at PSN %s)", f.Args[0], f.Args[1], psnText(f.Args[2]))
		},
	},
	findPSNGap: {
		ID: "psn_gap", Severity: Note, Title: "Request PSNs are missing",
		Explain: "The requester's PSNs skip numbers at this tap: packets were lost before it, overtaken, or not captured. What it was is said by the findings that come with it.",
		Rule:    "IBA Vol 1, 9.7.1 (PSNs advance by one per request packet, and by the answers of a READ)",
		Try:     "Look at the findings of loss, reordering and capture loss of this stream.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s in the request PSNs; the first is of %s at PSN %s", plural(int(f.Count), "gap", "gaps"), plural(int(f.Args[0]), "packet", "packets"), psnText(f.Args[1]))
		},
	},
	findPSNJump: {
		ID: "psn_jump", Severity: Warning, Title: "PSNs leap to another range",
		Explain: "The next request PSN is too far from the expected one to be explained by loss. The queue pair was set up anew without a handshake in the capture, or the requester lost its count.",
		Rule:    "IBA Vol 1, 9.7.1",
		Try:     "If the queue pair was not reconnected at that time, look at how the requester keeps its PSN over READs and retries.",
		text: func(f *Finding) string {
			return fmt.Sprintf("request PSN %s where %s was expected", psnText(f.Args[1]), psnText(f.Args[0]))
		},
	},
	findPSNStart: {
		ID: "psn_start", Severity: Error, Title: "First PSN is not the one agreed on",
		Explain: "The first request does not carry the starting PSN that the handshake told. The responder expects that one and answers a sequence NAK, again and again.",
		Rule:    "IBA Vol 1, 12.6.5, 12.6.8 (Starting PSN)",
		Try:     "Look whether the requester's PSN survives from an earlier connection: it must be loaded anew at each connect. Mind that CM's starting PSN is what its sender expects to receive.",
		text: func(f *Finding) string {
			return fmt.Sprintf("first request has PSN %s, but the handshake said %s", psnText(f.Args[1]), psnText(f.Args[0]))
		},
	},
	findNetworkDuplicate: {
		ID: "network_duplicate", Severity: Note, Title: "Packets were doubled on the way",
		Explain: "A packet came twice although its sender sent it once: the network, a mirror port or the capture doubled it. A responder takes the copy for a duplicate request and acknowledges it again.",
		Rule:    "IBA Vol 1, 9.7.5.1.2 (duplicate requests)",
		Try:     "If the capture comes from a mirror port, look whether it mirrors both directions of two ports.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s of a request (first: PSN %s)", plural(int(f.Count), "copy", "copies"), psnText(f.Args[0]))
		},
	},
	findReordered: {
		ID: "reordered", Severity: Warning, Title: "Packets were overtaken on the way",
		Explain: "A packet came late and filled a gap that later packets had left; its sender did not send it again. A responder that cannot reorder answers the gap with a sequence NAK and has all of it sent again.",
		Rule:    "IBA Vol 1, 9.7.5.1.1 (out of sequence requests); RoCE expects the network to keep the order of a flow, A17.8",
		Try:     "Look for packet spraying or several unequal paths: one queue pair should keep one UDP source port and so one path.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s (first: PSN %s, %s late)", plural(int(f.Count), "request was overtaken", "requests were overtaken"), psnText(f.Args[0]), plural(int(f.Args[1]), "packet", "packets"))
		},
	},
	findLostBeforeTap: {
		ID: "lost_before_tap", Severity: Warning, Title: "Requests were lost before this tap",
		Explain: "The responder asked for a PSN that never came past here: the packet was lost between its requester and the place of this capture.",
		Rule:    "IBA Vol 1, 9.7.5.1.1, 9.7.5.2.8 (NAK: PSN sequence error)",
		Try:     "Look at the requester's port, its cable and the switch queues between it and this tap: drops, pause frames, buffer occupancy.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s answered by a sequence NAK (first: %s at PSN %s, missing since frame %d)", plural(int(f.Count), "gap was", "gaps were"), plural(int(f.Args[1]), "packet", "packets"), psnText(f.Args[0]), f.Args[2])
		},
	},
	findLostBehindTap: {
		ID: "lost_behind_tap", Severity: Warning, Title: "Requests were lost behind this tap",
		Explain: "The responder asked for a PSN that did come past here: it was lost, or refused, between the place of this capture and the responder's transport.",
		Rule:    "IBA Vol 1, 9.7.5.1.1, 9.7.5.2.8 (NAK: PSN sequence error)",
		Try:     "Look at the path from this tap to the responder and at the responder's own counters of discards (ICRC, buffers); if no packet is lost there, its receive logic refuses good packets.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s for a PSN that is in this capture (first: %s)", plural(int(f.Count), "sequence NAK", "sequence NAKs"), psnText(f.Args[0]))
		},
	},
	findLostForGood: {
		ID: "lost_unnoticed", Severity: Note, Title: "Packets were lost and not sent again",
		Explain: "Packets of an unreliable transport are missing here. Nobody asks for them again: a UC message that lost a packet is dropped by its receiver as a whole, a lost UD datagram is gone, and the sender's completion says nothing of it.",
		Rule:    "IBA Vol 1, 9.8.2.2 (UC: dropped messages), 9.8.3 (UD)",
		Try:     "If the application cannot live with loss, use RC, or repeat in the application; look for drops between the sender and this tap.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s lost before this tap in %s (first at PSN %s); nothing sends them again", plural(int(f.Args[1]), "packet was", "packets were"), plural(int(f.Count), "gap", "gaps"), psnText(f.Args[0]))
		},
	},
	findCaptureLoss: {
		ID: "capture_loss", Severity: Note, Title: "The capture has holes",
		Explain: "Requests are missing here that their responder acknowledged without asking for them: the capture lost them. A device that acknowledges what it never got would look the same.",
		Rule:    "IBA Vol 1, 9.7.5.1.3 (a responder acknowledges only what it received)",
		Try:     "Look at the drop counters of the capture; capture with a larger ring, or only the headers.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s acknowledged but never seen (first: %s at PSN %s)", plural(int(f.Count), "run of requests was", "runs of requests were"), plural(int(f.Args[0]), "packet", "packets"), psnText(f.Args[1]))
		},
	},
	findGhostAck: {
		ID: "ghost_ack", Severity: Error, Title: "Answers to requests that were never sent",
		Explain: "A responder answered a PSN beyond all requests seen. Either the capture lost the requests, or the device acknowledges what it never got.",
		Rule:    "IBA Vol 1, 9.7.5.1.3; 9.7.6.1.4 (the requester drops such an answer)",
		Try:     "If the capture has no other holes, look at how the responder forms the PSN of its answers.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s a PSN never sent (first: %s, newest request was %s)", plural(int(f.Count), "answer carries", "answers carry"), psnText(f.Args[0]), psnText(f.Args[1]))
		},
	},
	findResponseGap: {
		ID: "response_gap", Severity: Note, Title: "READ responses are missing",
		Explain: "The answer to a READ skips PSNs at this tap.",
		Rule:    "IBA Vol 1, 9.7.5.1.5 (PSNs of READ responses follow the request's)",
		Try:     "Look at the findings of lost READ responses of this stream.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s in the READ responses (first: %s at PSN %s)", plural(int(f.Count), "gap", "gaps"), plural(int(f.Args[0]), "packet", "packets"), psnText(f.Args[1]))
		},
	},
	findResponseLost: {
		ID: "response_lost_before_tap", Severity: Warning, Title: "READ responses were lost before this tap",
		Explain: "Part of a READ's answer never came past here, and the requester asked for it again.",
		Rule:    "IBA Vol 1, 9.7.6.1.2 (a READ may be retried for the part that is missing)",
		Try:     "Look at the path from the responder to this tap.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s again for what is missing here (first: %s at PSN %s)", plural(int(f.Count), "READ was asked", "READs were asked"), plural(int(f.Args[0]), "packet", "packets"), psnText(f.Args[1]))
		},
	},
	findResponseLostBehind: {
		ID: "response_lost_behind_tap", Severity: Warning, Title: "READ responses were lost behind this tap",
		Explain: "The requester asked again for a part of a READ's answer that did come past here: it was lost, or refused, on the way from this tap to the requester.",
		Rule:    "IBA Vol 1, 9.7.6.1.2",
		Try:     "Look at the path from this tap to the requester, and at the requester's own discards.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s again for responses that are in this capture (first: PSN %s)", plural(int(f.Count), "READ was asked", "READs were asked"), psnText(f.Args[0]))
		},
	},
	findRetransmission: {
		ID: "retransmission", Severity: Note, Title: "Requests were sent again",
		Explain: "The requester went back to a PSN that its responder had asked for, and sent everything from there again.",
		Rule:    "IBA Vol 1, 9.7.6.1.1 (go-back-N)",
		Try:     "See what was lost, or why no receive was posted: the findings beside this one.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s behind a %s (first: from PSN %s)", plural(int(f.Count), "run of requests was sent again", "runs of requests were sent again"), map[Cause]string{CauseNAK: "sequence NAK", CauseRNR: "RNR NAK"}[Cause(f.Args[0])], psnText(f.Args[1]))
		},
	},
	findTimeout: {
		ID: "timeout", Severity: Warning, Title: "Requests were sent again behind silence",
		Explain: "No answer came, so the requester's ACK timer ran out and it went back. The request, or its answer, was lost; which of them, the capture does not tell.",
		Rule:    "IBA Vol 1, 9.7.6.1.3 (local ACK time-out, 4.096 µs × 2^n)",
		Try:     "If the resend was answered, a request or an answer was lost: look for drops both ways. If nothing ever answers, look whether the peer's queue pair is there and in RTR or RTS, and whether packets reach it: a wrong GID index, VLAN or MTU looks like this.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s (first: from PSN %s after %v)", plural(int(f.Count), "time-out", "time-outs"), psnText(f.Args[0]), roundDuration(int64(f.Args[1])))
		},
	},
	findSpurious: {
		ID: "resent_after_ack", Severity: Warning, Title: "Requests were sent again after their ACK had passed this tap",
		Explain: "The acknowledgement came past here before the request was sent again: either the ACK was lost on its way on from here, or the requester resends without need.",
		Rule:    "IBA Vol 1, 9.7.6.1.3",
		Try:     "If this tap is at the requester, its ACK time-out is too short or its ACK handling is wrong; else look at the path from here to the requester.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s again after the ACK (first: from PSN %s)", plural(int(f.Count), "run of requests was sent", "runs of requests were sent"), psnText(f.Args[0]))
		},
	},
	findRetryExhausted: {
		ID: "retry_exceeded", Severity: Error, Title: "Transport retries used up",
		Explain: "The requester sent a message again and again, got no answer, and fell silent: presumably its retries were used up, and its application saw completion status 12 (on NVIDIA cards with vendor code 0x81, 129).",
		Rule:    "IBA Vol 1, 9.7.6.1.3, 9.9.2.1.1; status IBV_WC_RETRY_EXC_ERR",
		Try:     "Find out why the responder is silent: no such QP, QP not in RTR, wrong GID index or RoCE version, packets dropped by size or VLAN on the way.",
		text: func(f *Finding) string {
			return fmt.Sprintf("message at PSN %s was sent %d times more, every %v, and never answered: presumed IBV_WC_RETRY_EXC_ERR (12)", psnText(f.Args[0]), f.Args[1], roundDuration(int64(f.Args[2])))
		},
	},
	findRNR: {
		ID: "rnr_nak", Severity: Warning, Title: "Receiver not ready",
		Explain: "A SEND, or WRITE with immediate, found no receive work request posted. The requester waits as long as the RNR timer says and sends again.",
		Rule:    "IBA Vol 1, 9.7.5.2.8 (RNR NAK), 9.7.6.1.3",
		Try:     "Post receives earlier or more of them; timer code 0 is the longest wait (655.36 ms), not none.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s (first: PSN %s, timer code %d = %v)", plural(int(f.Count), "RNR NAK", "RNR NAKs"), psnText(f.Args[0]), f.Args[1], dissect.RNRTimer(uint8(f.Args[1])))
		},
	},
	findRNREarly: {
		ID: "rnr_early", Severity: Warning, Title: "Sent again before the RNR timer ended",
		Explain: "The requester must wait at least as long as the RNR NAK's timer says.",
		Rule:    "IBA Vol 1, 9.7.5.2.8, 9.7.6.1.3",
		Try:     "Look at the requester's RNR timer table: code 0 is 655.36 ms.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s (first: after %v of %v)", plural(int(f.Count), "resend came too early", "resends came too early"), roundDuration(int64(f.Args[0])), roundDuration(int64(f.Args[1])))
		},
	},
	findRNRExhausted: {
		ID: "rnr_retry_exceeded", Severity: Error, Title: "RNR retries used up",
		Explain: "The responder kept answering that it was not ready, and the requester fell silent: presumably its RNR retries were used up, and its application saw completion status 13.",
		Rule:    "IBA Vol 1, 9.7.6.1.3; status IBV_WC_RNR_RETRY_EXC_ERR",
		Try:     "Post receives at the responder before the peer sends; RNR retry count 7 means for ever.",
		text: func(f *Finding) string {
			return fmt.Sprintf("message at PSN %s was refused %d times and then given up: presumed IBV_WC_RNR_RETRY_EXC_ERR (13)", psnText(f.Args[0]), f.Args[1])
		},
	},
	findRNRLong: {
		ID: "rnr_long_timer", Severity: Warning, Title: "Receiver asks for a long wait",
		Explain: "The RNR NAK asks for a wait of more than 10 ms. Each time that a receive is missing, the sender stands still for so long. Timer code 0 is the longest wait, 655.36 ms, and is often set in the belief that it means none.",
		Rule:    "IBA Vol 1, 9.7.5.2.8, table 45",
		Try:     "Set the responder's min_rnr_timer to a short wait, such as 12 (0.64 ms), and post more receives.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s a wait of more than 10 ms (first: timer code %d = %v)", plural(int(f.Count), "RNR NAK asks for", "RNR NAKs ask for"), f.Args[0], dissect.RNRTimer(uint8(f.Args[0])))
		},
	},
	findRNRStorm: {
		ID: "rnr_storm", Severity: Warning, Title: "Storm of RNR NAKs",
		Explain: "A large part of the requests is refused because no receive is posted, and sent again and again: the wire is busy, the application is not served.",
		Rule:    "IBA Vol 1, 9.7.5.2.8",
		Try:     "Post more receives, or let the application limit what it sends; a longer RNR timer makes the storm weaker.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%d RNR NAKs for %d requests within %v", f.Args[0], f.Args[1], roundDuration(int64(f.Args[2])))
		},
	},
	findReadSpan: {
		ID: "read_psn_span", Severity: Error, Title: "PSN not advanced by a READ's responses",
		Explain: "A READ takes as many PSNs as its answer has packets. The request behind it carries a PSN inside of that range, so the responder takes it for a duplicate and the data of it is lost.",
		Rule:    "IBA Vol 1, 9.7.1, 9.7.4.1.1 (PSN behind a READ request)",
		Try:     "Advance the requester's PSN behind a READ by ceil(length / path MTU), and by 1 for a length of 0.",
		text: func(f *Finding) string {
			return fmt.Sprintf("request at PSN %s lies inside the %d PSNs of the READ at %s (%s)", psnText(f.Args[2]), f.Args[0], psnText(f.Args[1]), plural(int(f.Count), "time", "times"))
		},
	},
	findAtomicAligned: {
		ID: "atomic_unaligned", Severity: Error, Title: "Atomic on an address that is not aligned",
		Explain: "The address of an atomic must be a multiple of eight. The responder answers NAK invalid request.",
		Rule:    "IBA Vol 1, 9.4.5 (C9-19), 9.7.4.1.4",
		Try:     "Align the variable to eight bytes.",
		text: func(f *Finding) string {
			return fmt.Sprintf("atomic on address 0x%x (%s)", f.Args[0], plural(int(f.Count), "request", "requests"))
		},
	},
	findMTUAsymmetry: {
		ID: "mtu_asymmetry", Severity: Warning, Title: "The two ends use different path MTUs",
		Explain: "The two queue pairs of the connection segment by different path MTUs. Each must accept what the other sends; READs, whose answers take PSNs by the requester's MTU, fail.",
		Rule:    "IBA Vol 1, 9.6.1.4.4 (payload size), 12.6.5 (path MTU is agreed on)",
		Try:     "Set both ends to the same path MTU; active MTU of the two ports is the upper limit.",
		text: func(f *Finding) string {
			return fmt.Sprintf("a segments by %d bytes, b by %d", f.Args[0], f.Args[1])
		},
	},
	findMSN: {
		ID: "msn_count", Severity: Warning, Title: "MSN does not count messages",
		Explain: "The responder's message sequence number must advance by one for each message that it completes, neither for packets nor for duplicates.",
		Rule:    "IBA Vol 1, 9.7.7.1 (C9-148)",
		Try:     "Look at where the responder increments its MSN: at the last packet of a message, once.",
		text: func(f *Finding) string {
			return fmt.Sprintf("MSN advanced by %d where %s completed (first at PSN %s; %s)", int32(f.Args[0]), plural(int(f.Args[1]), "message was", "messages were"), psnText(f.Args[2]), plural(int(f.Count), "time", "times"))
		},
	},
	findOpenMessage: {
		ID: "message_stalled", Severity: Warning, Title: "A message was begun and never finished",
		Explain: "The first packets of a message came, then nothing more of it although the capture went on.",
		Rule:    "IBA Vol 1, 9.7.4.1.2",
		Try:     "Look at the requester's transmit path behind the packet named: credits, buffers of several path MTUs, back-pressure.",
		text: func(f *Finding) string {
			return fmt.Sprintf("message at PSN %s: %d of %d bytes seen, its last packet missing, silent for %v", psnText(f.Args[0]), f.Args[1], f.Args[2], roundDuration(int64(f.Args[3])))
		},
	},
	findNoResponder: {
		ID: "no_responder", Severity: Error, Title: "Nobody answers for this queue pair",
		Explain: "Requests go to a queue pair from which not one packet came back, although packets of its host are in the capture: the queue pair does not exist, is not in RTR, or drops what it gets.",
		Rule:    "IBA Vol 1, 9.6.1, 9.7.3 (packets for a queue pair that is not ready are dropped)",
		Try:     "Look whether the peer's queue pair was created and moved to RTR, and whether QPN, P_Key, GID and VLAN are those that it told.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s to queue pair 0x%06x within %v, and no packet back", plural(int(f.Args[0]), "request", "requests"), f.Args[1], roundDuration(int64(f.Args[2])))
		},
	},
	findDREQUnanswered: {
		ID: "dreq_unanswered", Severity: Warning, Title: "Disconnect was not answered",
		Explain: "A side asked to disconnect and the other did not answer. It may hold the connection for much longer, and refuse new ones as stale (REJ reason 10).",
		Rule:    "IBA Vol 1, 12.6.10, 12.6.11 (DREQ, DREP)",
		Try:     "Look whether the peer's process or host is gone.",
		text: func(f *Finding) string {
			return fmt.Sprintf("DREQ for %s was not answered by a DREP", f.Where)
		},
	},
	findNAKInvalidRequest: {
		ID: "nak_invalid_request", Severity: Error, Title: "Refused: invalid request",
		Explain: "The responder found the request against the rules: opcode order, length, an operation it does not support, or more READs and atomics than it has resources for. The queue pair is in ERROR; the application sees status 9.",
		Rule:    "IBA Vol 1, 9.7.5.2.8 (NAK code 1), 9.7.4.1",
		Try:     "See the findings on opcode order, length and READ depth of the same queue pair; compare its path MTU and depths with what was agreed on.",
		text:    refused("invalid request", "IBV_WC_REM_INV_REQ_ERR (9)"),
	},
	findNAKRemoteAccess: {
		ID: "nak_remote_access", Severity: Error, Title: "Refused: remote access error",
		Explain: "The key, the address range or the permission of the request does not fit the responder's memory region or window, or it belongs to another protection domain. The queue pair is in ERROR; the application sees status 10.",
		Rule:    "IBA Vol 1, 9.7.5.2.8 (NAK code 2), 9.7.4.1.5",
		Try:     "Compare R_Key and address with what the peer registered and told; look whether the region was deregistered or the window unbound.",
		text:    refused("remote access error", "IBV_WC_REM_ACCESS_ERR (10)"),
	},
	findNAKRemoteOperational: {
		ID: "nak_remote_operational", Severity: Error, Title: "Refused: remote operational error",
		Explain: "The responder could not carry the request out for a reason of its own, such as a receive buffer that is too short (soft-RoCE) or a malformed receive work request. The application sees status 11.",
		Rule:    "IBA Vol 1, 9.7.5.2.8 (NAK code 3)",
		Try:     "Look at the responder's completion and asynchronous errors; compare the message's size with the receive buffers posted.",
		text:    refused("remote operational error", "IBV_WC_REM_OP_ERR (11)"),
	},
	findNAKInvalidRD: {
		ID: "nak_invalid_rd", Severity: Error, Title: "Refused: invalid RD request",
		Explain: "The responder refused a reliable datagram for its Q_Key or its domain.",
		Rule:    "IBA Vol 1, 9.7.5.2.8 (NAK code 4)",
		Try:     "Compare Q_Key and RD domain of the two queue pairs.",
		text:    refused("invalid RD request", "IBV_WC_REM_INV_RD_REQ_ERR (15)"),
	},
	findReservedSyndrome: {
		ID: "reserved_syndrome", Severity: Warning, Title: "Reserved AETH syndrome",
		Explain: "The answer's syndrome is of a kind, or carries a NAK code, that is reserved.",
		Rule:    "IBA Vol 1, 9.7.5.1.1, 9.7.5.2.8",
		Try:     "Look at how the responder forms the first byte of the AETH.",
		text: func(f *Finding) string {
			return fmt.Sprintf("syndrome 0x%02X (%s)", f.Args[0], plural(int(f.Count), "answer", "answers"))
		},
	},
	findReadDepth: {
		ID: "read_depth", Severity: Error, Title: "More READs and atomics outstanding than agreed on",
		Explain: "The requester has more READs and atomics open than the responder said it has resources for. The responder answers NAK invalid request.",
		Rule:    "IBA Vol 1, 9.7.4.1.3; 12.7.30 (responder resources)",
		Try:     "Set the requester's initiator depth (max_rd_atomic) to the peer's responder resources.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%d READs and atomics outstanding where %d were agreed on", f.Args[0], f.Args[1])
		},
	},
	findAtomicReplay: {
		ID: "atomic_replay", Severity: Error, Title: "Atomic answered again with another value",
		Explain: "A duplicate atomic request must be answered from the saved result of the first. Another value means that the operation was executed twice.",
		Rule:    "IBA Vol 1, 9.7.5.1.2, 9.4.5",
		Try:     "Look at the responder's saved results of atomics: they must survive until the requester has moved on.",
		text: func(f *Finding) string {
			return fmt.Sprintf("the atomic at PSN %s was answered with 0x%x, then with 0x%x", psnText(f.Args[0]), f.Args[1], f.Args[2])
		},
	},
	findRejected: {
		ID: "cm_reject", Severity: Warning, Title: "Connection refused",
		Explain: "The connection manager's request was rejected; the reason says by what.",
		Rule:    "IBA Vol 1, 12.6.7 (REJ)",
		Try:     "Reason 8 means that nobody listens on that service; 10 that one side still knows an older connection; 28 that the application itself refused.",
		text: func(f *Finding) string {
			return fmt.Sprintf("connection %s was refused: reason %d (%s)", f.Where, f.Args[0], dissect.RejReason(f.Args[0]))
		},
	},
	findCMResent: {
		ID: "cm_resent", Severity: Note, Title: "Connection messages were sent again",
		Explain: "A message of the connection manager was repeated: it, or its answer, was lost or slow.",
		Rule:    "IBA Vol 1, 12.9.8.4 (retries)",
		Try:     "A few are harmless. Many point to loss of small UD packets or a peer that is too busy to answer.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s was sent again (%s)", dissect.CMAttribute(f.Args[0]), plural(int(f.Count), "time", "times"))
		},
	},
	findNoData: {
		ID: "handshake_without_data", Severity: Note, Title: "A handshake without data",
		Explain: "Two queue pairs were set up, but none of their packets is in the capture. RDMA cards hand data past the kernel: a capture on the host shows the handshake only.",
		Rule:    "(none: this is about the capture)",
		Try:     "Capture on a mirror port, on the switch, or with the card's own sniffer.",
		text: func(f *Finding) string {
			return fmt.Sprintf("queue pairs were set up (%s), but this capture has no data of theirs", f.Where)
		},
	},
	findCENoCNP:         checkCENoCNP,
	findCNPNoCE:         checkCNPNoCE,
	findCNPDSCP:         checkCNPDSCP,
	findDSCPMixed:       checkDSCPMixed,
	findUnprotected:     checkUnprotected,
	findPFCOff:          checkPFCOff,
	findOneSrcPort:      checkOneSrcPort,
	findSrcPortRange:    checkSrcPortRange,
	findVLANMixed:       checkVLANMixed,
	findZeroMAC:         checkZeroMAC,
	findLinkLocal:       checkLinkLocal,
	findMigReq:          checkMigReq,
	findUDPChecksum:     checkUDPChecksum,
	findRoCEVersions:    checkRoCEVersions,
	findPauseStorm:      checkPauseStorm,
	findPauseIgnored:    checkPauseIgnored,
	findPausePassed:     checkPausePassed,
	findPauseMalformed:  checkPauseMalformed,
	findPauseOrder:      checkPauseOrder,
	findWriteOverlap:    checkWriteOverlap,
	findReadDiffers:     checkReadDiffers,
	findWaiting:         checkWaiting,
	findBadVCRC:         checkBadVCRC,
	findVendor:          checkVendor,
	findSeenTwice:       checkSeenTwice,
	findForeignSource:   checkForeignSource,
	findPKey:            checkPKey,
	findIWARPCRC:        checkIWARPCRC,
	findIWARPMarker:     checkIWARPMarker,
	findIWARPStartUp:    checkIWARPStartUp,
	findIWARPDepths:     checkIWARPDepths,
	findIWARPHeader:     checkIWARPHeader,
	findIWARPMSN:        checkIWARPMSN,
	findIWARPSegment:    checkIWARPSegment,
	findIWARPResponse:   checkIWARPResponse,
	findIWARPReadOrder:  checkIWARPReadOrder,
	findIWARPReadDepth:  checkIWARPReadDepth,
	findIWARPFirst:      checkIWARPFirst,
	findIWARPAfter:      checkIWARPAfter,
	findIWARPTerminated: checkIWARPTerminated,
	findIWARPRejected:   checkIWARPRejected,
	findIWARPLost:       checkIWARPLost,
}

func refused(what, status string) func(*Finding) string {
	return func(f *Finding) string {
		s := fmt.Sprintf("request at PSN %s was refused: %s, %s at the requester", psnText(f.Args[0]), what, status)
		if f.Args[2] != 0 {
			s += fmt.Sprintf(" (VA 0x%x, R_Key 0x%x, %d bytes)", f.Args[1], f.Args[2], f.Args[3])
		}
		return s
	}
}

func nakFinding(code dissect.NAKCode) FindingID {
	switch code {
	case dissect.NAKRemoteAccess:
		return findNAKRemoteAccess
	case dissect.NAKRemoteOperational:
		return findNAKRemoteOperational
	case dissect.NAKInvalidRD:
		return findNAKInvalidRD
	}
	return findNAKInvalidRequest
}

func psnText(v uint64) string { return fmt.Sprintf("0x%06x", v&0xFFFFFF) }
