package flows

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows/iwarp"
)

// times is a count behind a sentence, where it is more than one.
func times(f *Finding) string {
	if f.Count < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times)", f.Count)
}

var (
	checkIWARPCRC = Check{
		ID: "iwarp_crc", Severity: Error, Title: "CRC-32C of an FPDU is wrong",
		Explain: "The connection uses MPA's CRC, and that of an FPDU does not fit its bytes although TCP's checksum passed: it was damaged where TCP does not look, or its sender computes the CRC wrongly. The receiver terminates the connection.",
		Rule:    "RFC 5044, 4.4 and 8",
		Try:     "If all FPDUs of one sender are wrong, look at its CRC (polynomial, markers are covered, byte order). If only some are, look at memory and at devices that take TCP apart on the way.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s with a wrong CRC-32C, %s", plural(int(f.Count), "FPDU", "FPDUs"), f.Where)
		},
	}
	checkIWARPMarker = Check{
		ID: "iwarp_marker", Severity: Error, Title: "A marker does not point at its FPDU",
		Explain: "With markers, every 512th byte of the stream begins one that tells how far back the FPDU's length field is. One that disagrees with the length fields makes the receiver terminate the connection.",
		Rule:    "RFC 5044, 4.3 and 8",
		Try:     "Look at how the sender counts: markers are at each 512th byte from the first of full operation, and the pointer counts from the length field to the marker.",
		text: func(f *Finding) string {
			return fmt.Sprintf("a marker says that its FPDU begins %d bytes back, it is %d, %s%s", f.Args[0], f.Args[1], f.Where, times(f))
		},
	}
	checkIWARPStartUp = Check{
		ID: "iwarp_start_up", Severity: Error, Title: "An MPA start-up frame breaks the rules",
		Explain: "Request and reply open an iWARP connection: key, flags, revision, private data. A frame that breaks their rules is refused, or the two sides understand it differently.",
		Rule:    "RFC 5044, 7.1; RFC 6581, 4",
		Try:     "Compare the frame with the finding's words; look at both sides' revision of MPA.",
		text: func(f *Finding) string {
			return startUpText(iwarp.StartUpFault(f.Args[0]), f.Args[1], f.Args[2]) + ", " + f.Where + times(f)
		},
	}
	checkIWARPDepths = Check{
		ID: "iwarp_depths", Severity: Warning, Title: "The responder wants more READs open than the initiator serves",
		Explain: "With the enhanced set-up each side tells how many READs it serves at a time (IRD) and how many it wants to have open (ORD). The responder's ORD must not be above the initiator's IRD: the initiator may terminate with insufficient IRD resources.",
		Rule:    "RFC 6581, 7",
		Try:     "Lower the responder's initiator depth, or raise the initiator's responder resources.",
		text: func(f *Finding) string {
			return fmt.Sprintf("the reply asks for %d READs open, the initiator serves %d, %s", f.Args[0], f.Args[1], f.Where)
		},
	}
	checkIWARPHeader = Check{
		ID: "iwarp_header", Severity: Error, Title: "A DDP or RDMAP header breaks the rules",
		Explain: "A segment's control word has another version, reserved bits or an opcode that no text defines, or what it says of the buffer does not fit its opcode. The receiver terminates the connection.",
		Rule:    "RFC 5041, 4 and 8; RFC 5040, 4",
		Try:     "Look at how the sender builds the control word and the queue number.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%v (control word 0x%04x), %s%s", iwarp.HeaderFault(f.Args[0]), f.Args[1], f.Where, times(f))
		},
	}
	checkIWARPMSN = Check{
		ID: "iwarp_msn", Severity: Error, Title: "An untagged message is out of sequence",
		Explain: "The messages of each queue are numbered from 1 on, one by one. The number tells the receiver which buffer it takes; with another one it terminates the connection.",
		Rule:    "RFC 5041, 5.1 and 8",
		Try:     "Look at how the sender numbers its messages: each queue has its own numbers.",
		text: func(f *Finding) string {
			return fmt.Sprintf("message %d of queue %d where %d was due, %s%s", f.Args[1], f.Args[0], f.Args[2], f.Where, times(f))
		},
	}
	checkIWARPSegment = Check{
		ID: "iwarp_segment", Severity: Error, Title: "A segment does not continue its message",
		Explain: "The segments of a message follow each other without a gap, and another message of the same queue begins only behind the last one.",
		Rule:    "RFC 5041, 5.1 to 5.3; RFC 5040, 5.5",
		Try:     "Look at the sender's segmentation: offset and steering tag of each segment, and its last bit.",
		text: func(f *Finding) string {
			return fmt.Sprintf("a segment of a %v has offset %d where %d was due, %s%s", dissect.RDMAPOpcode(f.Args[0]), f.Args[1], f.Args[2], f.Where, times(f))
		},
	}
	checkIWARPResponse = Check{
		ID: "iwarp_read_response", Severity: Error, Title: "An answer that nobody asked for",
		Explain: "A READ Response, or an answer to an atomic, fits no request that is open: steering tag, offset or length are not those asked for.",
		Rule:    "RFC 5040, 5.2; RFC 7306, 5",
		Try:     "Compare the responder's answer with the request's data sink: steering tag, offset and length must be those.",
		text: func(f *Finding) string {
			if f.Args[0] == 0 {
				return fmt.Sprintf("an answer to the atomic %d, which is not open, %s%s", f.Args[1], f.Where, times(f))
			}
			return fmt.Sprintf("%d bytes for STag 0x%x at 0x%x were not asked for, %s%s", f.Args[2], f.Args[0], f.Args[1], f.Where, times(f))
		},
	}
	checkIWARPReadOrder = Check{
		ID: "iwarp_read_order", Severity: Error, Title: "READs are answered out of turn",
		Explain: "READ Responses come in the order of the requests.",
		Rule:    "RFC 5040, 5.2",
		Try:     "Look at how the responder queues READ Requests.",
		text: func(f *Finding) string {
			return fmt.Sprintf("the READ into STag 0x%x was answered before %s in front of it, %s%s", f.Args[0], plural(int(f.Args[2]), "request", "requests"), f.Where, times(f))
		},
	}
	checkIWARPReadDepth = Check{
		ID: "iwarp_read_depth", Severity: Error, Title: "More READs are open than the other side serves",
		Explain: "The other side's IRD says how many READs and atomics it serves at a time. One more, and it terminates the connection.",
		Rule:    "RFC 6581, 4.1 (IRD); RFC 5040, 5.2",
		Try:     "Lower the requester's initiator depth (ORD) to the other side's IRD.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%d READs and atomics open, the other side serves %d, %s%s", f.Args[0], f.Args[1], f.Where, times(f))
		},
	}
	checkIWARPFirst = Check{
		ID: "iwarp_spoke_first", Severity: Error, Title: "The responder sent first",
		Explain: "Behind the start-up frames the initiator sends the first FPDU; the responder waits for it, for only then it knows that the initiator is ready.",
		Rule:    "RFC 5044, 7.1.2; RFC 6581, 6",
		Try:     "Let the responder's program wait for a message, or use the enhanced set-up with peer to peer, whose RTR message the initiator sends by itself.",
		text:    func(f *Finding) string { return "the responder sent an FPDU before the initiator did, " + f.Where },
	}
	checkIWARPAfter = Check{
		ID: "iwarp_after_terminate", Severity: Error, Title: "Messages behind a Terminate",
		Explain: "Terminate is the last message of its sender: nothing may follow it.",
		Rule:    "RFC 5040, 5.4",
		Try:     "Look at the sender's order of events when a connection fails.",
		text: func(f *Finding) string {
			return plural(int(f.Count), "FPDU", "FPDUs") + " behind a Terminate message, " + f.Where
		},
	}
	checkIWARPTerminated = Check{
		ID: "iwarp_terminated", Severity: Error, Title: "A connection was terminated",
		Explain: "One side found an error and told it by a Terminate message: which protocol found it, and what. Both sides' queue pairs go to the error state.",
		Rule:    "RFC 5040, 4.8 and 7",
		Try:     "Look at the error and at the segment before it: its copy is in the message.",
		text: func(f *Finding) string {
			return "terminated: " + dissect.Terminated(f.Args[0]).String() + ", told by " + f.Where
		},
	}
	checkIWARPRejected = Check{
		ID: "iwarp_rejected", Severity: Warning, Title: "The responder refused the connection",
		Explain: "The MPA reply has the reject bit: the program at the other end, or its stack, did not want the connection.",
		Rule:    "RFC 5044, 7.1.1",
		Try:     "Look at the private data of the reply, and at the responder's log.",
		text:    func(f *Finding) string { return "an MPA reply refuses the connection, " + f.Where },
	}
	checkIWARPLost = Check{
		ID: "iwarp_capture_loss", Severity: Note, Title: "The capture lacks bytes of an iWARP stream",
		Explain: "TCP delivered bytes that the capture does not have. Following went on behind them; the messages that they belong to are incomplete.",
		Rule:    "(none: this is about the capture)",
		Try:     "Look at the capture's drop counters.",
		text: func(f *Finding) string {
			return fmt.Sprintf("%s missing in the capture in %s, %s", plural(int(f.Args[0]), "byte is", "bytes are"), plural(int(f.Count), "place", "places"), f.Where)
		},
	}
)

func startUpText(fault iwarp.StartUpFault, a, b uint64) string {
	switch fault {
	case iwarp.PrivateTooLong:
		return fmt.Sprintf("%d bytes of private data, 512 are the most", a)
	case iwarp.BadRevision:
		return fmt.Sprintf("revision %d is not known", a)
	case iwarp.ReservedSet:
		return fmt.Sprintf("reserved bits are set (flags 0x%02x)", a)
	case iwarp.RequestRejects:
		return "a request has the reject bit"
	case iwarp.EnhancedShort:
		return fmt.Sprintf("enhanced, but only %d of the 4 bytes of IRD and ORD are there", a)
	case iwarp.WrongSide:
		return "a start-up frame from the wrong side"
	case iwarp.RevisionAbove:
		return fmt.Sprintf("the reply has revision %d, the request only %d", a, b)
	}
	return "a start-up frame that breaks the rules"
}
