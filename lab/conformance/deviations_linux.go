package conformance

// Deviation is a case in which Linux's soft-RoCE does something else than is required.
type Deviation struct {
	Case string
	Seen string // what it does instead
	Why  string // where the specification has it otherwise, and why Linux does it
}

// Deviations of soft-RoCE.
var Deviations = []Deviation{}
