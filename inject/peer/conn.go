package peer

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Way is how two sides get to know each other.
type Way uint8

// The ways; docs/connect.md describes them.
const (
	ByExchange Way = iota
	ByPerftest
	ByPingpong
	ByCM
	ByHand
	numWays
)

var wayNames = [numWays]string{"exchange", "perftest", "pingpong", "CM", "by hand"}

func (w Way) String() string {
	if w < numWays {
		return wayNames[w]
	}
	return "unknown"
}

// Maker makes the queue pairs of connections, on the host's thread.
type Maker interface {
	// PD is the protection domain of the queue pairs.
	PD() *rnic.PD
	// Make makes the i-th queue pair, in state RESET, and says which memory the other side is told.
	Make(i int, transport dissect.Transport) (*rnic.QP, connect.Memory, error)
	// Prepare is called in state INIT: receives may be posted.
	Prepare(c *Conn) error
}

// Conn is one end of a connection.
type Conn struct {
	Index         int
	QP            *rnic.QP
	Local, Remote connect.Parameters
	AH            *rnic.AH // where datagrams go
}

// Depths and times where nobody says others.
const (
	defaultTimeout = 14 // 67 ms, as perftest has it
	defaultRetries = 7
	defaultDepth   = 16
	minRNRTimer    = 12
)

// complete sets what an own queue pair asks of the other side where nothing else was asked for.
func complete(p *connect.Parameters) {
	p.AckTimeout = cmp.Or(p.AckTimeout, defaultTimeout)
	p.RetryCount = cmp.Or(p.RetryCount, defaultRetries)
	p.RNRRetryCount = cmp.Or(p.RNRRetryCount, defaultRetries)
	p.ResponderResources = cmp.Or(p.ResponderResources, defaultDepth)
	p.InitiatorDepth = cmp.Or(p.InitiatorDepth, defaultDepth)
	p.PKey = cmp.Or(p.PKey, dissect.DefaultPKey)
}

// make makes a queue pair and takes it to INIT, on the host's thread. base is what every one of the conversation tells.
func (h *Host) make(m Maker, i int, base connect.Parameters) (*Conn, error) {
	qp, memory, err := m.Make(i, base.Transport)
	if err != nil {
		return nil, err
	}
	c := &Conn{Index: i, QP: qp, Local: base}
	c.Local.QPN, c.Local.Memory = qp.QPN(), memory
	a := rnic.Attr{State: rnic.INIT, Port: 1, Access: rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic, QKey: base.QKey}
	mask := rnic.AttrState | rnic.AttrPKeyIndex | rnic.AttrPort
	switch base.Transport {
	case dissect.UD:
		mask |= rnic.AttrQKey
	case dissect.UC:
		a.Access = rnic.RemoteWrite
		fallthrough
	default:
		mask |= rnic.AttrAccess
	}
	err = qp.Modify(a, mask)
	if err == nil {
		err = m.Prepare(c)
	}
	if err != nil {
		return nil, errors.Join(err, qp.Destroy())
	}
	return c, nil
}

// connect takes the queue pair to RTS by what the other side told, on the host's thread.
func (h *Host) connect(m Maker, c *Conn, remote connect.Parameters, mac [6]byte) error {
	c.Remote = remote
	_, sgid, err := h.local(remote.Address)
	if err != nil {
		return err
	}
	ah := rnic.AHAttr{Dst: remote.Address, DstMAC: mac, SGIDIndex: sgid, FlowLabel: remote.FlowLabel}
	a := rnic.Attr{
		State: rnic.RTR, AH: ah, PathMTU: cmp.Or(remote.MTU, c.Local.MTU), DestQPN: remote.QPN, RQPSN: remote.PSN, MinRNRTimer: minRNRTimer,
		// As many as were offered, whatever the other side said that it needs: soft-RoCE has more out than that behind a loss.
		MaxDestRdAtomic: int(max(c.Local.ResponderResources, 1)), SQPSN: c.Local.PSN,
		Timeout: cmp.Or(remote.AckTimeout, c.Local.AckTimeout), RetryCnt: min(remote.RetryCount, 7), RNRRetry: min(remote.RNRRetryCount, 7),
		MaxRdAtomic: int(cmp.Or(min(c.Local.InitiatorDepth, cmp.Or(remote.ResponderResources, defaultDepth)), 1)),
	}
	rtr, rts := rnic.AttrState, rnic.AttrState|rnic.AttrSQPSN
	switch c.QP.Type() {
	case dissect.RC:
		rtr |= rnic.AttrMaxDestRdAtomic | rnic.AttrMinRNRTimer
		rts |= rnic.AttrTimeout | rnic.AttrRetryCnt | rnic.AttrRNRRetry | rnic.AttrMaxRdAtomic
		fallthrough
	case dissect.UC:
		rtr |= rnic.AttrAV | rnic.AttrPathMTU | rnic.AttrDestQPN | rnic.AttrRQPSN
	case dissect.UD:
		if c.AH, err = m.PD().CreateAH(ah); err != nil {
			return err
		}
	}
	if err := c.QP.Modify(a, rtr); err != nil {
		return fmt.Errorf("QP %#06x to RTR: %w", c.Local.QPN, err)
	}
	a.State = rnic.RTS
	if err := c.QP.Modify(a, rts); err != nil {
		return fmt.Errorf("QP %#06x to RTS: %w", c.Local.QPN, err)
	}
	return nil
}

// untold puts the own counts in the place of those that the other side did not tell, where 0 means that.
func (c *Conn) untold(remote *connect.Parameters) {
	remote.RetryCount = cmp.Or(remote.RetryCount, c.Local.RetryCount)
	remote.RNRRetryCount = cmp.Or(remote.RNRRetryCount, c.Local.RNRRetryCount)
}

// close ends the queue pair, on the host's thread.
func (c *Conn) close() error {
	_ = c.QP.Modify(rnic.Attr{State: rnic.ERROR}, rnic.AttrState) // one that is there already does not mind
	return c.QP.Destroy()
}

// base is what all queue pairs of a conversation with a peer tell.
func (h *Host) base(p connect.Parameters, peer netip.Addr) (connect.Parameters, error) {
	var err error
	if !p.Address.IsValid() {
		if p.Address, _, err = h.local(peer); err != nil {
			return p, err
		}
	}
	if p.Transport == dissect.UD && p.QKey == 0 {
		p.QKey = connect.PerftestQKey
	}
	p.MTU = min(cmp.Or(p.MTU, 1024), h.dev.MTU())
	complete(&p)
	return p, nil
}
