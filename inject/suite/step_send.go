package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// offer sends a packet and judges what comes of it.
func (r *runner) offer(p *pair, s *Step, x *sent) error {
	if err := r.digest(); err != nil {
		return err
	}
	from := len(r.w.records)
	asked := s.Expect
	info := x.op.Info()
	if len(asked) == 0 {
		switch {
		case info.Role == dissect.Request && x.ack && p.transport == dissect.RC:
			asked = words{outACK}
		default:
			asked = words{outNone}
		}
	}
	x.learn()
	if err := r.l.send(x.frames...); err != nil {
		return err
	}
	if slices.Contains(asked, outNone) {
		if info.Role == dissect.Request && len(x.frames) > 0 && p.follows(x, s) {
			r.accept(p, x)
		}
		_, err := r.await(time.Microsecond, never)
		return err
	}
	patience := r.within(s)
	if slices.Equal(asked, words{outDrop}) {
		patience = max(r.l.quiet, s.Within)
	}
	if _, err := r.await(patience, func() bool { return r.decided(p, x, from) }); err != nil {
		return err
	}
	if _, err := r.await(min(r.l.quiet/10, strayTime), never); err != nil { // an answer too many
		return err
	}
	got := r.judge(p, x, from)
	r.settle(p, x, got)
	if slices.Contains(asked, outAny) || slices.Contains(asked, got.word) && got.wrong == "" {
		return nil
	}
	text := got.text
	if got.wrong != "" {
		text += ": " + got.wrong
	}
	var want []string
	for _, w := range asked {
		want = append(want, w+" ("+outcomeTexts[w]+")")
	}
	r.problem(Problem{
		Kind: "answer", Required: describe(x) + ": " + strings.Join(want, " or "), Seen: got.word + ": " + text,
		Packets: r.packets(from-1, len(r.w.records)),
	})
	return nil
}

// strayTime is for how long at most an answer too many is waited for behind the one that was due.
const strayTime = 20 * time.Millisecond

// follows reports whether the device executes a packet that it does not answer: RC the next one only, UC whatever begins a message.
func (p *pair) follows(x *sent, s *Step) bool {
	if p.transport == dissect.UC && x.op.Info().Starts() {
		return true
	}
	return (p.gap == 0 || s.Late) && !x.psn.Before(p.psn)
}

// learn takes what a rule made of the packet for what was sent.
func (x *sent) learn() {
	if len(x.frames) == 0 {
		return
	}
	var d dissect.Decoder
	var p dissect.Packet
	f := x.frames[0]
	d.Decode(dissect.LinkEthernet, f, len(f), &p)
	if !p.IsTransport() || p.Opcode != x.op {
		return
	}
	x.data, x.psn = slices.Clone(p.Payload(f)), p.PSN
	if p.Has(dissect.LayerRETH) || p.Has(dissect.LayerAtomicETH) {
		x.va = p.VA
	}
	if p.Has(dissect.LayerAtomicETH) {
		x.add, x.compare = p.Swap, p.Compare
	}
}

// settle notes what the device's answer says of its state.
func (r *runner) settle(p *pair, x *sent, got seen) {
	switch got.word {
	case outACK:
		if x.psn == p.psn {
			r.accept(p, x)
		}
		r.pending = nil
	case outInv, outAcc, outOp:
		p.dead = true
		for _, before := range r.pending {
			r.unsure(before)
		}
		r.pending = nil
	}
}

func describe(x *sent) string {
	if len(x.frames) == 0 {
		return "a lost " + x.op.Info().Name
	}
	return fmt.Sprintf("%s, PSN %d", x.op.Info().Name, x.psn)
}
