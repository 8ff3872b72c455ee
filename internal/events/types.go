package events

// Schema is the name of the form of a log. Fields and types may be added to it;
// those that are there keep their meaning.
const Schema = "rocescope.events/1"

// Type is a row of the table of events.
type Type struct {
	Name   string
	Text   string
	Fields []string // beside those that all have: type and, where a packet proves it, frame and time_ns
}

// Fields that several types share.
var (
	ofPacket = []string{"connection", "direction", "src", "dst", "dest_qp", "opcode", "psn"}
	ofStream = []string{"connection", "direction"}
)

// The types' names.
const (
	typeLog        = "log"
	typeCM         = "cm"
	typeStream     = "stream"
	typeGap        = "psn_gap"
	typeResent     = "retransmission"
	typeCopy       = "duplicate"
	typeReordered  = "reordered"
	typeBadICRC    = "bad_icrc"
	typeNAK        = "nak"
	typeRNR        = "rnr"
	typeGhost      = "ghost_ack"
	typeCNP        = "cnp"
	typeCE         = "ce"
	typePeers      = "peers"
	typeMessage    = "message"
	typeIWARP      = "iwarp_message"
	typeFinding    = "finding"
	typeConnection = "connection"
	typeState      = "state"
	typeVerdict    = "verdict"
	typeEnd        = "end"
)

// Types returns the table.
func Types() []Type {
	return append([]Type{
		{typeLog, "The first line: what the log is of.", []string{"schema", "program", "files"}},
		{typeCM, "A message of the communication manager passed.", []string{"src", "dst", "message", "local_comm_id"}},
		{typeStream, "The first packet of one direction of a connection.", ofPacket},
		{typeGap, "PSNs in front of this packet are missing.", ofPacket},
		{typeResent, "A request or READ response was sent again; round says how many times its PSN had been sent before.", append(ofPacket[:len(ofPacket):len(ofPacket)], "round")},
		{typeCopy, "A copy that the network or the capture made.", ofPacket},
		{typeReordered, "A packet came late and filled a gap.", ofPacket},
		{typeBadICRC, "The packet is damaged; it moves nothing.", ofPacket},
		{typeNAK, "The responder refused.", append(ofPacket[:len(ofPacket):len(ofPacket)], "code")},
		{typeRNR, "The responder was not ready; it asks to wait.", append(ofPacket[:len(ofPacket):len(ofPacket)], "wait_ns")},
		{typeGhost, "An answer to a request that was never seen.", ofPacket},
		{typeCNP, "A congestion notification.", ofPacket},
		{typeCE, "The packet carries congestion experienced.", ofPacket},
		{typeMessage, "A work request ended, or the capture did; latency_ns is missing where no answer was seen.", append(
			ofStream[:len(ofStream):len(ofStream)], "index", "operation", "status", "first_psn", "last_psn", "bytes", "resends", "first_seen_ns", "latency_ns", "last_frame")},
		{typeIWARP, "A message of iWARP ended, or the capture did: stag and offset are the remote buffer's, sink_stag and sink_offset where a READ's data goes, src and dst the TCP ends of who asked and who was asked.", append(
			ofStream[:len(ofStream):len(ofStream)], "index", "src", "dst", "operation", "opcode", "status", "stag", "offset", "sink_stag", "sink_offset", "bytes", "segments", "first_seen_ns", "latency_ns", "last_frame")},
		{typeFinding, "Something that an engineer should know, each time that it was found. Later packets may show one in another light: verdicts are what stands.", append(
			ofStream[:len(ofStream):len(ofStream)], "id", "severity", "summary")},
		{typePeers, "Two queue pairs belong together, as far as is known by now; evidence says how. It comes again when more is known; connection has the last word.", []string{
			"connection", "transport", "evidence", "a", "a_qp", "b", "b_qp",
		}},
		{typeState, "A queue pair is at least in this state from this frame on; qp is a or b, as in the last line about the connection's peers. Those that only the end tells stand there.", []string{
			"connection", "qp", "state", "why", "presumed",
		}},
		{typeConnection, "At the end, or when the connection leaves the table: the two queue pairs of a connection and what became of them.", []string{
			"connection", "transport", "evidence", "a", "a_qp", "b", "b_qp", "established_ns", "state_a", "state_b",
		}},
		{typeVerdict, "At the end: a finding that stands, count times, with a summary of all of them.", append(
			ofStream[:len(ofStream):len(ofStream)], "id", "severity", "summary", "count", "last_frame")},
		{typeEnd, "The last line: how much there was; missed are events, of serve, that came faster than they could be written.", []string{"frames", "connections", "missed"}},
	}, servedTypes...)
}
