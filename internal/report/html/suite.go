package html

// Suite is the page of a conformance run. It is filled by whoever ran the cases: this package knows nothing of devices.
type Suite struct {
	Name    string // of the run
	Version string // of the program
	Verdict string // "41 of 43 cases passed"
	About   string // against whom, over what, how long
	Tiles   []Fact
	Cases   []Case
	Facts   []Fact   // how the run was made
	Limits  []string // what it does not say
}

// Fact is a name and what it is.
type Fact struct{ Name, Value string }

// Status is what came of a case.
type Status string

// The statuses. A case is inconclusive where what happened allows no judgement.
const (
	Passed       Status = "passed"
	Failed       Status = "failed"
	Inconclusive Status = "inconclusive"
	Skipped      Status = "skipped"
)

// Case is a case with its verdict and what it rests on.
type Case struct {
	ID, Title string
	Group     string
	Status    Status
	Required  string // what the device has to do
	Seen      string // what it did
	Rule      string // whose word that is
	Took      string // time, as text
	Deciding  string // "frames 4 and 9: NAK instead of RNR NAK"
	Again     string // the command that runs it again
	Left      string // name of this end, of the diagram
	Right     string // the device
	Packets   []CasePacket
	Earlier   int // packets before those
}

// CasePacket is a packet of a case.
type CasePacket struct {
	Frame      uint64
	At         int64 // nanoseconds since the case began
	FromDevice bool
	Label      string // "WRITE First · PSN 0x000010"
	Note       string
	Class      string // request, answer, nak, rnr, resent, lost, damaged, ce, other
	Decides    bool
}
