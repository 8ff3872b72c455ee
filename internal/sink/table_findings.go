package sink

import (
	"sync"

	"github.com/rocescope/rocescope/flows"
)

type findingRow struct {
	where
	*flows.Finding
	gone bool
}

var findings = sync.OnceValue(func() *table[findingRow] {
	type row = findingRow
	return newTable(Table{
		Name: "findings", Doc: "What an engineer should know: one row for each check and stream in which it found something. docs/findings.md lists the checks.",
		Key: []string{"run", "finding", "connection", "direction", "place"}, Time: "time", Day: "run_start", QPN: "dst_qpn",
	},
		runColumns[row](),
		[]column[row]{
			word("finding", "the check's id", func(r *row) string { return r.ID.String() }),
			word("severity", "error, warning or note", func(r *row) string { return r.Severity().String() }),
			word("title", "what it is, in a few words", func(r *row) string { return r.Check().Title }),
			number("connection", Uint32, "", "number of the connection within the run; 0: the capture as a whole", func(r *row) uint64 { return uint64(r.conn) }),
			word("direction", "a_to_b or b_to_a; empty where it concerns no stream", func(r *row) string {
				if !r.HasStream {
					return ""
				}
				return r.direction.String()
			}),
			word("place", "of findings outside the connections: between whom", func(r *row) string { return r.Where }),
			word("src_address", "who sends in the stream", func(r *row) string { return r.src.addr }),
			maybe("src_qpn", Uint32, "", "its QPN", func(r *row) (uint64, bool) { return uint64(r.src.qpn), r.src.ok }),
			word("dst_address", "to whom", func(r *row) string { return r.dst.addr }),
			maybe("dst_qpn", Uint32, "", "its QPN", func(r *row) (uint64, bool) { return uint64(r.dst.qpn), r.dst.ok }),
			number("frame", Uint64, "", "number of the first packet that proves it; 0 where none does", func(r *row) uint64 { return r.Frame }),
			number("time", Time, "", "time of that packet", func(r *row) uint64 { return uint64(r.Finding.Time) }),
			number("last_frame", Uint64, "", "number of the last packet that proves it", func(r *row) uint64 { return r.Last }),
			number("count", Uint64, "", "how often it was found; 0: a row before was mistaken", func(r *row) uint64 {
				if r.gone {
					return 0
				}
				return max(r.Count, 1)
			}),
			word("summary", "one sentence with the numbers", func(r *row) string { return r.Summary }),
			word("rule", "what it rests on: the specification's section", func(r *row) string { return r.Check().Rule }),
		},
	)
})
