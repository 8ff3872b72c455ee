package flows

import "github.com/rocescope/rocescope/dissect"

// handshakes follows how connections are set up and taken down, as far as the
// capture shows it: the communication manager's datagrams on QP1 (IBA 12), and
// the texts by which perftest and the ibv_*_pingpong programs tell each other
// their queue pairs over TCP. Both name the two queue pairs of a connection
// for certain.
//
// It is fed in the order of the capture. Its memory is bounded by its limits,
// not by the capture.
type handshakes struct {
	cm      cmTable
	sockets socketTable
}

// handshakeLimits bound what handshakes remembers; what was touched longest
// ago is forgotten first. The zero value is good.
type handshakeLimits struct {
	CM    int // CM conversations; 0 = 64 Ki
	Flows int // TCP connections; 0 = 4 Ki
	// Exchanges are those that the user describes.
	Exchanges []Exchange
}

func newHandshakes(l handshakeLimits) *handshakes {
	if l.CM <= 0 {
		l.CM = 64 << 10
	}
	if l.Flows <= 0 {
		l.Flows = 4 << 10
	}
	h := &handshakes{}
	h.cm.init(l.CM)
	h.sockets.init(l.Flows)
	h.sockets.described = l.Exchanges
	return h
}

// packet takes one packet and appends what it proves to dst. Packets that are
// neither management datagrams nor TCP, and damaged ones, prove nothing.
func (h *handshakes) packet(p *dissect.Packet, frame []byte, dst []handshakeEvent) []handshakeEvent {
	switch {
	case p.Proto == dissect.ProtoTCP:
		return h.sockets.packet(p, frame, dst)
	case p.Has(dissect.LayerMAD) && p.ICRC != dissect.ICRCInvalid:
		return h.cm.packet(p, frame, dst)
	}
	return dst
}

// socketPackets is how many TCP packets so far belong to connections in which
// an exchange was recognised, those before its recognition included.
func (h *handshakes) socketPackets() uint64 { return h.sockets.recognised }

// eventKind is what a packet of a handshake proves.
type eventKind uint8

const (
	evHalf              eventKind = iota // one queue pair of a connection is known
	evPair                               // both are known, and belong together
	evEstablished                        // the set-up is complete: RTU seen, or both sides went on after their texts
	evRejected                           // REJ, or a SIDR_REP that refuses
	evDisconnectRequest                  // DREQ
	evDisconnected                       // DREP
	evResent                             // a message of CM that was seen before
	evMRA                                // "wait longer"
	evMigration                          // LAP or APR
	evSIDR                               // a UD queue pair is asked for, or told
)

var eventKindNames = [...]string{"half", "pair", "established", "rejected", "disconnect request", "disconnected", "resent", "MRA", "migration", "SIDR"}

func (k eventKind) String() string { return eventKindNames[int(k)%len(eventKindNames)] }

// handshakeEvent is one thing that a handshake proves.
type handshakeEvent struct {
	Kind    eventKind
	By      Evidence            // ByCM or BySocket
	Message dissect.CMAttribute // CM: which message
	FromA   bool                // the packet was sent by A

	// A is the active side, the REQ's sender or the TCP client, where
	// RolesKnown; else the sides are in the order in which they were seen.
	// A QPN is valid where Has… says so; addresses always are. Addresses are
	// those that the handshake names for the queue pairs, and the datagrams'
	// own where it names none.
	RolesKnown bool
	HasA, HasB bool
	A, B       QPName
	// Late: of evPair: not the set-up proves it, but what came after it, a DREQ
	// or a text that perftest sends over and over. The queue pairs were in use
	// before.
	Late bool
	// VLANKnown: the queue pairs use the handshake's own VLAN. A TCP exchange
	// may run over another network than the RDMA traffic; then it is false,
	// and VLAN is that of TCP.
	VLANKnown bool

	// What was agreed on, as far as seen. StartPSN, valid with HasPSN…, is
	// the first PSN of the requests that this queue pair itself sends.
	NegA, NegB       Negotiated
	HasPSNA, HasPSNB bool

	Transport    dissect.Transport
	HasTransport bool // a socket exchange does not tell the transport
	ServiceID    uint64
	QKey         uint32                // evSIDR from a SIDR_REP: of B
	Reason       uint16                // REJ reason, SIDR status, APR status
	Rejected     uint8                 // REJ, MRA: what it answers: 0 REQ, 1 REP, 2 other (MRA: LAP)
	Upper        dissect.UpperProtocol // CM: what the REQ's private data is of for certain
	Queue        int                   // CM, NVMe: what the REQ's private data names; -1 without
	PrivateLen   int                   // CM: private data up to its last byte that is not 0

	CommA, CommB uint32 // CM: communication identifiers; SIDR: CommA is the request's
	Transaction  uint64
	Packets      uint64 // evPair by socket: the TCP connection's packets up to this one

	Frame uint64
	Time  int64
	Why   string // "CM REQ in frame 12, REP in frame 13"; only of evPair and evHalf
}

// recent is a table of bounded size that knows which of its items was touched
// longest ago. It grows with what it holds.
type recent[T any] struct {
	items          []recentItem[T]
	newest, oldest int32
	free           int32
	limit          int
}

type recentItem[T any] struct {
	v            T
	newer, older int32
}

func (r *recent[T]) init(limit int) { r.newest, r.oldest, r.free, r.limit = -1, -1, -1, limit }

func (r *recent[T]) at(i int32) *T { return &r.items[i].v }

// take returns the index of an item for a new use. Where the table is full it
// is the item touched longest ago, whose old value is still in it: used.
func (r *recent[T]) take() (i int32, used bool) {
	switch {
	case r.free >= 0:
		i = r.free
		r.free = r.items[i].older
	case len(r.items) < r.limit:
		i = int32(len(r.items))
		r.items = append(r.items, recentItem[T]{})
	default:
		i, used = r.oldest, true
		r.unlink(i)
	}
	r.link(i)
	return i, used
}

// touch makes i the newest.
func (r *recent[T]) touch(i int32) {
	if r.newest != i {
		r.unlink(i)
		r.link(i)
	}
}

// drop gives the item back.
func (r *recent[T]) drop(i int32) {
	r.unlink(i)
	it := &r.items[i]
	var zero T
	it.v, it.newer, it.older = zero, -1, r.free
	r.free = i
}

func (r *recent[T]) link(i int32) {
	it := &r.items[i]
	it.newer, it.older = -1, r.newest
	if r.newest >= 0 {
		r.items[r.newest].newer = i
	} else {
		r.oldest = i
	}
	r.newest = i
}

func (r *recent[T]) unlink(i int32) {
	it := &r.items[i]
	if it.newer >= 0 {
		r.items[it.newer].older = it.older
	} else {
		r.newest = it.older
	}
	if it.older >= 0 {
		r.items[it.older].newer = it.newer
	} else {
		r.oldest = it.newer
	}
}
