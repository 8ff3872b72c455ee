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
	{
		Case: "LEN-07", Seen: "NAK remote access error",
		Why: "as RETH-10: the length is held against the memory region only",
	},
	{
		Case: "LEN-06", Seen: "NAK remote operational error",
		Why: "rxe's copy_data tells a message that is longer than its receive by EINVAL, which the responder takes for a malformed WQE (NAK 3), not for a length error (NAK 1)",
	},
}
