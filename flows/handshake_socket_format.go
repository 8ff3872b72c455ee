package flows

import "github.com/rocescope/rocescope/dissect"

// messageFormat takes the messages of one exchange off a TCP stream, of which
// nothing has been read that is not in b.
type messageFormat interface {
	// next deals with the first n bytes of b, which told says what they tell.
	// n = 0: b is too short to tell, and n < 0: there is no message of this
	// format any more.
	next(b []byte, by role) (told socketTold, n int)
	// what are its messages called?
	what() string
}

// role is which side of a TCP connection sends.
type role uint8

const (
	anyRole role = iota
	clientRole
	serverRole
)

// socketTold is what a message tells: of its sender's queue pair, of the other
// side's, or of both.
type socketTold struct {
	own, peer       socketText
	hasOwn, hasPeer bool
	by              role // who sends such a message, where it tells
	ownMTU          int8 // path MTU code; 0 = not told
	peerMTU         int8
}

// maxMessage is the length of the longest message.
const maxMessage = 4 << 10

// formatOfPorts is the described exchange that uses one of the ports.
func (t *socketTable) formatOfPorts(k socketKey) messageFormat {
	for i := range t.described {
		for _, port := range t.described[i].Ports {
			if port == k.loPort || port == k.hiPort {
				return &t.described[i]
			}
		}
	}
	return nil
}

// formatOfBytes is the exchange that a stream's first bytes belong to.
func (t *socketTable) formatOfBytes(data []byte) messageFormat {
	if smcBegins(data) {
		return smcFormat{}
	}
	for i := range t.described {
		if x := &t.described[i]; len(x.Ports) == 0 && x.begins(data) {
			return x
		}
	}
	return nil
}

// role of the side that sends a stream, as far as it is known.
func (fl *socketFlow) role(from int) role {
	server := int(1 - fl.client)
	if fl.client < 0 {
		x, ok := fl.format.(*Exchange)
		if !ok || len(x.Ports) == 0 {
			return anyRole
		}
		server = 0
		for _, port := range x.Ports {
			if port == fl.key.hiPort {
				server = 1
			}
		}
	}
	if from == server {
		return serverRole
	}
	return clientRole
}

// readFormat takes the next bytes of a stream of a known format.
func (t *socketTable) readFormat(fl *socketFlow, from int, p *dissect.Packet, data []byte, dst []handshakeEvent) []handshakeEvent {
	s := &fl.streams[from]
	b := data
	if len(s.held) > 0 {
		s.held = append(s.held, data...)
		t.lateBytes += len(data)
		b = s.held
	}
	for len(b) > 0 && fl.watched {
		told, n := fl.format.next(b, fl.role(from))
		if n < 0 || n == 0 && len(b) > maxMessage {
			t.forget(fl)
			return dst
		}
		if n == 0 {
			break
		}
		b = b[n:]
		if s.quiet += n; told.hasOwn || told.hasPeer {
			s.quiet = 0
			dst = t.told(fl, from, p, &told, dst)
		}
	}
	if !fl.watched {
		return dst
	}
	t.lateBytes += len(b) - len(s.held)
	s.held = append(s.held[:0], b...)
	if t.lateBytes > maxLate || s.quiet > quietExchangeBytes {
		t.forget(fl)
	}
	return dst
}

// told takes a message.
func (t *socketTable) told(fl *socketFlow, from int, p *dissect.Packet, told *socketTold, dst []handshakeEvent) []handshakeEvent {
	switch {
	case fl.client >= 0:
	case told.by == clientRole:
		fl.client = int8(from)
	case told.by == serverRole:
		fl.client = int8(1 - from)
	}
	for side, x := range [2]*socketText{&told.own, &told.peer} {
		has, mtu, of := told.hasOwn, told.ownMTU, from
		if side == 1 {
			has, mtu, of = told.hasPeer, told.peerMTU, 1-from
		}
		if !has {
			continue
		}
		x.frame = p.Number
		if x.gid.IsZero() && x.lid == 0 { // it is where its TCP is
			x.gid = [2]dissect.Addr{fl.key.lo, fl.key.hi}[of]
		}
		if mtu != 0 {
			fl.streams[of].mtu = mtu
		}
	}
	s, o := &fl.streams[from], &fl.streams[1-from]
	switch {
	case told.hasOwn && told.hasPeer:
		return t.pair(fl, from, p, told.own, told.peer, false, dst)
	case !told.hasOwn: // of the other side alone: as if that had said it
		from, s, o = 1-from, o, s
		told.own = told.peer
	}
	s.texts++
	if told.own.form != textSMC {
		return t.text(fl, from, p, told.own, dst)
	}
	s.last = told.own // each side says it once
	if o.texts == 0 {
		return dst
	}
	return t.pair(fl, from, p, s.last, o.last, s.last.inUse || o.last.inUse, dst)
}
