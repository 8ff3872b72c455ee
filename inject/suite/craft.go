package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
)

// opcodes finds opcodes by their token.
var opcodes = sync.OnceValue(func() map[string]dissect.Opcode {
	all := map[string]dissect.Opcode{}
	for _, o := range dissect.Opcodes() {
		if o.Defined() {
			all[o.Token] = o.Code
		}
	}
	return all
})

// sent is a crafted packet.
type sent struct {
	op      dissect.Opcode
	psn     dissect.PSN
	span    uint32 // PSNs that it takes
	va      uint64
	data    []byte // payload
	asked   int    // bytes that a READ asks for
	key     string
	add     uint64
	compare uint64
	ack     bool
	frames  [][]byte // that go out
}

// memory is what the device told of its memory of a name.
func (p *pair) memory(key string, l *link) (Numbers, error) {
	switch key {
	case "", "main":
		return p.remote, nil
	case "own": // of the device's view: ours
		return p.local, nil
	}
	n, ok := p.keys[key]
	if !ok {
		return n, fmt.Errorf("%w: it tells no memory %q", ErrUnsupported, key)
	}
	return n, nil
}

// craft makes the packet of a step.
func (r *runner) craft(p *pair, s *Step) (*sent, error) {
	op := opcodes()[s.Send]
	info := op.Info()
	x := &sent{op: op, key: s.Key, add: s.Add, span: 1}
	n := 64
	switch {
	case s.Length != nil:
		n = *s.Length
	case info.Position == dissect.First || info.Position == dissect.Middle:
		n = p.mtu
	}
	if info.Family == dissect.Read && info.Role == dissect.Request {
		x.asked, n = n, 0
		x.span = uint32(max(1, (x.asked+p.mtu-1)/p.mtu))
	}
	if info.Payload == dissect.NoPayload {
		n = 0
	}
	mem, err := p.memory(s.Key, r.l)
	if err != nil {
		return nil, err
	}
	x.psn = p.psn.Add(int(p.gap) + int(s.PSN))
	if s.Late {
		x.psn = p.psn.Add(int(s.PSN))
	}
	x.data = make([]byte, n)
	pattern(x.data, uint32(x.psn)*2246822519+uint32(r.salt))
	r.salt++
	dma := uint32(n + x.asked)
	if s.Total > 0 {
		dma = uint32(s.Total)
	}
	if s.DMALen != nil {
		dma = uint32(*s.DMALen)
	}
	x.va = mem.VA + uint64(s.At)
	if info.Has(dissect.LayerRETH) && info.Role == dissect.Request {
		p.va = x.va
	} else if info.Position == dissect.Middle || info.Position == dissect.Last {
		x.va = p.va
	}
	x.ack = info.Ends() && info.Role == dissect.Request
	if s.AckReq != nil {
		x.ack = *s.AckReq
	}
	o := p.outer
	b := o.AppendTo(make([]byte, 0, 128+n))
	at := len(b)
	b = dissect.AppendTransport(b, op)
	t := b[at:]
	bth := dissect.BTH(t)
	bth.SetDestQP(p.remote.QPN)
	bth.SetPSN(x.psn)
	bth.SetAckReq(x.ack)
	bth.SetMigReq(p.transport != dissect.UD) // as hardware has it
	for _, layer := range info.Headers {
		v := info.View(t, layer)
		switch layer {
		case dissect.LayerRETH:
			h := dissect.RETH(v)
			h.SetVA(x.va)
			h.SetRKey(mem.RKey)
			h.SetDMALen(dma)
		case dissect.LayerAtomicETH:
			h := dissect.AtomicETH(v)
			h.SetVA(x.va)
			h.SetRKey(mem.RKey)
			h.SetSwapAdd(s.Add)
			x.compare = r.word(x.va)
			if s.Cmp != nil {
				x.compare = *s.Cmp
			}
			if strings.Contains(s.Send, "COMPARE") {
				h.SetCompare(x.compare)
			}
		case dissect.LayerImmDt:
			dissect.ImmDt(v).SetData(s.Imm)
		case dissect.LayerIETH:
			dissect.IETH(v).SetRKey(mem.RKey)
		case dissect.LayerDETH:
			dissect.DETH(v).SetQKey(suiteQKey)
			dissect.DETH(v).SetSrcQP(p.local.QPN)
		case dissect.LayerAETH:
			dissect.AETH(v).SetSyndrome(dissect.Syndrome(or(s.Synd, 0x1F)))
			dissect.AETH(v).SetMSN(dissect.MSN(s.MSN) & 0xFFFFFF)
		}
	}
	if info.Role == dissect.Response { // a PSN of the device's
		bth.SetPSN(dissect.PSN(p.remote.PSN).Add(int(s.PSN)))
	}
	b = append(b, x.data...)
	if b, err = r.crafter.Seal(&o, b); err != nil {
		return nil, err
	}
	x.frames = [][]byte{b}
	return x, r.strike(x, s)
}

// strike does to a packet what the step's fields and rule say.
func (r *runner) strike(x *sent, s *Step) error {
	var texts []string
	if len(s.Set) > 0 {
		text := "set"
		for _, k := range slices.Sorted(maps.Keys(s.Set)) {
			text += " " + k + "=" + s.Set[k]
		}
		texts = append(texts, text)
	}
	if s.Fault != "" {
		text := s.Fault
		if f := fault.Find(strings.Fields(text)[0]); f != nil && strings.Contains(f.Rule, "nth=") && !strings.Contains(text, "nth=") {
			text += " nth=1"
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		set, err := rules([]string{text + " way=out"}, r.seed+uint64(r.salt))
		if err != nil {
			return err
		}
		lane := set.Start(9200, r.l.clock())[fault.Out]
		var out [][]byte
		for _, f := range x.frames {
			passes := lane.Look(r.l.clock(), f, nil)
			for _, h := range lane.Before {
				out = append(out, slices.Clone(h.Bytes()))
			}
			if passes {
				out = append(out, f)
			}
			for _, h := range lane.Behind {
				out = append(out, slices.Clone(h.Bytes()))
			}
		}
		lane.Publish()
		if c := lane.Counts(); len(c) == 0 || c[0].Struck == 0 || c[0].Failed > 0 {
			return fmt.Errorf("the rule %q does not suit the packet", text)
		}
		x.frames = out
	}
	return nil
}
