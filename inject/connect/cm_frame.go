package connect

import (
	"github.com/rocescope/rocescope/dissect"
)

const (
	cmClassVersion = 2
	madHeaderSize  = 24
	cmDataSize     = 232
	gsiPort        = 55410 // the UDP source port of QP 1, as Linux' soft-RoCE chooses it
)

// begin begins a message of a connection that may have to be sent again: it returns its bytes, all zero.
func (c *cmConn) begin(attr dissect.CMAttribute) []byte {
	c.attr = attr
	clear(c.message[:])
	return c.message[:]
}

// send sends a connection's message.
func (m *CM) send(c *cmConn) {
	copy(m.compose(&c.outer, c.attr, c.transaction), c.message[:])
	m.emit(&c.outer)
}

// compose begins a frame and returns the message's bytes in it, all zero. emit finishes and sends it.
func (m *CM) compose(o *dissect.Outer, attr dissect.CMAttribute, transaction uint64) []byte {
	o.SrcPort = gsiPort
	b := o.AppendTo(m.frame[:0])
	at := len(b)
	b = dissect.AppendTransport(b, dissect.OpUDSendOnly)
	h := dissect.BTH(b[at:])
	h.SetDestQP(1)
	h.SetAckReq(true) // means nothing to a datagram; stacks in software set it here
	h.SetPSN(m.psn)
	m.psn = m.psn.Add(1)
	deth := dissect.DETH(dissect.OpUDSendOnly.Info().View(b[at:], dissect.LayerDETH))
	deth.SetQKey(dissect.QP1QKey)
	deth.SetSrcQP(1)
	at = len(b)
	b = append(b, zeroMAD[:]...)
	mad := dissect.MAD(b[at:])
	mad.SetBaseVersion(1)
	mad.SetClass(dissect.ClassCM)
	mad.SetClassVersion(cmClassVersion)
	mad.SetMethod(dissect.MethodSend)
	mad.SetTransactionID(transaction)
	mad.SetAttribute(uint16(attr))
	m.frame = b
	return mad.Data()
}

var zeroMAD [madHeaderSize + cmDataSize]byte

func (m *CM) emit(o *dissect.Outer) {
	var err error
	if m.frame, err = m.craft.Seal(o, m.frame); err == nil {
		err = m.cfg.Send(m.frame)
	}
	if err != nil {
		m.stats.SendFailed++
		return
	}
	m.stats.Sent++
}

// Which message a REJ or an MRA speaks of.
const (
	aboutREQ   = 0
	aboutREP   = 1
	aboutOther = 2
)

// reject sends a REJ that nobody waits for an answer to.
func (m *CM) reject(o *dissect.Outer, transaction uint64, local, remote uint32, about uint8, reason dissect.RejReason, info, private []byte) {
	rej := dissect.CMREJ(m.compose(o, dissect.CMAttrREJ, transaction))
	rej.SetLocalCommID(local)
	rej.SetRemoteCommID(remote)
	rej.SetMessage(about)
	rej.SetReason(reason)
	rej.SetInfoLen(uint8(copy(rej.Info(), info)))
	copy(rej.Private(), private)
	m.emit(o)
}

// refuse answers a request at once and keeps nothing of it.
func (m *CM) refuse(in inbound, reason dissect.RejReason) {
	m.stats.Refused++
	m.reject(&m.mirror, in.TransactionID, 0, in.LocalCommID(), aboutREQ, reason, nil, nil)
}

// wait tells the other side to wait longer for the answer to its REQ or REP.
func (m *CM) wait(c *cmConn, about uint8) {
	mra := dissect.CMMRA(m.compose(&c.outer, dissect.CMAttrMRA, c.transaction))
	mra.SetLocalCommID(c.id)
	mra.SetRemoteCommID(c.remoteID)
	mra.SetMessage(about)
	mra.SetServiceTimeout(timeoutCode(m.cfg.AcceptTime))
	m.emit(&c.outer)
}
