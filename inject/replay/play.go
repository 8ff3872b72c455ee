package replay

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// How the replay waits and gives up.
const (
	window     = 256                          // PSNs that may be on their way, at most
	answerTime = int64(70 * time.Millisecond) // for an answer, before all is sent again from the oldest
	mostTries  = 7
	// defaultDepth is how many READs and atomics may be on their way to who does not tell it.
	defaultDepth = 16
	burst        = 32 // packets of one batch
)

// play sends the requests, and returns when all are answered.
func (p *player) play(ctx context.Context) error {
	began := time.Now()
	p.gates()
	err := p.h.Do(func() error {
		first := p.c.Packets[p.c.Fresh[0]].PSN
		p.una, p.depth = first, int(cmp.Or(p.conn.Remote.ResponderResources, defaultDepth))
		p.shift = p.conn.QP.Divert(p.heard).Sub(first)
		p.outer = p.conn.QP.Outer()
		p.worker.Work = p.work
		p.h.Attach(&p.worker)
		return nil
	})
	if err != nil {
		return err
	}
	defer func() {
		_ = p.h.Do(func() error { p.h.Detach(&p.worker); return nil })
		p.result.Took = time.Since(began)
	}()
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.h.Done():
		return p.h.Err()
	}
}

// gates finds what had been acknowledged in the capture when each request left, and the answers to compare with.
func (p *player) gates() {
	c := p.c
	place := map[int]int{}
	for n, i := range c.Fresh {
		place[i] = n
	}
	first := c.Packets[c.Fresh[0]].PSN
	p.needs = make([]dissect.PSN, len(c.Fresh))
	acked := first
	for i := range c.Packets {
		q := &c.Packets[i]
		if q.Request {
			if n, ok := place[i]; ok {
				// An answer that the tap saw before its request, or one to what comes later, gates nothing.
				p.needs[n] = acked
				if acked.After(q.PSN) {
					p.needs[n] = q.PSN
				}
			}
			continue
		}
		if q.Op().Family != dissect.Acknowledge || q.Syndrome.Kind() == dissect.KindACK {
			if next := q.PSN.Add(1); next.After(acked) {
				acked = next
			}
		}
		if q.Op().Family != dissect.Acknowledge || q.Syndrome.Kind() == dissect.KindNAK && q.Syndrome.NAK() != dissect.NAKSequence {
			p.was[q.PSN] = q
		}
	}
	last := &c.Packets[c.Fresh[len(c.Fresh)-1]]
	p.end = last.PSN.Add(c.packets(last))
}

// work sends what may be sent.
func (p *player) work(now int64) (busy bool) {
	if p.refused || p.una == p.end {
		return false
	}
	if p.wait != 0 {
		if now < p.wait {
			return true
		}
		p.wait = 0
	}
	if p.deadline != 0 && now >= p.deadline {
		if p.retries++; p.retries > mostTries {
			p.finish(fmt.Errorf("frame %d: the request of PSN %#06x (%#06x in the capture) is not answered, though it was sent %d times",
				p.oldest().Number, uint32(p.una.Add(p.shift)), uint32(p.una), mostTries+1))
			return false
		}
		p.back()
	}
	for range burst {
		if p.next == len(p.c.Fresh) {
			break
		}
		q := &p.c.Packets[p.c.Fresh[p.next]]
		if p.needs[p.next].After(p.una) || q.PSN.Sub(p.una) >= window || q.answered() && p.asking() >= p.depth {
			break
		}
		if p.h.Device().SendFrame(p.rewrite(q)) != nil {
			break // the queue is full: later
		}
		if p.next < p.furthest {
			p.result.SentAgain++
		} else {
			p.furthest++
			p.result.Requests++
			p.result.Bytes += uint64(q.PayloadLen())
		}
		p.next++
		if p.deadline == 0 {
			p.deadline = now + answerTime
		}
		busy = true
	}
	return busy
}

// answered reports whether a request has an answer of its own: READs and atomics.
func (q *Packet) answered() bool { return q.Op().Payload == dissect.NoPayload }

// asking is how many of those are on their way.
func (p *player) asking() (n int) {
	for _, i := range p.c.Fresh[p.index():p.next] {
		if p.c.Packets[i].answered() {
			n++
		}
	}
	return n
}

// oldest is the request that una belongs to.
func (p *player) oldest() *Packet { return &p.c.Packets[p.c.Fresh[p.index()]] }

// index is its place.
func (p *player) index() int {
	lo, hi := 0, len(p.c.Fresh)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; p.c.Packets[p.c.Fresh[mid]].PSN.After(p.una) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// back sends again from the oldest request on that is not answered. A READ is asked for whole.
func (p *player) back() {
	p.next = p.index()
	p.una = p.c.Packets[p.c.Fresh[p.next]].PSN
	p.deadline = 0
}

func (p *player) finish(err error) {
	p.refused = true
	select {
	case p.done <- err:
	default:
	}
}

// rewrite makes a captured request one of the connection.
func (p *player) rewrite(q *Packet) []byte {
	op := q.Op()
	b := p.outer.AppendTo(p.buf[:0])
	at := len(b)
	from := q.Offset(dissect.LayerBTH)
	b = append(b, q.Frame[from:from+op.Len]...)
	b = append(b, q.Payload(q.Frame)...)
	bth := dissect.BTH(b[at:])
	bth.SetDestQP(p.conn.Remote.QPN)
	bth.SetPSN(q.PSN.Add(p.shift))
	bth.SetPKey(p.conn.Local.PKey)
	for _, r := range p.place {
		if r.RKey != q.RKey {
			continue
		}
		va := q.VA - r.VA + r.At
		if op.Has(dissect.LayerRETH) {
			h := dissect.RETH(op.View(b[at:], dissect.LayerRETH))
			h.SetVA(va)
			h.SetRKey(p.rkey)
		} else if op.Has(dissect.LayerAtomicETH) {
			h := dissect.AtomicETH(op.View(b[at:], dissect.LayerAtomicETH))
			h.SetVA(va)
			h.SetRKey(p.rkey)
		}
	}
	b, _ = p.craft.Seal(&p.outer, b) // it has a BTH, and is no longer than it was
	p.buf = b
	return b
}

// heard takes an answer, on the host's thread.
func (p *player) heard(frame []byte, now int64) {
	var a dissect.Packet
	p.dec.Decode(dissect.LinkEthernet, frame, len(frame), &a)
	op := a.Op()
	if op.Role != dissect.Response || p.refused {
		return
	}
	p.result.Answers++
	psn := a.PSN.Add(-p.shift)
	if psn.Before(p.una) || !psn.Before(p.end) {
		return
	}
	if op.Family != dissect.Acknowledge {
		p.data(&a, psn, a.Payload(frame))
		return
	}
	switch a.Syndrome.Kind() {
	case dissect.KindACK:
		if at := p.stops(psn.Add(1)); at != psn.Add(1) { // a READ or atomic is not answered
			p.progress(at)
			p.back()
			return
		}
		p.progress(psn.Add(1))
	case dissect.KindRNR:
		p.progress(p.stops(psn))
		p.wait = now + int64(dissect.RNRTimer(a.Syndrome.Value()))
		p.back()
	case dissect.KindNAK:
		p.progress(p.stops(psn))
		if a.Syndrome.NAK() == dissect.NAKSequence {
			p.back()
			return
		}
		p.refuse(&a, psn)
	}
}

// stops is where an acknowledgement of the PSNs before end gets to: at most to the first request that has an answer of its own.
func (p *player) stops(end dissect.PSN) dissect.PSN {
	for n := p.index(); n < len(p.c.Fresh); n++ {
		q := &p.c.Packets[p.c.Fresh[n]]
		if !q.PSN.Before(end) {
			break
		}
		if q.answered() {
			if q.PSN.Before(p.una) {
				return p.una
			}
			return q.PSN
		}
	}
	return end
}

// progress moves una on.
func (p *player) progress(to dissect.PSN) {
	if !to.After(p.una) {
		return
	}
	p.una, p.retries, p.deadline = to, 0, 0
	if p.una == p.end {
		p.finish(nil)
		return
	}
	p.deadline = p.h.Now() + answerTime
}

// data takes a READ response or an atomic's answer.
func (p *player) data(a *dissect.Packet, psn dissect.PSN, payload []byte) {
	if at := p.stops(psn); at.After(p.una) {
		p.progress(at)
	}
	if psn != p.una {
		if psn.After(p.una) {
			p.back()
		}
		return
	}
	if was := p.was[psn]; was != nil {
		switch {
		case was.Op().Family == dissect.Acknowledge:
			p.differ(psn, "answer", was.Syndrome.String(), a.Op().Name)
		case was.Opcode == a.Opcode && a.Op().Family == dissect.AtomicAcknowledge && was.Orig != a.Orig:
			p.differ(psn, "value before", fmt.Sprintf("%#x", was.Orig), fmt.Sprintf("%#x", a.Orig))
		case a.Op().Family == dissect.Read && !bytes.Equal(was.Payload(was.Frame), payload):
			p.differ(psn, "data", head(was.Payload(was.Frame)), head(payload))
		}
	}
	p.progress(psn.Add(1))
}

// head is the beginning of data.
func head(b []byte) string {
	if len(b) > 8 {
		return fmt.Sprintf("% x … (%d bytes)", b[:8], len(b))
	}
	return fmt.Sprintf("% x (%d bytes)", b, len(b))
}

// refuse ends the replay at a request that is refused for good: as in the capture, or not.
func (p *player) refuse(a *dissect.Packet, psn dissect.PSN) {
	if was := p.was[psn]; was != nil && was.Op().Family == dissect.Acknowledge && was.Syndrome == a.Syndrome {
		p.una = psn
		p.finish(nil)
		return
	}
	p.una = psn
	p.differ(psn, "answer", "taken", a.Syndrome.String())
	p.finish(fmt.Errorf("frame %d: the request of PSN %#06x (%#06x in the capture) is refused: %v", p.oldest().Number, uint32(a.PSN), uint32(psn), a.Syndrome))
}

func (p *player) differ(psn dissect.PSN, what, captured, live string) {
	p.result.Differing++
	if len(p.result.Differences) < mostDifferences {
		p.result.Differences = append(p.result.Differences, Difference{p.oldest().Number, psn, what, captured, live})
	}
}
