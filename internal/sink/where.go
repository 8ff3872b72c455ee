package sink

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// Run is one capture by one probe: what all of its rows have in common.
type Run struct {
	Probe string
	ID    uint64 // of at most 52 bits, so that every reader of JSON keeps it whole
	start int64  // time of the first packet
}

// end is one of the two queue pairs of a row.
type end struct {
	addr string // "" = not known
	qpn  uint32
	ok   bool // the QPN is known
}

// where says whose row it is: the run, the connection and, of rows about one direction, who sends in it to whom.
type where struct {
	run       *Run
	conn      uint32
	transport string
	direction flows.Direction
	src, dst  end
}

func (w *where) at() *where { return w }

// placed is a record that knows whose it is.
type placed[R any] interface {
	*R
	at() *where
}

// runColumns are the columns of all tables.
func runColumns[R any, P placed[R]]() []column[R] {
	return []column[R]{
		word("probe", "who captured it: the name of the host, or what --probe says", func(r *R) string { return P(r).at().run.Probe }),
		number("run", Uint64, "", "the capture that the row comes from: one number for each probe and file, or live capture", func(r *R) uint64 { return P(r).at().run.ID }),
		number("run_start", Time, "", "time of the run's first packet", func(r *R) uint64 { return uint64(P(r).at().run.start) }),
	}
}

// streamColumns are the columns of tables about one direction of a connection.
func streamColumns[R any, P placed[R]]() []column[R] {
	return append(runColumns[R, P](),
		number("connection", Uint32, "", "number of the connection within the run", func(r *R) uint64 { return uint64(P(r).at().conn) }),
		word("direction", "a_to_b or b_to_a", func(r *R) string { return P(r).at().direction.String() }),
		word("transport", "RC, UC, RD, UD or XRC; of messages also iWARP", func(r *R) string { return P(r).at().transport }),
		word("src_address", "who sends in this direction: address or GID", func(r *R) string { return P(r).at().src.addr }),
		maybe("src_qpn", Uint32, "", "its QPN; missing as long as the wire does not tell", func(r *R) (uint64, bool) { e := &P(r).at().src; return uint64(e.qpn), e.ok }),
		word("dst_address", "to whom: address or GID", func(r *R) string { return P(r).at().dst.addr }),
		maybe("dst_qpn", Uint32, "", "QPN that the packets of this direction name", func(r *R) (uint64, bool) { e := &P(r).at().dst; return uint64(e.qpn), e.ok }),
	)
}

// addresses keeps the text of each address.
type addresses map[dissect.Addr]string

// maxAddresses bounds what is kept; beyond it everything is learnt anew.
const maxAddresses = 1 << 20

func (a addresses) text(of dissect.Addr) string {
	if of.IsZero() {
		return ""
	}
	text, ok := a[of]
	if !ok {
		if len(a) >= maxAddresses {
			clear(a)
		}
		text = of.String()
		a[of] = text
	}
	return text
}
