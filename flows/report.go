package flows

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// findingKey folds the occurrences of a check in one stream into one finding.
type findingKey struct {
	id    FindingID
	conn  uint32
	dir   Direction
	where string // outside the connections: between whom
}

// findingSet is the findings so far.
type findingSet struct {
	list  []Finding
	index map[findingKey]int
	left  uint64 // findings for which there was no room
}

func newFindingSet() findingSet { return findingSet{index: map[findingKey]int{}} }

// report notes that a packet proves a check. d is the stream concerned; m may
// be nil.
func (t *Tracker) report(id FindingID, c *conn, d Direction, p *dissect.Packet, m *Mark, args ...uint64) {
	if c.flags&connProvisional != 0 {
		return
	}
	if m != nil {
		m.Bits |= MarkFinding
	}
	t.reportAt(id, c, d, p.Number, p.Time, args...)
}

func (t *Tracker) reportAt(id FindingID, c *conn, d Direction, frame uint64, at int64, args ...uint64) {
	if c.flags&connProvisional != 0 {
		return
	}
	f := Finding{ID: id, Conn: c.id, Direction: d, HasStream: true, Frame: frame, Time: at, Count: 1}
	copy(f.Args[:], args)
	t.addFinding(&f)
}

// reportEvent notes a finding of connection set-up, which belongs to no
// connection of the table.
func (t *Tracker) reportEvent(id FindingID, e *handshakeEvent, args ...uint64) {
	f := Finding{ID: id, Frame: e.Frame, Time: e.Time, Count: 1}
	copy(f.Args[:], args)
	f.Where = fmt.Sprintf("%v → %v", e.A.Addr, e.B.Addr)
	t.addFinding(&f)
}

func (t *Tracker) addFinding(f *Finding) {
	if t.opt.Sink.Finding != nil {
		t.opt.Sink.Finding(f)
	}
	k := findingKey{f.ID, f.Conn, f.Direction, f.Where}
	if i, ok := t.findings.index[k]; ok {
		known := &t.findings.list[i]
		if known.Count == 0 { // retracted
			*known = *f
		} else {
			known.Count += f.Count
		}
		known.Last = f.Frame
		return
	}
	if len(t.findings.list) >= t.opt.MaxFindings {
		t.findings.left++
		return
	}
	f.Last = f.Frame
	t.findings.index[k] = len(t.findings.list)
	t.findings.list = append(t.findings.list, *f)
}

// addArg adds to a number of a finding that sums over its occurrences; the
// first occurrence has brought its own share.
func (t *Tracker) addArg(id FindingID, c *conn, d Direction, arg int, n uint64) {
	if i, ok := t.findings.index[findingKey{id: id, conn: c.id, dir: d}]; ok && t.findings.list[i].Count > 1 {
		t.findings.list[i].Args[arg] += n
	}
}

// retract takes back one occurrence of a finding, for later packets showed it
// in another light.
func (t *Tracker) retract(id FindingID, c *conn, d Direction) {
	if i, ok := t.findings.index[findingKey{id: id, conn: c.id, dir: d}]; ok && t.findings.list[i].Count > 0 {
		t.findings.list[i].Count--
	}
}

// allFindings returns the findings, with those that only the whole capture so
// far shows.
func (t *Tracker) allFindings() []Finding {
	var standing []Finding
	if !t.finished { // else they are there already
		t.verdicts(func(f *Finding) {
			f.Last = f.Frame
			standing = append(standing, *f)
		})
	}
	return t.findings.sorted(standing...)
}

// sorted returns the findings and more of them, gravest first, then in the order of frames.
func (s *findingSet) sorted(more ...Finding) []Finding {
	out := slices.DeleteFunc(append(slices.Clone(s.list), more...), func(f Finding) bool { return f.Count == 0 })
	for i := range out {
		out[i].Summary = out[i].Sentence()
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity(), a.Severity()), cmp.Compare(a.Frame, b.Frame), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
