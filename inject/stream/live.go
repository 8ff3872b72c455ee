package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// ErrNotLive: the stream is none that live frames can be. The error says why.
var ErrNotLive = errors.New("live frames cannot be this stream")

// notLive says why, and what to do about it.
func notLive(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotLive, fmt.Sprintf(why, args...))
}

// Messages describes the stream to a port that makes its frames by itself (port.Live): the same frames in the same order as
// Run sends over one port. Of what a stream can be that is a part: one operation of one size, without anything that depends on
// answers. The error says what stands in its way.
func (s *Stream) Messages() (port.Messages, error) {
	p := s.plan
	c := &p.config
	switch {
	case len(c.Mix) > 1:
		return port.Messages{}, notLive("it is a mix of %d operations, and they are one", len(c.Mix))
	case len(c.Mix[0].Sizes.values) > 1:
		return port.Messages{}, notLive("its messages have several sizes, and theirs is one")
	case c.Window > 0:
		return port.Messages{}, notLive("a window waits for acknowledgements, and the kernel's program sees none")
	}
	m := &p.mixes[0].ops[0].shapes[0]
	switch m.operation.family {
	case dissect.Acknowledge, dissect.Congestion, dissect.CompareSwap:
		return port.Messages{}, notLive("%s has more that counts than PSN, address and immediate data", m.operation.Name)
	}
	var kinds []*template
	for k := range m.packets {
		if k == 0 || k == 1 || k == m.packets-1 {
			kinds = append(kinds, m.packet(k))
		}
		if k <= len(m.middles) || k == m.packets-1 { // of the middle ones each once
			of, first := m.packet(k).payload, m.packet(0).payload
			if string(of) != string(first[:min(len(of), len(first))]) {
				return port.Messages{}, notLive("the packets of a message differ in their payload: take zeros, or messages of one packet")
			}
		}
	}
	out := port.Messages{Segments: m.packets, PSNStep: 1, RandomVA: c.Access == Random, Interleave: c.Interleave}
	if m.packets == 1 {
		out.PSNStep = m.psns
	}
	for i := range p.qps {
		q := &p.qps[i]
		to := port.MessageQP{PSN: q.psn, VA: q.va, VAStep: uint64(m.size), VASpan: 1 << 63, Seed: q.random}
		switch c.Access {
		case Ring:
			to.VASpan = c.Region
		case Random:
			size := uint64(m.size)
			to.VAStep, to.VASpan = 64, (c.Region-min(size, c.Region))/64+1 // as plan.place has it
		}
		for _, t := range kinds {
			var v values
			if m.operation.family == dissect.FetchAdd {
				v[valSwapLo] = 1
			}
			room := make([]byte, max(t.length(), leastRoom))
			t.write(room)
			t.patch(room, &q.values, &v, &memo{key: t.key(&q.values)})
			to.Frames = append(to.Frames, room[:t.length()])
		}
		out.QPs = append(out.QPs, to)
	}
	return out, nil
}

const (
	// liveQuantum is how far apart calls to a generator are, at a rate: each may take more than a millisecond, whatever it sends.
	liveQuantum = 5 * time.Millisecond
	liveMost    = 1 << 17
)

// generate has a generator send what Messages described, and takes note of it.
func (w *sender) generate(g port.Generator) error {
	c := &w.plan.config
	m := &w.plan.mixes[0].ops[0].shapes[0]
	total, sent := uint64(1<<63), uint64(0)
	if c.Count > 0 {
		total = c.Count * uint64(len(w.qps)) * uint64(m.packets)
	}
	chunk := w.chunk()
	defer func() { w.account(m, sent) }()
	for sent < total && !w.stream.halt.Load() {
		now := c.Clock.Now()
		if now >= w.stream.until {
			break
		}
		if w.pacer.renew(now) {
			chunk = w.chunk()
		}
		if d, ok := w.pacer.ready(now); !ok {
			c.Clock.Wait(d)
			continue
		}
		n, err := g.Run(int(min(uint64(chunk), total-sent)))
		sent += uint64(n)
		w.last = c.Clock.Now()
		before := w.byOp[0].bytes
		w.byOp[0] = m.ofAll(sent, uint64(len(w.qps)), c.Interleave)
		w.pacer.spend(n, w.byOp[0].bytes-before)
		w.publish()
		if err != nil {
			return err
		}
	}
	return nil
}

// chunk is how many packets a generator makes at a time, at the rate as it is.
func (w *sender) chunk() int {
	if n := w.plan.config.Burst; n > 0 {
		return n
	}
	n := w.pacer.burst(float64(w.plan.longest), liveMost)
	if n > 1 { // one by one they are made without much ado
		n = min(liveMost, n*int(liveQuantum/paceQuantum))
	}
	return n
}

// account gives each QP its part of what was sent, turn by turn.
func (w *sender) account(m *shape, sent uint64) {
	n, packets := uint64(len(w.qps)), uint64(m.packets)
	for i, q := range w.qps {
		i := uint64(i)
		var frames uint64
		if w.plan.config.Interleave {
			frames = sent / n
			if i < sent%n {
				frames++
			}
		} else {
			whole := sent / packets
			frames = whole / n * packets
			switch {
			case i < whole%n:
				frames += packets
			case i == whole%n:
				frames += sent % packets
			}
		}
		q.fresh, q.packet = frames/packets, int(frames%packets)
		q.msg = message{shape: m, index: q.fresh}
		q.sent = q.fresh*uint64(m.psns) + frames%packets
	}
}

// ofAll is what so many frames are together that n QPs took turns with.
func (m *shape) ofAll(sent, n uint64, interleave bool) tally {
	if !interleave {
		return m.ofOne(sent, 1)
	}
	a, b := m.ofOne(sent/n, n-sent%n), m.ofOne(sent/n+1, sent%n)
	return tally{messages: a.messages + b.messages, packets: a.packets + b.packets, bytes: a.bytes + b.bytes, payload: a.payload + b.payload}
}

// ofOne is what so many frames of messages in a row are, for each of some QPs.
func (m *shape) ofOne(frames, qps uint64) tally {
	whole, rest := frames/uint64(m.packets)*qps, frames%uint64(m.packets)
	t := tally{messages: whole, packets: frames * qps}
	add := func(of *template, n uint64) {
		t.bytes += n * uint64(of.length())
		t.payload += n * uint64(len(of.payload))
	}
	add(m.last, whole)
	if m.packets > 1 {
		add(m.first, whole+min(rest, 1)*qps)
	}
	if m.packets > 2 {
		add(m.packet(1), whole*uint64(m.packets-2)+(max(rest, 1)-1)*qps)
	}
	return t
}
