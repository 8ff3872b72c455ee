package suite

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

// The outcomes of a crafted packet, in the catalogue's words.
const (
	outACK    = "ACK"
	outDrop   = "DROP"
	outSeq    = "NAK-SEQ"
	outInv    = "NAK-INV"
	outAcc    = "NAK-ACC"
	outOp     = "NAK-OP"
	outRNR    = "RNR"
	outDup    = "DUP-ACK"
	outReplay = "REPLAY"
	outAny    = "ANY"
	outNone   = "UNASKED" // nothing is waited for
)

var outcomeNames = []string{outACK, outDrop, outSeq, outInv, outAcc, outOp, outRNR, outDup, outReplay, outAny, outNone}

var outcomeTexts = map[string]string{
	outACK: "it is executed and acknowledged", outDrop: "silence, and nothing executed", outSeq: "NAK 0x60 with the PSN that is missing",
	outInv: "NAK 0x61", outAcc: "NAK 0x62", outOp: "NAK 0x63", outRNR: "an RNR NAK with its PSN",
	outDup: "an ACK with the newest PSN executed", outReplay: "its answer again", outAny: "anything, as long as the device lives",
}

// seen is what a device answered.
type seen struct {
	word  string
	text  string
	wrong string // what is not right with it, although its kind may be
	fatal bool
}

var nakWords = map[dissect.NAKCode]string{dissect.NAKSequence: outSeq, 1: outInv, 2: outAcc, 3: outOp}

// isAnswer reports whether a record is an answer to a queue pair of ours.
func (p *pair) isAnswer(r *record) bool {
	return !r.ours && r.p.Has(dissect.LayerBTH) && r.p.DestQP == p.local.QPN && r.p.Op().Role == dissect.Response && r.p.Op().Family != dissect.Congestion
}

// decided reports whether the answers so far tell what became of a packet.
func (r *runner) decided(p *pair, x *sent, from int) bool {
	for i := from; i < len(r.w.records); i++ {
		a := &r.w.records[i]
		if !p.isAnswer(a) {
			continue
		}
		op := a.p.Op()
		switch {
		case op.Family == dissect.Acknowledge && a.p.Syndrome.Kind() != dissect.KindACK, op.Family == dissect.AtomicAcknowledge:
			return true
		case op.Family == dissect.Acknowledge:
			if !a.p.PSN.Before(x.psn) || x.psn.Before(p.psn) {
				return true
			}
		case op.Ends():
			return true
		}
	}
	return false
}

// judge says what the answers from a record on are to a packet.
func (r *runner) judge(p *pair, x *sent, from int) (s seen) {
	var acks, naks []*record
	var data []byte
	var reads []*record
	for i := from; i < len(r.w.records); i++ {
		a := &r.w.records[i]
		if !p.isAnswer(a) {
			continue
		}
		op := a.p.Op()
		switch {
		case op.Family == dissect.Acknowledge && a.p.Syndrome.Kind() == dissect.KindACK, op.Family == dissect.AtomicAcknowledge:
			acks = append(acks, a)
		case op.Family == dissect.Acknowledge:
			naks = append(naks, a)
		default:
			reads = append(reads, a)
			data = append(data, a.p.Payload(a.data)...)
		}
		if a.p.ICRC != dissect.ICRCValid {
			s.wrong = "an answer has a wrong ICRC"
		}
	}
	last := x.psn
	duplicate := x.psn.Before(p.psn)
	switch {
	case len(naks) > 0:
		a := naks[0]
		s.text = fmt.Sprintf("%v, PSN %d, MSN %d", a.p.Syndrome, a.p.PSN, a.p.MSN)
		due := x.psn
		switch a.p.Syndrome.Kind() {
		case dissect.KindRNR:
			s.word = outRNR
		case dissect.KindNAK:
			s.word = nakWords[a.p.Syndrome.NAK()]
			s.fatal = s.word != outSeq
			if s.word == outSeq {
				due = p.psn
			}
		}
		if s.word == "" {
			s.word = "a reserved syndrome"
		}
		if len(naks) > 1 {
			s.wrong = fmt.Sprintf("%d NAKs where one is due", len(naks))
		}
		if a.p.PSN != due && !(x.asked > 0 && a.p.PSN.In(x.psn, int(x.span))) {
			s.wrong = fmt.Sprintf("its PSN is %d where %d is due", a.p.PSN, due)
		}
		if a.p.MSN != p.msn {
			s.wrong = cmp.Or(s.wrong, fmt.Sprintf("its MSN is %d where %d is due", a.p.MSN, p.msn))
		}
		return s
	case len(acks)+len(reads) == 0:
		s.word, s.text = outDrop, "nothing"
		return s
	case len(reads) > 0:
		s.word = outACK
		if duplicate {
			s.word = outReplay
		}
		s.text = fmt.Sprintf("%d READ responses with %d bytes, from PSN %d", len(reads), len(data), reads[0].p.PSN)
		s.wrong = cmp.Or(s.wrong, r.checkRead(x, reads, data))
		return s
	}
	a := acks[len(acks)-1]
	msn := p.msn
	s.word = outACK
	if duplicate {
		s.word, last = outDup, p.psn.Add(-1)
		if a.p.Op().Family == dissect.AtomicAcknowledge {
			s.word, last = outReplay, x.psn
		}
	} else if x.op.Info().Ends() {
		msn = msn.Add(1)
	}
	s.text = fmt.Sprintf("%s, PSN %d, MSN %d", a.p.Op().Name, a.p.PSN, a.p.MSN)
	switch {
	case !duplicate && x.psn != p.psn:
		s.wrong = cmp.Or(s.wrong, fmt.Sprintf("a request behind a gap is acknowledged: PSN %d is missing", p.psn))
	case a.p.PSN != last:
		s.wrong = cmp.Or(s.wrong, fmt.Sprintf("its PSN is %d where %d is due", a.p.PSN, last))
	case a.p.MSN != msn:
		s.wrong = cmp.Or(s.wrong, fmt.Sprintf("its MSN is %d where %d is due", a.p.MSN, msn))
	}
	if a.p.Op().Family == dissect.AtomicAcknowledge {
		due, known := p.atomic[x.psn]
		if !duplicate {
			due, known = r.word(x.va), !r.isVague(x.va)
		}
		s.text += fmt.Sprintf(", original value %#x", a.p.Orig)
		if known && a.p.Orig != due {
			s.wrong = cmp.Or(s.wrong, fmt.Sprintf("the original value is %#x where memory has %#x", a.p.Orig, due))
		}
	}
	return s
}

// checkRead says what is wrong with a READ's answer.
func (r *runner) checkRead(x *sent, reads []*record, data []byte) string {
	if len(data) != x.asked {
		return fmt.Sprintf("%d bytes came where %d were asked for", len(data), x.asked)
	}
	for i, a := range reads {
		if want := x.psn.Add(i); a.p.PSN != want {
			return fmt.Sprintf("response %d has PSN %d where %d is due", i+1, a.p.PSN, want)
		}
	}
	if !reads[len(reads)-1].p.Op().Ends() {
		return "the last response is no Last or Only"
	}
	at, inside := r.offset(x.va, len(data))
	if x.key != "" && x.key != "main" || !inside {
		return ""
	}
	for i, b := range data {
		if b != r.model[at+i] && !r.vague[at+i] {
			return fmt.Sprintf("byte %d is %#02x where memory has %#02x", i, b, r.model[at+i])
		}
	}
	return ""
}

// accept notes that the device has executed a packet.
func (r *runner) accept(p *pair, x *sent) {
	p.psn = x.psn.Add(int(x.span))
	if p.gap > 0 {
		p.gap -= min(p.gap, x.span)
	}
	if x.op.Info().Ends() {
		p.msn = p.msn.Add(1)
	}
	if p.index == 0 {
		r.pending = append(r.pending, x)
	}
	if p.transport == dissect.RC {
		p.va = x.va + uint64(len(x.data))
	}
	r.write(p, x)
}

// write does to the model what a packet does to the device's memory.
func (r *runner) write(p *pair, x *sent) {
	at, inside := r.offset(x.va, len(x.data))
	if x.key != "" && x.key != "main" || !inside {
		return
	}
	switch info := x.op.Info(); info.Family {
	case dissect.Write:
		copy(r.model[at:], x.data)
		clear(r.vague[at : at+len(x.data)])
		if p.transport == dissect.UC && info.Position != dissect.Only {
			r.unsure(x) // the message may lose a packet yet
		}
	case dissect.FetchAdd:
		old := r.word(x.va)
		p.atomic[x.psn] = old
		r.setWord(x.va, old+x.add)
	case dissect.CompareSwap:
		old := r.word(x.va)
		p.atomic[x.psn] = old
		if old == x.compare {
			r.setWord(x.va, x.add)
		}
	}
}

// unsure notes that parts of the message under way may have been written or not.
func (r *runner) unsure(x *sent) {
	if at, inside := r.offset(x.va, len(x.data)); inside && x.op.Info().Family == dissect.Write {
		for i := range x.data {
			r.vague[at+i] = true
		}
	}
}

// offset is where n bytes at an address lie in the device's memory, if they do.
func (r *runner) offset(va uint64, n int) (at int, inside bool) {
	if d := va - r.main.VA; va >= r.main.VA && d <= uint64(len(r.model)) && uint64(n) <= uint64(len(r.model))-d {
		return int(d), true
	}
	return 0, false
}

// word is 8 bytes of the model, as processors of today have them.
func (r *runner) word(va uint64) uint64 {
	if at, inside := r.offset(va, 8); inside {
		return binary.LittleEndian.Uint64(r.model[at:])
	}
	return 0
}

func (r *runner) setWord(va, v uint64) {
	if at, inside := r.offset(va, 8); inside {
		binary.LittleEndian.PutUint64(r.model[at:], v)
	}
}

func (r *runner) isVague(va uint64) bool {
	at, inside := r.offset(va, 8)
	return !inside || r.vague[at]
}
