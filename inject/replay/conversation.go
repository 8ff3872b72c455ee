package replay

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// Packet is a packet of a conversation. Its frame is a copy.
type Packet struct {
	dissect.Packet
	Frame   []byte
	Request bool // else it answers one
}

// Conversation is what one queue pair was asked, and what it answered, in the order of the capture.
type Conversation struct {
	Responder, Requester       dissect.Addr
	ResponderQPN, RequesterQPN uint32 // the requester's is 0 where nothing was answered
	MTU                        int    // path MTU: what the longest packets have, 0 where none tells it
	Packets                    []Packet
	Fresh                      []int // the requests without those that came again, by PSN; Read finds one or more
	Missing                    error // why Fresh is not all that was asked; nil where it is
}

// mostBytes of frames are kept.
const mostBytes = 1 << 30

// Errors of reading.
var (
	ErrNone = errors.New("nobody is asked for anything on an RC queue pair")
	ErrMany = errors.New("several queue pairs are asked")
)

type end struct {
	addr dissect.Addr
	qpn  uint32
}

// Read reads the conversation of the queue pair that is asked under a QPN; 0 = the only one.
func Read(src captures.Source, qpn uint32) (*Conversation, error) {
	all, err := collect(src)
	if err != nil {
		return nil, err
	}
	asked := map[end]int{}
	for i := range all {
		if p := &all[i]; p.Request && (qpn == 0 || p.DestQP == qpn) {
			asked[end{p.Dst, p.DestQP}]++
		}
	}
	switch {
	case len(asked) == 0 && qpn != 0:
		return nil, fmt.Errorf("QP %#06x: %w: no requests to it are in the capture", qpn, ErrNone)
	case len(asked) == 0:
		return nil, ErrNone
	case len(asked) > 1:
		var names []string
		for e, n := range asked {
			names = append(names, fmt.Sprintf("%#06x at %v (%d requests)", e.qpn, e.addr, n))
		}
		slices.Sort(names)
		return nil, fmt.Errorf("%w: %s", ErrMany, strings.Join(names, ", "))
	}
	c := &Conversation{}
	for e := range asked {
		c.Responder, c.ResponderQPN = e.addr, e.qpn
	}
	c.pick(all)
	c.order()
	if len(c.Fresh) == 0 {
		return nil, fmt.Errorf("QP %#06x: %w: the ICRC of each request to it is wrong", c.ResponderQPN, ErrNone)
	}
	return c, nil
}

// collect reads all RC packets.
func collect(src captures.Source) (all []Packet, err error) {
	dec := dissect.Decoder{CheckICRC: true}
	batch := make([]captures.Frame, 256)
	size, number := 0, uint64(0)
	for {
		n, err := src.ReadBatch(batch)
		gerr := captures.Guard(func() error {
			for i := range batch[:n] {
				f := &batch[i]
				number++
				var p Packet
				dec.Decode(f.Link, f.Data, int(f.WireLen), &p.Packet)
				if op := p.Op(); p.Proto != dissect.ProtoRoCEv2 || op.Transport != dissect.RC || !p.Has(dissect.LayerBTH) {
					continue
				}
				if len(f.Data) < int(f.WireLen) {
					return fmt.Errorf("frame %d: only %d of its %d bytes were captured: a replay needs whole packets", number, len(f.Data), f.WireLen)
				}
				if !p.IsTransport() {
					continue // its headers end early: who gets it drops it
				}
				p.Number, p.Time, p.Request = number, f.Time, p.Op().Role != dissect.Response
				p.Frame = slices.Clone(f.Data)
				if size += len(f.Data); size > mostBytes {
					return fmt.Errorf("frame %d: the packets so far have more than %d bytes: cut the capture down first (rocescope show -Y … -w)", number, mostBytes)
				}
				all = append(all, p)
			}
			return nil
		})
		switch {
		case gerr != nil:
			return nil, gerr
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}

// pick keeps the packets of the conversation: the requests, and those answers to the requester's host whose PSNs are asked for most.
func (c *Conversation) pick(all []Packet) {
	psns := map[dissect.PSN]bool{}
	for i := range all {
		p := &all[i]
		if p.Request && p.Dst == c.Responder && p.DestQP == c.ResponderQPN {
			c.Requester = p.Src
			for k := range min(c.packets(p), 1<<12) {
				psns[p.PSN.Add(k)] = true
			}
			if pos := p.Op().Position; pos == dissect.First || pos == dissect.Middle {
				c.MTU = max(c.MTU, p.PayloadLen())
			}
		}
	}
	fits := map[uint32]int{}
	best := 0
	for i := range all {
		if p := &all[i]; !p.Request && p.Src == c.Responder && p.Dst == c.Requester && psns[p.PSN] {
			if fits[p.DestQP]++; fits[p.DestQP] > best {
				best, c.RequesterQPN = fits[p.DestQP], p.DestQP
			}
		}
	}
	for i := range all {
		p := &all[i]
		answer := !p.Request && best > 0 && p.Src == c.Responder && p.Dst == c.Requester && p.DestQP == c.RequesterQPN
		if pos := p.Op().Position; answer && p.Op().Family == dissect.Read && (pos == dissect.First || pos == dissect.Middle) {
			c.MTU = max(c.MTU, p.PayloadLen())
		}
		if answer || p.Request && p.Dst == c.Responder && p.DestQP == c.ResponderQPN {
			c.Packets = append(c.Packets, *p)
		}
	}
}

// packets is how many PSNs a request takes. What READs take beyond one is known where the path MTU is.
func (c *Conversation) packets(p *Packet) int {
	if p.Op().Family != dissect.Read || p.DMALen == 0 {
		return 1
	}
	if c.MTU == 0 && p.DMALen <= 4096 {
		return 1
	}
	mtu := max(c.MTU, 256)
	return (int(p.DMALen) + mtu - 1) / mtu
}

// early is how many requests may be out of order where a capture begins.
const early = 64

// order finds the first transmission of each PSN.
func (c *Conversation) order() {
	first := map[dissect.PSN]int{}
	at, begun := dissect.PSN(0), false
	for i := range c.Packets {
		p := &c.Packets[i]
		if !p.Request || p.ICRC == dissect.ICRCInvalid {
			continue
		}
		if ahead := at.Sub(p.PSN); !begun || len(first) < early && ahead > 0 && ahead < early {
			at, begun = p.PSN, true
		}
		if _, ok := first[p.PSN]; !ok {
			first[p.PSN] = i
		}
	}
	for len(first) > 0 {
		i, ok := first[at]
		if !ok {
			break
		}
		delete(first, at)
		c.Fresh = append(c.Fresh, i)
		at = at.Add(c.packets(&c.Packets[i]))
	}
	for psn, i := range first {
		if psn.After(at) { // older ones are answers to what was asked before the capture, or parts of READs
			c.Missing = fmt.Errorf("the request of PSN %#06x is not in the capture, and that of %#06x is (frame %d)", uint32(at), uint32(psn), c.Packets[i].Number)
		}
	}
}
