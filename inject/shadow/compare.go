package shadow

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/replay"
)

func (s *shadow) differs(frame uint64, psn dissect.PSN, fields ...Field) {
	if s.report.Difference == nil {
		s.report.Difference = &Difference{frame, s.newest, psn, fields}
	}
}

// compare looks at an answer of the capture.
func (s *shadow) compare(p *replay.Packet) {
	if p.PSN.Before(s.c.Packets[s.c.Fresh[0]].PSN) || s.report.Requests == 0 {
		return // of what was asked before the capture began
	}
	if p.ICRC == dissect.ICRCInvalid {
		return // damaged on the way
	}
	s.report.Compared++
	if p.Op().Family != dissect.Acknowledge {
		s.rnr = false
		s.compareData(p)
		return
	}
	switch p.Syndrome.Kind() {
	case dissect.KindACK:
		s.rnr = false
		s.compareACK(p)
	default:
		s.compareNAK(p)
	}
}

// compareACK: what is acknowledged must have been executed, and the MSN say how many messages were. When to acknowledge is a choice.
func (s *shadow) compareACK(p *replay.Packet) {
	msn, ok := s.acks[p.PSN]
	if !ok {
		ours := "not executed"
		if n, refused := s.naks[p.PSN]; refused {
			ours = n.String()
		}
		s.differs(p.Number, p.PSN, Field{"PSN", fmt.Sprintf("%#06x acknowledged", uint32(p.PSN)), ours})
		return
	}
	if f := s.msn(p, msn); f != nil {
		s.differs(p.Number, p.PSN, *f)
	}
	if p.Syndrome.Value() != dissect.NoCreditInfo {
		s.report.Allowed[AllowedCredits]++
	}
}

// msn compares MSNs. Where the capture begins in the middle of a connection, the first one tells how many messages were before.
func (s *shadow) msn(p *replay.Packet, ours dissect.MSN) *Field {
	if !s.shifted {
		s.shifted, s.shift = true, dissect.MSN(uint32(p.MSN-ours)&0xFFFFFF)
	}
	want := ours.Add(int(s.shift))
	if p.MSN == s.top.Add(int(s.shift)) && p.MSN != want && s.cameAgain(p.PSN) {
		s.report.Allowed[AllowedAgain]++
		return nil
	}
	if p.MSN != want {
		return &Field{"MSN", fmt.Sprint(p.MSN), fmt.Sprint(want)}
	}
	return nil
}

// executed reports whether the RNIC has executed the request of a PSN: where the device asks for it, it was lost on the way there.
func (s *shadow) executed(psn dissect.PSN) bool { return s.asked[psn] > 0 || len(s.answers[psn]) > 0 }

// cameAgain reports whether what a PSN belongs to was asked for more than once.
func (s *shadow) cameAgain(psn dissect.PSN) bool { return s.asked[psn] > 1 || len(s.answers[psn]) > 1 }

// compareNAK: refusals and gaps are the same; how long to wait is a choice.
func (s *shadow) compareNAK(p *replay.Packet) {
	ours, ok := s.naks[p.PSN]
	behind := s.rnr
	s.rnr = p.Syndrome.Kind() == dissect.KindRNR
	switch {
	case ok && ours == p.Syndrome:
	case ok && ours.Kind() == dissect.KindRNR && s.rnr:
		s.report.Allowed[AllowedTimer]++
	case behind && p.Syndrome.Kind() == dissect.KindNAK && p.Syndrome.NAK() == dissect.NAKSequence:
		s.rnr = true
		s.report.Allowed[AllowedBehindRNR]++
	case !ok && p.Syndrome.Kind() == dissect.KindNAK && p.Syndrome.NAK() == dissect.NAKSequence && s.executed(p.PSN):
		s.report.Allowed[AllowedLoss]++
	default:
		text := "no answer"
		if ok {
			text = ours.String()
		} else if _, acked := s.acks[p.PSN]; acked {
			text = "an acknowledgement"
		}
		s.differs(p.Number, p.PSN, Field{"syndrome", p.Syndrome.String(), text})
	}
}

// compareData compares a READ response or an atomic's answer with that of the RNIC for its PSN; of several, because the request came
// again, with the one that is most like it.
func (s *shadow) compareData(p *replay.Packet) {
	var best []Field
	found := false
	for i := range s.answers[p.PSN] {
		fields := s.fields(p, &s.answers[p.PSN][i])
		if !found || len(fields) < len(best) {
			best, found = fields, true
		}
	}
	switch {
	case !found:
		s.differs(p.Number, p.PSN, Field{"answer", p.Op().Name, "none: nothing of this PSN was asked for, or it was refused"})
	case len(best) > 0:
		s.differs(p.Number, p.PSN, best...)
	}
}

// fields are the fields that differ.
func (s *shadow) fields(p *replay.Packet, ours *said) (all []Field) {
	if p.Opcode != ours.Opcode {
		all = append(all, Field{"opcode", p.Op().Name, ours.Op().Name})
	}
	if p.Has(dissect.LayerAETH) && ours.Has(dissect.LayerAETH) {
		if f := s.msn(p, ours.MSN); f != nil {
			all = append(all, *f)
		}
		if p.Syndrome.Kind() != ours.Syndrome.Kind() {
			all = append(all, Field{"syndrome", p.Syndrome.String(), ours.Syndrome.String()})
		}
	}
	if p.Has(dissect.LayerAtomicAckETH) && ours.Has(dissect.LayerAtomicAckETH) && p.Orig != ours.Orig {
		all = append(all, Field{"original value", fmt.Sprintf("%#x", p.Orig), fmt.Sprintf("%#x", ours.Orig)})
	}
	data := p.Payload(p.Frame)
	if len(data) != len(ours.data) {
		return append(all, Field{"payload length", fmt.Sprint(len(data)), fmt.Sprint(len(ours.data))})
	}
	for i := range data {
		if data[i] != ours.data[i] {
			return append(all, Field{fmt.Sprintf("payload byte %d", i), fmt.Sprintf("%#02x", data[i]), fmt.Sprintf("%#02x", ours.data[i])})
		}
	}
	return all
}
