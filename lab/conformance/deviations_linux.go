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
		Case: "LEN-07", Seen: "NAK remote access error",
		Why: "as RETH-10: the length is held against the memory region only",
	},
	{
		Case: "LEN-06", Seen: "NAK remote operational error",
		Why: "rxe's copy_data tells a message that is longer than its receive by EINVAL, which the responder takes for a malformed WQE (NAK 3), not for a length error (NAK 1)",
	},
}
