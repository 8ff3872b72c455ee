package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Options say how to replay.
type Options struct {
	Request peer.Request   // how to connect; Maker and QPs are set here
	Memory  connect.Memory // where the connection does not tell it
	Empty   bool           // leave the target's memory as it is, instead of making it what the capture's held
}

// Result is what came of it.
type Result struct {
	Requests    int           `json:"requests"`
	Bytes       uint64        `json:"bytes"`
	SentAgain   int           `json:"packets_sent_again"`
	Answers     int           `json:"answers"`
	Took        time.Duration `json:"took_ns"`
	Differences []Difference  `json:"differences"` // from the answers of the capture; at most a hundred
	Differing   int           `json:"differing"`
	Regions     []Placed      `json:"memory"`
}

// Placed says where a region of the capture was in the target's memory.
type Placed struct {
	RKey   uint32 `json:"rkey"`
	VA     uint64 `json:"va"`
	Length int    `json:"length"`
	At     uint64 `json:"at"`
}

// Difference is an answer that is not what the capture has.
type Difference struct {
	Frame    uint64      `json:"frame"` // of the request
	PSN      dissect.PSN `json:"psn"`   // in the capture
	What     string      `json:"what"`
	Captured string      `json:"captured"`
	Live     string      `json:"live"`
}

const mostDifferences = 100

// player is a replay under way. What is below the blank line is the host's thread's.
type player struct {
	h      *peer.Host
	c      *Conversation
	o      Options
	pd     *rnic.PD
	cq     *rnic.CQ
	mr     *rnic.MR
	conn   *peer.Conn
	outer  dissect.Outer
	rkey   uint32
	place  []Placed
	needs  []dissect.PSN // by fresh request: PSNs before this one were acknowledged in the capture when it left
	was    map[dissect.PSN]*Packet
	worker peer.Worker
	done   chan error

	craft    dissect.Crafter
	dec      dissect.Decoder
	depth    int         // READs and atomics that may be on their way
	shift    int         // from PSNs of the capture to those of the connection
	una      dissect.PSN // all in PSNs of the capture
	next     int         // request
	furthest int
	end      dissect.PSN
	wait     int64
	deadline int64
	retries  int
	refused  bool
	buf      []byte
	result   Result
}

// Run replays a conversation over a connection of its own.
func Run(ctx context.Context, h *peer.Host, c *Conversation, o Options) (*Result, error) {
	if c.Missing != nil {
		return nil, c.Missing
	}
	regions, err := c.Regions()
	if err != nil {
		return nil, err
	}
	p := &player{h: h, c: c, o: o, pd: h.Device().AllocPD(), was: map[dissect.PSN]*Packet{}, done: make(chan error, 1)}
	longest := 1
	for _, r := range regions {
		longest = max(longest, len(r.Before))
	}
	err = h.Do(func() (err error) {
		if p.cq, err = h.Device().CreateCQ(16); err == nil {
			p.mr, err = p.pd.RegMR(make([]byte, longest), rnic.LocalWrite)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	o.Request.QPs, o.Request.Maker = 1, p
	if o.Request.Local.MTU == 0 {
		o.Request.Local.MTU = max(c.MTU, 256)
		if c.MTU == 0 {
			o.Request.Local.MTU = 1024
		}
	}
	s, err := h.Dial(ctx, o.Request)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p.conn = s.Conns[0]
	if mtu := p.conn.QP.Query().PathMTU; c.MTU != 0 && mtu != c.MTU {
		return nil, fmt.Errorf("the connection's path MTU is %d, and that of the capture %d: its packets cannot be the same", mtu, c.MTU)
	}
	if err := p.placeAll(regions); err != nil {
		return nil, err
	}
	if !o.Empty {
		if err := p.prepare(ctx, regions); err != nil {
			return nil, fmt.Errorf("make the target's memory what it was: %w", err)
		}
	}
	if _, err := s.Ready(0); err != nil {
		return nil, err
	}
	if err := p.play(ctx); err != nil {
		return &p.result, err
	}
	_, err = s.Finish(connect.PerftestResults{})
	return &p.result, err
}

// PD implements peer.Maker.
func (p *player) PD() *rnic.PD { return p.pd }

// Make implements peer.Maker.
func (p *player) Make(_ int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	qp, err := p.pd.CreateQP(rnic.QPInit{Type: t, SendCQ: p.cq, RecvCQ: p.cq, Cap: rnic.QPCap{MaxSendWR: 8}})
	return qp, connect.Memory{}, err
}

// Prepare implements peer.Maker.
func (p *player) Prepare(*peer.Conn) error { return nil }

// placeAll finds a place for each region in the memory that the target has, at the same offset in a page.
func (p *player) placeAll(regions []*Region) error {
	m := p.conn.Remote.Memory
	if !p.o.Memory.IsZero() {
		m = p.o.Memory
	}
	p.rkey = m.RKey
	const page = 4096
	at := m.VA
	for _, r := range regions {
		at += (r.VA - at) % page
		p.place = append(p.place, Placed{r.RKey, r.VA, len(r.Before), at})
		at += uint64(len(r.Before))
	}
	if len(regions) > 0 && m.IsZero() {
		return errors.New("the target told no memory: --memory rkey=…,va=…,length=… says where some is")
	}
	if m.Length > 0 && at-m.VA > m.Length {
		return fmt.Errorf("the capture's requests need %d bytes of memory, and the target has %d", at-m.VA, m.Length)
	}
	p.result.Regions = p.place
	return nil
}

// prepare writes what the capture's memory held before.
func (p *player) prepare(ctx context.Context, regions []*Region) error {
	for i, r := range regions {
		if len(bytes.Trim(r.Before, "\x00")) == 0 && !p.c.reads() {
			continue // nobody looks at it before it is written
		}
		copy(p.mr.Bytes(), r.Before)
		err := p.conn.QP.PostSend(rnic.SendWR{
			Op: rnic.OpWrite, Flags: rnic.Signaled, SGL: []rnic.SGE{p.mr.SGE(0, len(r.Before))}, RemoteVA: p.place[i].At, RKey: p.rkey,
		})
		if err != nil {
			return err
		}
		var done [1]rnic.Completion
		for p.cq.Poll(done[:]) == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			time.Sleep(100 * time.Microsecond)
		}
		if done[0].Status != rnic.Success {
			return fmt.Errorf("WRITE of %d bytes: %v", len(r.Before), done[0].Status)
		}
	}
	return nil
}

// reads reports whether something is asked for that memory holds.
func (c *Conversation) reads() bool {
	for _, i := range c.Fresh {
		if c.Packets[i].answered() {
			return true
		}
	}
	return false
}
