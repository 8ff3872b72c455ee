package sink

import (
	"sync"

	"github.com/rocescope/rocescope/flows"
)

type connectionRow struct {
	where
	*flows.Connection
	a, b end
}

func (r *connectionRow) qp(d flows.Direction) (*flows.QP, *end) {
	if d == flows.AToB {
		return &r.A, &r.a
	}
	return &r.B, &r.b
}

var connections = sync.OnceValue(func() *table[connectionRow] {
	type row = connectionRow
	return newTable(Table{
		Name: "connections", Doc: "The pairs of queue pairs; of UD, a source QP and one destination of it.",
		Key: []string{"run", "connection"}, Time: "first_seen", Day: "run_start", QPN: "b_qpn",
	},
		runColumns[row](),
		[]column[row]{
			number("connection", Uint32, "", "number of the connection within the run", func(r *row) uint64 { return uint64(r.ID) }),
			word("transport", "RC, UC, RD, UD or XRC", func(r *row) string { return r.Transport.String() }),
		},
		endColumns("a", flows.AToB), endColumns("b", flows.BToA),
		[]column[row]{
			word("established_by", "how the two were found to belong together: cm, socket, deth, inferred, ambiguous or unpaired", func(r *row) string { return r.Evidence.String() }),
			word("pairing_evidence", "the same in words", func(r *row) string { return r.Why }),
			word("tap", "where the capture was taken: near a, near b, between or unknown", func(r *row) string { return r.Tap.String() }),
			number("directions", Uint16, "", "how many of the two directions were captured", func(r *row) uint64 { return uint64(r.Directions) }),
			maybe("service_id", Uint64, "", "that the CM handshake named", func(r *row) (uint64, bool) { return r.ServiceID, r.ServiceID != 0 }),
			maybe("established", Time, "", "when the CM handshake was complete", func(r *row) (uint64, bool) { return uint64(r.Established), r.Established != 0 }),
			number("first_seen", Time, "", "time of the first packet", func(r *row) uint64 { return uint64(r.FirstSeen) }),
			number("last_seen", Time, "", "time of the last packet", func(r *row) uint64 { return uint64(r.LastSeen) }),
			number("first_frame", Uint64, "", "number of the first packet in the capture", func(r *row) uint64 { return r.FirstFrame }),
		},
	)
})

// endColumns are one queue pair of a connection.
func endColumns(side string, d flows.Direction) []column[connectionRow] {
	type row = connectionRow
	return []column[row]{
		word(side+"_address", "address or GID of "+side, func(r *row) string { _, e := r.qp(d); return e.addr }),
		maybe(side+"_vlan", Uint16, "", "its VLAN", func(r *row) (uint64, bool) { q, _ := r.qp(d); return uint64(max(q.VLAN, 0)), q.VLAN >= 0 }),
		maybe(side+"_qpn", Uint32, "", "its QPN; missing where the wire does not tell", func(r *row) (uint64, bool) { _, e := r.qp(d); return uint64(e.qpn), e.ok }),
		word(side+"_state", "the state that the wire proves: RESET, INIT, RTR, RTS, SQE, ERROR or unknown", func(r *row) string { q, _ := r.qp(d); return q.State.String() }),
		maybe(side+"_first_psn", Uint32, "", "PSN of its first request", func(r *row) (uint64, bool) { q, _ := r.qp(d); return uint64(q.FirstPSN), q.HasPSN }),
		maybe(side+"_path_mtu", Uint16, "bytes", "path MTU", func(r *row) (uint64, bool) { q, _ := r.qp(d); return uint64(q.PathMTU), q.PathMTU > 0 }),
		number(side+"_outstanding", Uint32, "messages", "most messages that it had outstanding", func(r *row) uint64 { q, _ := r.qp(d); return uint64(q.InUse.Outstanding) }),
		number(side+"_retries", Uint32, "", "most times that it began one message again", func(r *row) uint64 { q, _ := r.qp(d); return uint64(max(q.InUse.Retries, 0)) }),
	}
}
