package connect

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// CMConfig is what a CM needs. The zero values of all but Send and Event are the usual ones.
type CMConfig struct {
	GUID  uint64                   // of the channel adapter
	Send  func(frame []byte) error // takes a frame, which is borrowed; what is lost is sent again in time
	Event func(Event)              // is told what happens; it may call the CM's methods but Handle and Tick
	Rand  rand.Source              // of identifiers and PSNs; seeded by the system if nil

	ResponseTimeout uint8         // code of the time in which the other side is to answer, 4.096 µs × 2^n; 0 = 18, 1.07 s
	MaxRetries      uint8         // how often a message is sent again, at most 15; 0 = 7
	AcceptTime      time.Duration // in which the application is to answer a request or a response; 0 = 30 s
	HalfOpenTime    time.Duration // after which a request that was accepted must be established; 0 = 30 s
	TimeWait        time.Duration // for which the numbers of an ended connection stay taken; 0 = 1 s

	MaxConnections int // in all states, each about a kilobyte; 0 = 65536
	MaxPending     int // that others asked for and that are not established; 0 = 4096
}

// CM is communication management, both sides of it (IBA 12): it makes and ends connections by management datagrams on QP 1.
//
// A PSN has another sense in CM's messages than everywhere else: the starting PSN in a REQ or REP is the one that its sender
// expects to receive first. CM turns that round: the PSN in Parameters is always the first that this end sends. So the active
// side's is known when the REP has come, and the passive side's when the REQ has.
//
// Counts and time-outs are in Parameters as each end says them, which is what it asks the other to use: take those of the
// other end.
//
// Memory is bounded: what cannot be kept is refused by a REJ that keeps nothing, and what does not become a connection in
// time is given up.
type CM struct {
	cfg       CMConfig
	rand      *rand.Rand
	listeners map[dissect.ServiceID]func(SIDRRequest) SIDRAnswer // nil for connections
	table     cmTable
	now       int64
	transID   uint64
	psn       dissect.PSN // of QP 1
	stats     CMStats

	dec    dissect.Decoder
	packet dissect.Packet
	craft  dissect.Crafter
	frame  []byte
	mirror dissect.Outer // the way back to the sender of the frame at hand
	vlans  [2]uint16
}

// CMStats counts datagrams and what became of them.
type CMStats struct {
	Received, Sent, SendFailed uint64
	Ignored                    uint64 // no CM message, cut, with a wrong ICRC or queue key, or fitting nothing
	Duplicates                 uint64 // messages that had been answered before, and were again
	Resent                     uint64
	Refused                    uint64 // requests answered by a REJ, or a SIDR_REP with a status
	NoRoom                     uint64 // of these, for want of room
	Connections, Pending       int    // now
}

// Errors of the methods that answer. They come wrapped in what was tried.
var (
	ErrUnknownID = errors.New("there is no such connection (any more)")
	ErrState     = errors.New("the connection is in another state")
	ErrNoRoom    = errors.New("there are as many connections as are allowed")
	ErrTooLong   = errors.New("there is more private data than the message holds")
	ErrListening = errors.New("somebody listens already")
)

// NewCM returns a CM.
func NewCM(cfg CMConfig) (*CM, error) {
	if cfg.Send == nil || cfg.Event == nil {
		return nil, errors.New("connect: a CM needs Send and Event")
	}
	setDefault(&cfg.ResponseTimeout, 18)
	setDefault(&cfg.MaxRetries, 7)
	setDefault(&cfg.AcceptTime, 30*time.Second)
	setDefault(&cfg.HalfOpenTime, 30*time.Second)
	setDefault(&cfg.TimeWait, time.Second)
	setDefault(&cfg.MaxConnections, 64<<10)
	setDefault(&cfg.MaxPending, 4<<10)
	if cfg.ResponseTimeout > 31 || cfg.MaxRetries > 15 {
		return nil, fmt.Errorf("connect: response time-out code %d, %d retries: CM has 5 and 4 bits for them", cfg.ResponseTimeout, cfg.MaxRetries)
	}
	if cfg.Rand == nil {
		var seed [16]byte
		_, _ = crand.Read(seed[:]) // never fails
		cfg.Rand = rand.NewPCG(binary.NativeEndian.Uint64(seed[:8]), binary.NativeEndian.Uint64(seed[8:]))
	}
	m := &CM{cfg: cfg, rand: rand.New(cfg.Rand), listeners: map[dissect.ServiceID]func(SIDRRequest) SIDRAnswer{}}
	m.dec.CheckICRC = true
	m.transID = m.rand.Uint64()
	m.table.init()
	return m, nil
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Listen lets connections to a service in: each comes as an EventRequest. Others are refused as an invalid service ID.
func (m *CM) Listen(service dissect.ServiceID) error { return m.listen(service, nil) }

func (m *CM) listen(service dissect.ServiceID, answer func(SIDRRequest) SIDRAnswer) error {
	if _, taken := m.listeners[service]; taken {
		return fmt.Errorf("connect: listen on %v: %w", service, ErrListening)
	}
	m.listeners[service] = answer
	return nil
}

// Unlisten lets no more in. Connections stay.
func (m *CM) Unlisten(service dissect.ServiceID) { delete(m.listeners, service) }

// Stats returns the counters.
func (m *CM) Stats() CMStats {
	s := m.stats
	s.Connections, s.Pending = len(m.table.byID), m.table.pending
	return s
}

// State returns a connection's state, StateIdle for one that is no more.
func (m *CM) State(id ConnID) CMState {
	if c := m.table.byID[id]; c != nil {
		return c.state
	}
	return StateIdle
}

// Handle takes a frame that came in on QP 1 at a time in nanoseconds, of the clock that Tick and all other methods are told as
// well. The frame is borrowed.
func (m *CM) Handle(frame []byte, at int64) {
	m.now = max(m.now, at)
	p := &m.packet
	m.dec.Decode(dissect.LinkEthernet, frame, len(frame), p)
	msg, ok := p.CM(frame)
	if !ok || !msg.Whole() || !m.sound(p, frame) {
		m.stats.Ignored++
		return
	}
	m.stats.Received++
	m.turnRound(p, frame)
	in := inbound{CM: msg, from: p.Src, to: p.Dst}
	switch msg.Attribute {
	case dissect.CMAttrREQ:
		m.handleREQ(in, msg.Data)
	case dissect.CMAttrREP:
		m.handleREP(in, msg.Data)
	case dissect.CMAttrRTU:
		m.handleRTU(in)
	case dissect.CMAttrREJ:
		m.handleREJ(in, msg.Data)
	case dissect.CMAttrMRA:
		m.handleMRA(in, msg.Data)
	case dissect.CMAttrDREQ:
		m.handleDREQ(in, msg.Data)
	case dissect.CMAttrDREP:
		m.handleDREP(in)
	case dissect.CMAttrSIDRREQ:
		m.handleSIDRREQ(in, msg.Data)
	case dissect.CMAttrSIDRREP:
		m.handleSIDRREP(in, msg.Data)
	default: // LAP and APR: there are no alternate paths
		m.stats.Ignored++
	}
}

// inbound is a message and where it came from.
type inbound struct {
	dissect.CM
	from, to dissect.Addr
}

// sound reports whether a datagram may be taken at its word.
func (m *CM) sound(p *dissect.Packet, frame []byte) bool {
	h := p.MAD(frame)
	return p.Proto == dissect.ProtoRoCEv2 && p.DestQP == 1 && p.QKey == dissect.QP1QKey && p.ICRC == dissect.ICRCValid &&
		h.BaseVersion() == 1 && h.ClassVersion() == cmClassVersion && h.Method() == dissect.MethodSend
}

// turnRound notes the way back to the sender of a frame.
func (m *CM) turnRound(p *dissect.Packet, frame []byte) {
	o := &m.mirror
	copy(o.DstMAC[:], frame[6:12])
	copy(o.SrcMAC[:], frame[:6])
	o.VLANs = m.vlans[:0]
	for _, l := range [...]dissect.Layer{dissect.LayerVLAN, dissect.LayerVLAN2} {
		if p.Has(l) {
			o.VLANs = append(o.VLANs, dissect.VLAN(p.View(frame, l)).TCI())
		}
	}
	o.Src, o.Dst = p.Dst.Netip(), p.Src.Netip()
	o.TrafficClass = p.TrafficClass &^ 3 // the mark of congestion is the frame's own
}

// keepMirror is a copy of the way back that can be kept.
func (m *CM) keepMirror() dissect.Outer {
	o := m.mirror
	o.VLANs = slices.Clone(o.VLANs)
	return o
}

// Tick does what is due at a time, and returns when the next is due, in nanoseconds: math.MaxInt64 if never.
func (m *CM) Tick(now int64) (next int64) {
	m.now = max(m.now, now)
	for {
		c := m.table.due(m.now)
		if c == nil {
			return m.table.next()
		}
		m.expire(c)
	}
}
