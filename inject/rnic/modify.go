package rnic

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// AHAttr is a way to another port (an address vector).
type AHAttr struct {
	Dst          netip.Addr
	DstMAC       [6]byte
	SGIDIndex    int
	TrafficClass uint8
	HopLimit     uint8  // 0 = 64
	FlowLabel    uint32 // IPv6; of both, it makes the UDP source port where it is not 0
	SrcPort      uint16 // UDP; 0 = from FlowLabel, or from the QPNs
}

// Attr are the attributes of a queue pair.
type Attr struct {
	State, CurState State
	EnSQDNotify     bool // an event when SQD has drained
	Access          Access
	Timeout         uint8 // of acknowledgements: 4.096 µs × 2^n; 0 = never
	RetryCnt        uint8
	RNRRetry        uint8 // 7 = for ever
	MinRNRTimer     uint8 // the code that is sent
	QKey            uint32
	DestQPN         uint32
	RQPSN, SQPSN    dissect.PSN
	MaxRdAtomic     int // READs and atomics outstanding as requester
	MaxDestRdAtomic int // as responder
	PathMTU         int // bytes
	PKeyIndex       int
	Port            int // 1
	AH              AHAttr
}

// AttrMask says which attributes a Modify means.
type AttrMask uint32

// The attributes.
const (
	AttrState AttrMask = 1 << iota
	AttrCurState
	AttrEnSQDNotify
	AttrAccess
	AttrPKeyIndex
	AttrPort
	AttrQKey
	AttrAV
	AttrPathMTU
	AttrDestQPN
	AttrRQPSN
	AttrSQPSN
	AttrTimeout
	AttrRetryCnt
	AttrRNRRetry
	AttrMaxRdAtomic
	AttrMaxDestRdAtomic
	AttrMinRNRTimer
)

var attrNames = [...]string{
	"State", "CurState", "EnSQDNotify", "Access", "PKeyIndex", "Port", "QKey", "AH", "PathMTU", "DestQPN", "RQPSN", "SQPSN",
	"Timeout", "RetryCnt", "RNRRetry", "MaxRdAtomic", "MaxDestRdAtomic", "MinRNRTimer",
}

func (m AttrMask) String() string {
	var names []string
	for m != 0 {
		if i := bits.TrailingZeros32(uint32(m)); i < len(attrNames) {
			names = append(names, attrNames[i])
		}
		m &= m - 1
	}
	return strings.Join(names, ", ")
}

// need is what a transition wants of a service: attributes that must be there, and such that may. State is always meant.
type need struct{ must, may AttrMask }

// transition is a row of the table of the state machine.
type transition struct {
	from, to   State
	rc, uc, ud need
	no         []dissect.Transport // services that do not have it
}

// transitions are the steps of the state machine with their attributes (IBA 11.2.5.2, table 91), but for those into RESET and ERROR,
// which are open from everywhere and take none. Alternate paths and migration are not offered.
var transitions = []transition{
	{
		from: RESET, to: INIT,
		rc: need{must: AttrPKeyIndex | AttrPort | AttrAccess},
		uc: need{must: AttrPKeyIndex | AttrPort | AttrAccess},
		ud: need{must: AttrPKeyIndex | AttrPort | AttrQKey},
	},
	{
		from: INIT, to: INIT,
		rc: need{may: AttrPKeyIndex | AttrPort | AttrAccess},
		uc: need{may: AttrPKeyIndex | AttrPort | AttrAccess},
		ud: need{may: AttrPKeyIndex | AttrPort | AttrQKey},
	},
	{
		from: INIT, to: RTR,
		rc: need{
			must: AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
			may:  AttrPKeyIndex | AttrAccess,
		},
		uc: need{must: AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN, may: AttrPKeyIndex | AttrAccess},
		ud: need{may: AttrPKeyIndex | AttrQKey},
	},
	{
		from: RTR, to: RTS,
		rc: need{
			must: AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxRdAtomic,
			may:  AttrCurState | AttrAccess | AttrMinRNRTimer,
		},
		uc: need{must: AttrSQPSN, may: AttrCurState | AttrAccess},
		ud: need{must: AttrSQPSN, may: AttrCurState | AttrQKey},
	},
	{
		from: RTS, to: RTS,
		rc: need{may: AttrCurState | AttrAccess | AttrMinRNRTimer},
		uc: need{may: AttrCurState | AttrAccess},
		ud: need{may: AttrCurState | AttrQKey},
	},
	{
		from: RTS, to: SQD,
		rc: need{may: AttrEnSQDNotify}, uc: need{may: AttrEnSQDNotify}, ud: need{may: AttrEnSQDNotify},
	},
	{
		from: SQD, to: RTS,
		rc: need{may: AttrCurState | AttrAccess | AttrMinRNRTimer},
		uc: need{may: AttrCurState | AttrAccess},
		ud: need{may: AttrCurState | AttrQKey},
	},
	{
		from: SQD, to: SQD,
		rc: need{may: AttrPort | AttrAV | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic | AttrMaxDestRdAtomic | AttrAccess | AttrPKeyIndex | AttrMinRNRTimer},
		uc: need{may: AttrAV | AttrAccess | AttrPKeyIndex},
		ud: need{may: AttrPKeyIndex | AttrQKey},
	},
	{
		from: SQE, to: RTS, no: []dissect.Transport{dissect.RC},
		uc: need{may: AttrCurState | AttrAccess},
		ud: need{may: AttrCurState | AttrQKey},
	},
}

// step returns what a transition needs of a service; ok is false where there is none.
func step(typ dissect.Transport, from, to State) (n need, ok bool) {
	if to == RESET || to == ERROR {
		return need{}, true
	}
	for i := range transitions {
		t := &transitions[i]
		if t.from != from || t.to != to {
			continue
		}
		for _, no := range t.no {
			if no == typ {
				return need{}, false
			}
		}
		return [...]need{dissect.RC: t.rc, dissect.UC: t.uc, dissect.UD: t.ud}[typ], true
	}
	return need{}, false
}

// Modify moves the queue pair to another state, or changes attributes in its state (without AttrState), and refuses what verbs refuse.
// A refused Modify changes nothing.
func (q *QP) Modify(a Attr, mask AttrMask) error {
	q.dev.lock()
	defer q.dev.unlock()
	from, to := q.State(), q.State()
	if mask&AttrState != 0 {
		to = a.State
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("rnic: modify QP %#x from %v to %v: "+format, append([]any{q.qpn, from, to}, args...)...)
	}
	if q.destroyed {
		return refuse("%w", ErrDestroyed)
	}
	n, ok := step(q.typ, from, to)
	given := mask &^ AttrState
	switch missing, surplus := n.must&^given, given&^(n.must|n.may); {
	case to >= numStates || !ok:
		return refuse("%w: the state machine of %v has no such step", ErrState, q.typ)
	case missing != 0:
		return refuse("needs also the attributes %v", missing)
	case surplus != 0:
		return refuse("does not take the attributes %v", surplus)
	case mask&AttrCurState != 0 && a.CurState != from:
		return refuse("%w: the caller takes it for %v", ErrState, a.CurState)
	case from == SQD && to == SQD && !q.drained():
		return refuse("%w: the send queue has not drained", ErrState)
	}
	if why := q.dev.valid(&a, mask); why != "" {
		return refuse("%s", why)
	}
	q.take(&a, mask)
	q.enter(from, to)
	return nil
}

// valid says what is wrong with the values of attributes, "" for nothing.
func (d *Device) valid(a *Attr, mask AttrMask) string {
	for _, c := range [...]struct {
		attr AttrMask
		bad  bool
		why  string
	}{
		{AttrPort, a.Port != 1, "port must be 1"},
		{AttrPKeyIndex, a.PKeyIndex < 0 || a.PKeyIndex >= len(d.opt.PKeys), "the table of partition keys has no such index"},
		{AttrAV, a.AH.SGIDIndex < 0 || a.AH.SGIDIndex >= len(d.gids), "the table of GIDs has no such index"},
		{AttrAV, !a.AH.Dst.IsValid(), "the address handle has no destination"},
		{AttrPathMTU, !dissect.ValidMTU(a.PathMTU) || a.PathMTU > d.mtu, fmt.Sprintf("path MTU must be 256, 512 … %d", d.mtu)},
		{AttrDestQPN, a.DestQPN > maxQPN, "destination QPN has more than 24 bits, or is multicast"},
		{AttrRQPSN, a.RQPSN > 1<<24-1, "RQPSN has more than 24 bits"},
		{AttrSQPSN, a.SQPSN > 1<<24-1, "SQPSN has more than 24 bits"},
		{AttrTimeout, a.Timeout > 31, "time-out must be 0 … 31"},
		{AttrRetryCnt, a.RetryCnt > 7, "retry count must be 0 … 7"},
		{AttrRNRRetry, a.RNRRetry > 7, "RNR retry count must be 0 … 7"},
		{AttrMinRNRTimer, a.MinRNRTimer > 31, "RNR timer must be 0 … 31"},
		{AttrMaxRdAtomic, a.MaxRdAtomic < 0 || a.MaxRdAtomic > MaxRdAtomic, "MaxRdAtomic must be 0 … 128"},
		{AttrMaxDestRdAtomic, a.MaxDestRdAtomic < 0 || a.MaxDestRdAtomic > MaxRdAtomic, "MaxDestRdAtomic must be 0 … 128"},
	} {
		if mask&c.attr != 0 && c.bad {
			return c.why
		}
	}
	if mask&AttrAV != 0 && a.AH.Dst.Unmap().Is4() != d.gids[a.AH.SGIDIndex].Is4() {
		return "the two addresses are not of one family: IPv4 or IPv6"
	}
	return ""
}

// take copies the attributes that are meant.
func (q *QP) take(a *Attr, mask AttrMask) {
	b := &q.attr
	for _, c := range [...]struct {
		attr AttrMask
		copy func()
	}{
		{AttrEnSQDNotify, func() { b.EnSQDNotify = a.EnSQDNotify }},
		{AttrAccess, func() { b.Access = a.Access }},
		{AttrPKeyIndex, func() { b.PKeyIndex = a.PKeyIndex }},
		{AttrPort, func() { b.Port = a.Port }},
		{AttrQKey, func() { b.QKey = a.QKey }},
		{AttrAV, func() { b.AH = a.AH }},
		{AttrPathMTU, func() { b.PathMTU = a.PathMTU }},
		{AttrDestQPN, func() { b.DestQPN = a.DestQPN }},
		{AttrRQPSN, func() { b.RQPSN = a.RQPSN }},
		{AttrSQPSN, func() { b.SQPSN = a.SQPSN }},
		{AttrTimeout, func() { b.Timeout = a.Timeout }},
		{AttrRetryCnt, func() { b.RetryCnt = a.RetryCnt }},
		{AttrRNRRetry, func() { b.RNRRetry = a.RNRRetry }},
		{AttrMaxRdAtomic, func() { b.MaxRdAtomic = a.MaxRdAtomic }},
		{AttrMaxDestRdAtomic, func() { b.MaxDestRdAtomic = a.MaxDestRdAtomic }},
		{AttrMinRNRTimer, func() { b.MinRNRTimer = a.MinRNRTimer }},
	} {
		if mask&c.attr != 0 {
			c.copy()
		}
	}
	q.pkey = q.dev.opt.PKeys[b.PKeyIndex]
	q.mtu = uint32(b.PathMTU)
	if q.typ == dissect.UD {
		q.mtu = uint32(q.dev.mtu)
	}
	if mask&(AttrAV|AttrDestQPN|AttrPKeyIndex) != 0 && b.AH.Dst.IsValid() {
		q.peer = q.dev.pathTo(&b.AH, q.qpn, b.DestQPN)
	}
}

// enter does what a transition does besides changing attributes.
func (q *QP) enter(from, to State) {
	switch {
	case to == RESET:
		q.reset()
	case to == ERROR:
		if from != ERROR {
			q.enterError()
		}
	case to == RTR && from == INIT:
		q.rsp.begin(q)
		q.setState(RTR)
		if q.dev.do.started != nil {
			q.dev.do.started(q)
		}
	case to == RTS && from == RTR:
		q.req.begin(q)
		q.setState(RTS)
		if q.dev.do.started != nil {
			q.dev.do.started(q)
		}
	case to == SQD && from == RTS:
		q.setState(SQD)
		q.req.draining = true
		q.checkDrained()
	case to == SQD: // the depth of the responder may be another
		q.rsp.resize(q)
	default:
		q.setState(to)
		q.look()
	}
}
