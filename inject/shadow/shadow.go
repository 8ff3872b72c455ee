package shadow

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/replay"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Report is what came of a comparison.
type Report struct {
	Requests   int            `json:"requests"` // that were given to the RNIC
	Compared   int            `json:"compared"` // answers
	Allowed    map[string]int `json:"allowed"`  // differences that a responder may choose
	Difference *Difference    `json:"difference,omitempty"`
	Ended      string         `json:"ended,omitempty"` // why not all of the capture was compared
}

// Difference is the first answer that is not what the RNIC says.
type Difference struct {
	Frame   uint64      `json:"frame"`   // of the answer; of the request where the device did not answer as it should
	Request uint64      `json:"request"` // frame of the newest request before it
	PSN     dissect.PSN `json:"psn"`
	Fields  []Field     `json:"fields"`
}

// Field is a field of an answer.
type Field struct {
	Name     string `json:"field"`
	Captured string `json:"captured"`
	Shadow   string `json:"shadow"`
}

// Why differences are allowed.
const (
	AllowedTimer     = "another RNR timer"
	AllowedCredits   = "another number of credits"
	AllowedBehindRNR = "a sequence NAK behind an RNR NAK"
	AllowedLoss      = "a sequence NAK for a request that was lost between the capture and the device"
	AllowedAgain     = "the newest MSN in the answer to a request that came again"
)

// said is an answer of the RNIC.
type said struct {
	dissect.Packet
	data []byte
}

// region is where memory of the capture is in the RNIC.
type region struct {
	key   uint32
	moved uint64 // how far behind its address in the capture: what began at 0 there cannot begin there here
}

// shadow is a comparison under way.
type shadow struct {
	c       *replay.Conversation
	dev     *rnic.Device
	far     *port.Memory
	q       *rnic.QP
	cq      *rnic.CQ
	sink    *rnic.MR
	posted  int               // receives that are not completed
	regions map[uint32]region // the RNIC's, by the keys of the capture
	craft   dissect.Crafter
	now     int64
	asked   map[dissect.PSN]int // how often
	top     dissect.MSN         // the newest
	newest  uint64              // frame of the newest request
	rnr     bool                // an RNR NAK was the newest answer
	acks    map[dissect.PSN]dissect.MSN
	naks    map[dissect.PSN]dissect.Syndrome
	answers map[dissect.PSN][]said
	shift   dissect.MSN // of the capture's MSNs
	shifted bool
	report  Report
}

const (
	receives = 4
	room     = 4096 + 14 + 4 + 40 + 8 + 12 + 28 + 4
)

// Run compares. It stops at the first difference.
func Run(c *replay.Conversation) (*Report, error) {
	s := &shadow{
		c: c, acks: map[dissect.PSN]dissect.MSN{}, naks: map[dissect.PSN]dissect.Syndrome{}, answers: map[dissect.PSN][]said{}, regions: map[uint32]region{}, asked: map[dissect.PSN]int{}, now: 1,
		report: Report{Allowed: map[string]int{}},
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	for i := range c.Packets {
		p := &c.Packets[i]
		if p.Request {
			if err := s.ask(i); err != nil {
				return nil, err
			}
		} else {
			s.compare(p)
		}
		if s.report.Difference != nil || s.report.Ended != "" {
			break
		}
	}
	return &s.report, nil
}

// open makes the RNIC that the captured responder was.
func (s *shadow) open() error {
	c := s.c
	first := &c.Packets[c.Fresh[0]]
	if first.Link != dissect.LinkEthernet {
		return errors.New("frames without an Ethernet header cannot be given to an RNIC")
	}
	mtu, longest, length := max(c.MTU, 1024), 1, 0
	for _, i := range c.Fresh {
		p := &c.Packets[i]
		for mtu < p.PayloadLen() && mtu < 4096 {
			mtu *= 2
		}
		if p.Op().Starts() {
			length = 0
		}
		length += p.PayloadLen()
		longest = max(longest, length)
	}
	if c.MTU != 0 {
		mtu = c.MTU
	}
	clock := func() int64 { return s.now }
	near, far := port.Pair(port.MemoryOptions{Slots: 4096, MaxFrame: room, Clock: clock})
	s.far = far
	addrs := []netip.Addr{c.Responder.Netip()}
	var err error
	if s.dev, err = rnic.Open(near, rnic.Options{MAC: [6]byte(first.Frame[:6]), Addrs: addrs, VLAN: uint16(max(first.VLAN(), 0)), Clock: clock}); err != nil {
		return err
	}
	pd := s.dev.AllocPD()
	if s.cq, err = s.dev.CreateCQ(receives + 1); err != nil {
		return err
	}
	if s.sink, err = pd.RegMR(make([]byte, longest), rnic.LocalWrite); err != nil {
		return err
	}
	const access = rnic.LocalWrite | rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic
	regions, err := c.Regions()
	if err != nil {
		return err
	}
	for _, r := range regions {
		mr, err := pd.RegMRAt(r.Before, access|rnic.RemoteInvalidate, r.VA)
		if err != nil {
			return err
		}
		s.regions[r.RKey] = region{mr.RKey(), mr.VA() - r.VA}
	}
	if s.q, err = pd.CreateQP(rnic.QPInit{Type: dissect.RC, SendCQ: s.cq, RecvCQ: s.cq, QPN: c.ResponderQPN, Cap: rnic.QPCap{MaxRecvWR: receives}}); err != nil {
		return err
	}
	a := rnic.Attr{
		State: rnic.INIT, Port: 1, Access: access &^ rnic.LocalWrite, PathMTU: mtu, DestQPN: max(c.RequesterQPN, 2), RQPSN: first.PSN, MaxDestRdAtomic: rnic.MaxRdAtomic,
		MinRNRTimer: 12, AH: rnic.AHAttr{Dst: c.Requester.Netip(), DstMAC: [6]byte(first.Frame[6:12])},
	}
	if err := s.q.Modify(a, rnic.AttrState|rnic.AttrPKeyIndex|rnic.AttrPort|rnic.AttrAccess); err != nil {
		return err
	}
	a.State = rnic.RTR
	return s.q.Modify(a, rnic.AttrState|rnic.AttrAV|rnic.AttrPathMTU|rnic.AttrDestQPN|rnic.AttrRQPSN|rnic.AttrMaxDestRdAtomic|rnic.AttrMinRNRTimer)
}

// ask gives a request to the RNIC, with AckReq, so that it says what it makes of each.
func (s *shadow) ask(i int) error {
	p := &s.c.Packets[i]
	s.newest = p.Number
	s.asked[p.PSN]++
	s.report.Requests++
	frame := slices.Clone(p.Frame)
	if p.ICRC == dissect.ICRCValid {
		op, at := p.Op(), p.Offset(dissect.LayerBTH)
		bth := dissect.BTH(frame[at:])
		bth.SetAckReq(true)
		if to, ok := s.regions[p.RKey]; ok && op.Has(dissect.LayerRETH) {
			h := dissect.RETH(op.View(bth, dissect.LayerRETH))
			h.SetRKey(to.key)
			h.SetVA(p.VA + to.moved)
		} else if ok && op.Has(dissect.LayerAtomicETH) {
			h := dissect.AtomicETH(op.View(bth, dissect.LayerAtomicETH))
			h.SetRKey(to.key)
			h.SetVA(p.VA + to.moved)
		}
		if to, ok := s.regions[p.Imm]; ok && op.Has(dissect.LayerIETH) {
			dissect.IETH(op.View(bth, dissect.LayerIETH)).SetRKey(to.key)
		}
		if err := s.craft.Reseal(dissect.LinkEthernet, frame); err != nil {
			return fmt.Errorf("frame %d: %w", p.Number, err)
		}
	}
	if f := p.Op(); (f.Family == dissect.Send && f.Starts() || f.Family == dissect.Write && f.Flags&dissect.ConsumesReceive != 0) && !s.notReady(i) {
		if err := s.postOne(); err != nil {
			return err
		}
	}
	var slot [1]uint32
	if s.far.Take(slot[:]) == 0 || len(frame) > room {
		return fmt.Errorf("frame %d: %d bytes are more than a frame of RoCE can have", p.Number, len(frame))
	}
	n := copy(s.far.Room(slot[0]), frame)
	if err := s.far.Send([]port.Out{{Slot: slot[0], Len: int32(n)}}); err != nil {
		return err
	}
	for busy := true; busy; {
		var err error
		s.now += 1000
		if busy, err = s.dev.Step(); err != nil {
			return err
		}
		if err := s.listen(p); err != nil {
			return err
		}
	}
	return nil
}

// again reports whether a request comes again behind itself.
func (s *shadow) again(request *replay.Packet) bool {
	for i := range s.c.Packets {
		if p := &s.c.Packets[i]; p.Request && p.Number > request.Number && p.PSN == request.PSN {
			return true
		}
	}
	return false
}

// postOne posts a receive, unless one waits.
func (s *shadow) postOne() error {
	var done [4]rnic.Completion
	if s.posted -= s.cq.Poll(done[:]); s.posted > 0 {
		return nil
	}
	s.posted++
	return s.q.PostRecv(rnic.RecvWR{SGL: []rnic.SGE{s.sink.SGE(0, s.sink.Len())}})
}

// notReady reports whether the captured responder answered this request, at this time, by an RNR NAK.
func (s *shadow) notReady(i int) bool {
	psn := s.c.Packets[i].PSN
	for k := i + 1; k < len(s.c.Packets); k++ {
		p := &s.c.Packets[k]
		switch {
		case p.PSN != psn:
		case p.Request:
			return false
		default:
			return p.Op().Family == dissect.Acknowledge && p.Syndrome.Kind() == dissect.KindRNR
		}
	}
	return false
}

// listen notes what the RNIC says to a request.
func (s *shadow) listen(request *replay.Packet) error {
	var in [64]port.In
	var d dissect.Decoder
	for {
		n, err := s.far.Receive(in[:])
		if err != nil || n == 0 {
			return err
		}
		for _, f := range in[:n] {
			var a said
			d.Decode(dissect.LinkEthernet, f.Data, len(f.Data), &a.Packet)
			if a.Has(dissect.LayerAETH) && a.MSN.Sub(s.top) > 0 {
				s.top = a.MSN
			}
			a.data = slices.Clone(a.Payload(f.Data))
			switch {
			case a.Op().Role != dissect.Response:
			case a.Op().Family != dissect.Acknowledge:
				s.answers[a.PSN] = append(s.answers[a.PSN], a)
				if a.Has(dissect.LayerAETH) {
					s.acks[a.PSN] = a.MSN
				}
			case a.Syndrome.Kind() == dissect.KindACK:
				if _, before := s.acks[a.PSN]; !before {
					s.acks[a.PSN] = a.MSN
				}
			default:
				s.refuses(request, &a)
			}
		}
	}
}

// refuses deals with a NAK of the RNIC: the captured responder is to have sent it as well.
func (s *shadow) refuses(request *replay.Packet, a *said) {
	s.naks[a.PSN] = a.Syndrome
	for i := range s.c.Packets {
		p := &s.c.Packets[i]
		if !p.Request && p.Number > request.Number && p.PSN == a.PSN && p.Op().Family == dissect.Acknowledge && p.Syndrome.Kind() != dissect.KindACK {
			return // compare looks at it
		}
	}
	if a.Syndrome.Kind() == dissect.KindNAK && a.Syndrome.NAK() == dissect.NAKSequence && !s.again(request) {
		s.report.Ended = fmt.Sprintf("frame %d: the request of PSN %#06x before it is not in the capture, or later, and the device had it: the capture is not what the device got",
			request.Number, uint32(a.PSN))
		return
	}
	s.differs(request.Number, a.PSN, Field{"answer", "none, or an acknowledgement", a.Syndrome.String()})
}
