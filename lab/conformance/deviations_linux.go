package conformance

// Deviation is a case in which Linux's soft-RoCE does something else than is required.
type Deviation struct {
	Case string
	Seen string // what it does instead
	Why  string // where the specification has it otherwise, and why Linux does it
}

// Deviations of soft-RoCE.
var Deviations = []Deviation{
	{
		Case: "VLAN-01", Seen: "a frame with a priority tag (VLAN 0) is not answered",
		Why: "not confirmed yet: whether rxe, the guest's kernel or the laboratory's bridge loses it has to be seen by a capture at the tap",
	},
	{Case: "VLAN-04", Seen: "as VLAN-01", Why: "as VLAN-01"},
	{
		Case: "RETH-10", Seen: "NAK remote access error",
		Why: "no request may be longer than 2^31 bytes (invalid request); this release of rxe knows no such limit and compares the length with the memory region only, which is shorter",
	},
	{
		Case: "PSN-18", Seen: "an ACK with the PSN before the READ",
		Why: "a duplicate is acknowledged with the newest PSN executed; rxe takes the PSN of its last ACK, which READ responses do not move",
	},
	{
		Case: "UC-01", Seen: "messages behind an unfinished one are not executed",
		Why: "a new message begins anew (9.8.2.2.2); behind a gap rxe keeps the opcode of the unfinished message, expects its LAST, and drops what comes instead",
	},
	{Case: "CC-01", Seen: "no CNP", Why: "rxe has no congestion control: it never sends a CNP, whatever the ECN bits"},
	{Case: "CC-01-EVERY", Seen: "no CNP", Why: "as CC-01"},
	{Case: "CC-02", Seen: "no CNP", Why: "as CC-01"},
	{
		Case: "AETH-05", Seen: "SUCCESS, with other data, and the queue pair is in ERROR",
		Why: "a response whose AETH is no ACK must end the request as a bad response; rxe's completer brings the queue pair to ERROR and leaves the request's status as it was, which is SUCCESS",
	},
	{Case: "NAK-07", Seen: "SUCCESS, with other data, and the queue pair is in ERROR", Why: "as AETH-05"},
	{
		Case: "RSP-04", Seen: "no completion; the last 4 bytes are asked for again and again",
		Why: "a response that is shorter than it has to be is a local length error; rxe's completer does not compare the length with the path MTU, and takes what is missing at the end for lost",
	},
	{
		Case: "RSP-06", Seen: "the queue pair is in ERROR",
		Why: "a queue pair whose request has failed has no business with requests; the completion did not say so, though, so that the probe found it mute",
	},
	{
		Case: "LEN-07", Seen: "NAK remote access error",
		Why: "as RETH-10: the length is held against the memory region only",
	},
	{
		Case: "LEN-06", Seen: "NAK remote operational error",
		Why: "rxe's copy_data tells a message that is longer than its receive by EINVAL, which the responder takes for a malformed WQE (NAK 3), not for a length error (NAK 1)",
	},
}
