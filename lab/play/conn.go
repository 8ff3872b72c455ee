package play

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Conn is a queue pair with memory and calls that wait for their completions.
type Conn struct {
	n      *Node
	qp     *rnic.QP
	cq     *rnic.CQ
	mr     *rnic.MR
	id     connect.ConnID
	events chan connect.Event // what CM tells of it
	got    []rnic.Completion  // receives that came while something else was waited for

	peer connect.Parameters
	ah   *rnic.AH
}

const depth = 64

// newConn makes a queue pair with size bytes of memory, in state RESET.
func (n *Node) newConn(t dissect.Transport, size int) (*Conn, error) {
	c := &Conn{n: n, events: make(chan connect.Event, 16)}
	var err error
	if c.cq, err = n.dev.CreateCQ(4 * depth); err != nil {
		return nil, err
	}
	if c.mr, err = n.pd.RegMR(make([]byte, size), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead); err != nil {
		return nil, err
	}
	c.qp, err = n.pd.CreateQP(rnic.QPInit{
		Type: t, SendCQ: c.cq, RecvCQ: c.cq, SigAll: true, Cap: rnic.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSGE: 1},
	})
	return c, err
}

// init lets receives be posted.
func (c *Conn) init() error {
	a := rnic.Attr{State: rnic.INIT, Port: 1}
	mask := rnic.AttrState | rnic.AttrPKeyIndex | rnic.AttrPort
	if c.qp.Type() == dissect.UD {
		a.QKey = connect.PerftestQKey
		return c.qp.Modify(a, mask|rnic.AttrQKey)
	}
	a.Access = rnic.RemoteWrite | rnic.RemoteRead
	return c.qp.Modify(a, mask|rnic.AttrAccess)
}

// connect takes the queue pair to RTS.
func (c *Conn) connect(local, remote connect.Parameters) error {
	c.peer = remote
	ah := rnic.AHAttr{Dst: remote.Address, DstMAC: c.n.o.PeerMAC, FlowLabel: remote.FlowLabel}
	if c.qp.Type() == dissect.UD {
		var err error
		if c.ah, err = c.n.pd.CreateAH(ah); err != nil {
			return err
		}
		if err := c.qp.Modify(rnic.Attr{State: rnic.RTR}, rnic.AttrState); err != nil {
			return err
		}
		return c.qp.Modify(rnic.Attr{State: rnic.RTS, SQPSN: local.PSN}, rnic.AttrState|rnic.AttrSQPSN)
	}
	a := rnic.Attr{
		State: rnic.RTR, AH: ah, PathMTU: local.MTU, DestQPN: remote.QPN, RQPSN: remote.PSN, SQPSN: local.PSN, MinRNRTimer: 12,
		Timeout: c.n.o.Timeout, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
	}
	rtr := rnic.AttrState | rnic.AttrAV | rnic.AttrPathMTU | rnic.AttrDestQPN | rnic.AttrRQPSN
	rts := rnic.AttrState | rnic.AttrSQPSN
	if c.qp.Type() == dissect.RC {
		rtr |= rnic.AttrMaxDestRdAtomic | rnic.AttrMinRNRTimer
		rts |= rnic.AttrTimeout | rnic.AttrRetryCnt | rnic.AttrRNRRetry | rnic.AttrMaxRdAtomic
	}
	if err := c.qp.Modify(a, rtr); err != nil {
		return err
	}
	a.State = rnic.RTS
	return c.qp.Modify(a, rts)
}

func (c *Conn) postRecv(offset, length int) error {
	return c.qp.PostRecv(rnic.RecvWR{ID: uint64(offset), SGL: []rnic.SGE{c.mr.SGE(offset, length)}})
}

// send, write and read do one thing and wait until it is done.
func (c *Conn) send(offset, length int) error {
	wr := rnic.SendWR{Op: rnic.OpSend, SGL: []rnic.SGE{c.mr.SGE(offset, length)}}
	if c.ah != nil {
		wr.AH, wr.DstQP, wr.QKey = c.ah, c.peer.QPN, connect.PerftestQKey
	}
	return c.request(wr)
}

func (c *Conn) write(offset, length int, va uint64, rkey uint32) error {
	return c.request(rnic.SendWR{Op: rnic.OpWrite, SGL: []rnic.SGE{c.mr.SGE(offset, length)}, RemoteVA: va, RKey: rkey})
}

func (c *Conn) read(offset, length int, va uint64, rkey uint32) error {
	return c.request(rnic.SendWR{Op: rnic.OpRead, SGL: []rnic.SGE{c.mr.SGE(offset, length)}, RemoteVA: va, RKey: rkey})
}

func (c *Conn) request(wr rnic.SendWR) error {
	if err := c.qp.PostSend(wr); err != nil {
		return err
	}
	for {
		done, err := c.next()
		if err != nil {
			return fmt.Errorf("%v: %w", wr.Op, err)
		}
		if done.Op < rnic.CompRecv {
			return nil
		}
		c.got = append(c.got, done)
	}
}

// recv waits for a receive, and returns where it was put and how long it is.
func (c *Conn) recv() (offset, length int, err error) {
	if len(c.got) == 0 {
		done, err := c.next()
		if err != nil {
			return 0, 0, fmt.Errorf("receive: %w", err)
		}
		if done.Op < rnic.CompRecv {
			return 0, 0, fmt.Errorf("a completion of %v, which nobody waits for", done.Op)
		}
		c.got = append(c.got, done)
	}
	done := c.got[0]
	c.got = c.got[1:]
	return int(done.ID), int(done.ByteLen), nil
}

var (
	errSilence      = errors.New("nothing completed in time")
	errDisconnected = errors.New("the other side disconnected")
	errFlushed      = errors.New("completed with IBV_WC_WR_FLUSH_ERR: work request flushed")
)

// next waits for a completion.
func (c *Conn) next() (rnic.Completion, error) {
	late := time.NewTimer(Patience)
	defer late.Stop()
	var one [1]rnic.Completion
	for {
		c.cq.ReqNotify(false)
		if c.cq.Poll(one[:]) == 1 {
			if one[0].Status == rnic.WRFlushErr {
				return one[0], errFlushed
			}
			if one[0].Status != rnic.Success {
				return one[0], fmt.Errorf("completed with %v: %s", one[0].Status, one[0].Status.Text())
			}
			return one[0], nil
		}
		select {
		case <-c.cq.Ready():
		case e := <-c.events:
			if e.Kind == connect.EventDisconnected {
				return one[0], errDisconnected
			}
		case <-late.C:
			return one[0], errSilence
		}
	}
}

// fill writes printable text of any kind into a part of the memory, and returns it.
func (c *Conn) fill(offset, length int) []byte {
	b := c.mr.Bytes()[offset:][:length]
	for i := range b {
		b[i] = byte('!' + rand.IntN('~'-'!'+1))
	}
	return b
}
