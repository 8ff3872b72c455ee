package flows

// Severity is how much a finding matters.
type Severity uint8

// The severities, least first.
const (
	Note Severity = iota
	Warning
	Error
)

var severityNames = [...]string{"note", "warning", "error"}

func (s Severity) String() string { return severityNames[s%3] }

// ParseSeverity is the reverse of String.
func ParseSeverity(name string) (s Severity, ok bool) {
	for i, n := range severityNames {
		if n == name {
			return Severity(i), true
		}
	}
	return 0, false
}

// Evidence is how the two queue pairs of a connection were found to belong
// together.
type Evidence uint8

// The kinds, weakest first.
const (
	Unpaired  Evidence = iota // the wire does not say who the other side is
	Ambiguous                 // several candidates are left
	Inferred                  // from what the two streams acknowledge
	BySocket                  // a socket exchange was captured
	ByCM                      // a CM handshake was captured
	ByDETH                    // UD: every packet names its source QP
)

var evidenceNames = [...]string{"unpaired", "ambiguous", "inferred", "socket", "cm", "deth"}

func (e Evidence) String() string { return evidenceNames[e%6] }

// FindingID is a row of the check table.
type FindingID uint16

// String returns the row's id, as in the JSON document.
func (id FindingID) String() string {
	if int(id) < len(checks) {
		return checks[id].ID
	}
	return "unknown"
}

// Check is a row of the check table: one thing that can be found.
type Check struct {
	ID       string // "psn_gap"
	Severity Severity
	Title    string // what it is, in a few words
	Explain  string // what it means, in plain words
	Rule     string // what it rests on: the specification's section
	Try      string // what to do about it

	text func(f *Finding) string // the summary
}

// Finding is one occurrence of a check, or several of them folded into one.
type Finding struct {
	ID        FindingID
	Conn      uint32    // 0 = the capture as a whole
	Direction Direction // the stream it was seen in
	HasStream bool
	Frame     uint64 // the first frame that proves it
	Time      int64  // of that frame
	Count     uint64
	Last      uint64    // the last frame that proves it
	Args      [4]uint64 // the numbers behind the summary; what they are is the check's affair
	Where     string    // of findings outside the connections: between whom
	Detail    string    // more words for the summary, where numbers do not say it
	Recovery  Recovery  // of findings of loss: what it cost to make it good
	Summary   string    // one sentence with the numbers
}

// Recovery is what the episodes behind a finding of loss cost: from the loss to
// the answer that covered all that was sent until it was noticed.
type Recovery struct {
	Recovered uint64 // episodes that ended well
	Open      uint64 // episodes that had not ended with the capture
	Packets   uint64 // sent again
	Bytes     uint64 // of them, as on the wire
	Longest   int64  // ns, of those that ended well
	Together  int64  // ns, their sum
}

// Severity returns that of the finding's check.
func (f *Finding) Severity() Severity { return checks[f.ID].Severity }

// Check returns the finding's row of the table.
func (f *Finding) Check() *Check { return &checks[f.ID] }

// Sentence makes the summary of a finding as a sink gets it; those of a
// snapshot have theirs.
func (f *Finding) Sentence() string { return f.Check().text(f) + f.Recovery.text() }

// Checks returns the check table in order. The slice is not to be changed.
func Checks() []Check { return checks[:] }
