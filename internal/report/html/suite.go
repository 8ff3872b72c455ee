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

// The statuses. The first three are held against the device, or kept the case from being judged.
const (
	Failed     Status = "failed"
	Hung       Status = "hung"
	Broken     Status = "error"
	Disputed   Status = "disputed"
	Reported   Status = "reported"
	Documented Status = "documented"
	Passed     Status = "passed"
	Skipped    Status = "skipped"
)

// statuses are the order in which a reader wants cases, how each looks, and its sign.
var statuses = []struct {
	status       Status
	look, letter string
}{
	{Failed, "error", "✕"},
	{Hung, "error", "✕"},
	{Broken, "error", "✕"},
	{Disputed, "warning", "?"},
	{Reported, "warning", "!"},
	{Documented, "note", "i"},
	{Passed, "passed", "✓"},
	{Skipped, "skipped", "–"},
}

// Case is a case with its verdict and what it rests on.
type Case struct {
	ID, Title string
	Group     string
	Status    Status
	Why       string // of a status that needs a reason
	Required  string // what the device has to do
	Seen      string // what it did
	Rule      string // whose word that is
	Took      string // time, as text
	Problems  []Problem
	Alive     string // whether the device answered behind the case
	Again     string // the command that runs it again
	Capture   string // the file with its packets
	Left      string // name of this end, in the diagram
	Right     string // the device's
	Packets   []CasePacket
}

// Problem is something that was not as required.
type Problem struct {
	Required, Seen, Rule string
	Deciding             string // "frames 4 and 9"
}

// CasePacket is a packet of a case.
type CasePacket struct {
	Frame      uint64
	At         int64 // nanoseconds since the case began
	FromDevice bool
	Label      string // "WRITE First · PSN 0x000010"
	Text       string // all of it, for whoever points at it
	Note       string
	Class      string // request, answer, nak, rnr, resent, lost, damaged, ce, other
	Decides    bool
}
