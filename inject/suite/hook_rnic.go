package suite

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Sizes of a device's memory.
const (
	regionSize = 64 << 10
	otherSize  = 4096 // of the regions with other rights
	recvSlots  = 64
)

// operationNames are the operations that can be posted.
var operationNames = []string{"write", "write-imm", "read", "send", "send-imm", "compare-swap", "fetch-add"}

var operations = map[string]rnic.Op{
	"write": rnic.OpWrite, "write-imm": rnic.OpWriteImm, "read": rnic.OpRead, "send": rnic.OpSend, "send-imm": rnic.OpSendImm,
	"compare-swap": rnic.OpCompareSwap, "fetch-add": rnic.OpFetchAdd,
}

// RNIC is the hook of our own RNIC.
type RNIC struct {
	dev    *rnic.Device
	do     func(func() error) error // on the device's thread
	mac    func(netip.Addr) ([6]byte, error)
	pd     *rnic.PD
	other  *rnic.PD
	rand   *rand.Rand
	region *rnic.MR
	source *rnic.MR
	sink   *rnic.MR
	keys   map[string]*rnic.MR
	qps    map[string]*rnicQP
}

type rnicQP struct {
	qp           *rnic.QP
	send, recv   *rnic.CQ
	srq          *rnic.SRQ
	recvMR       *rnic.MR
	recvSize     int
	nextRecv     int
	badRecv      bool
	c            Command // create's
	psn          uint32
	offset, sunk int
}

// NewRNIC makes the hook of a device. do has something done by the thread that steps it (nil: whoever calls is that thread), and mac
// finds neighbours that a command names without their MAC.
func NewRNIC(d *rnic.Device, seed uint64, do func(func() error) error, mac func(netip.Addr) ([6]byte, error)) (*RNIC, error) {
	if do == nil {
		do = func(f func() error) error { return f() }
	}
	h := &RNIC{dev: d, do: do, mac: mac, rand: rand.New(rand.NewPCG(seed, 0x5eed))}
	return h, h.begin()
}

// begin makes the memory.
func (h *RNIC) begin() error {
	h.pd, h.other = h.dev.AllocPD(), h.dev.AllocPD()
	h.qps, h.keys = map[string]*rnicQP{}, map[string]*rnic.MR{}
	all := rnic.LocalWrite | rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic
	for _, m := range []struct {
		to     **rnic.MR
		pd     *rnic.PD
		size   int
		access rnic.Access
		key    string
	}{
		{&h.region, h.pd, regionSize, all, ""},
		{&h.source, h.pd, regionSize, rnic.LocalWrite, ""},
		{&h.sink, h.pd, regionSize, rnic.LocalWrite, ""},
		{nil, h.other, otherSize, all, "foreign"},
		{nil, h.pd, otherSize, rnic.LocalWrite | rnic.RemoteRead, "readonly"},
		{nil, h.pd, otherSize, rnic.LocalWrite | rnic.RemoteWrite, "writeonly"},
		{nil, h.pd, otherSize, all, "stale"},
		{nil, h.pd, otherSize, all, "doomed"},
		{nil, h.pd, otherSize, all | rnic.RemoteInvalidate, "invalidatable"},
	} {
		mem := make([]byte, m.size)
		pattern(mem, h.rand.Uint32())
		mr, err := m.pd.RegMR(mem, m.access)
		if err != nil {
			return err
		}
		if m.to != nil {
			*m.to = mr
		} else {
			h.keys[m.key] = mr
		}
	}
	return h.keys["stale"].Deregister()
}

// pattern fills memory.
func pattern(b []byte, seed uint32) {
	x := seed | 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
}

// Do implements Device.
func (h *RNIC) Do(c *Command) (a *Answer, err error) {
	var remote [6]byte
	if c.Do == "connect" && c.Remote != nil && c.Remote.MAC == "" && h.mac != nil {
		addr, err := netip.ParseAddr(c.Remote.Address)
		if err != nil {
			return nil, err
		}
		if remote, err = h.mac(addr); err != nil {
			return nil, err
		}
	}
	err = h.do(func() error {
		a, err = h.obey(c, remote)
		return err
	})
	return a, err
}

// Close implements Device.
func (h *RNIC) Close() error { return nil }

func (h *RNIC) obey(c *Command, mac [6]byte) (*Answer, error) {
	switch c.Do {
	case "hello":
		return &Answer{Name: "rocescope's software RNIC"}, nil
	case "create":
		return h.create(c)
	case "reset":
		for name := range h.qps {
			if err := h.destroy(name); err != nil {
				return nil, err
			}
		}
		return &Answer{}, h.begin()
	case "counters":
		return &Answer{Counters: counters(h.dev.Counters())}, nil
	case "memory":
		return h.memory(c)
	case "deregister":
		mr := h.keys[c.Memory]
		if mr == nil {
			return nil, fmt.Errorf("no memory is called %q", c.Memory)
		}
		return &Answer{}, mr.Deregister()
	}
	q := h.qps[c.QP]
	if q == nil {
		return nil, fmt.Errorf("no queue pair is called %q", c.QP)
	}
	switch c.Do {
	case "connect":
		return &Answer{}, h.connect(q, c, mac)
	case "receive":
		return &Answer{}, q.receive(c.Receives)
	case "post":
		return &Answer{}, h.post(q, c)
	case "completions":
		return q.completions(), nil
	case "modify":
		return &Answer{}, q.qp.Modify(rnic.Attr{State: rnic.ERROR}, rnic.AttrState)
	case "destroy":
		return &Answer{}, h.destroy(c.QP)
	}
	return nil, ErrUnsupported
}

func (h *RNIC) create(c *Command) (*Answer, error) {
	if h.qps[c.QP] != nil {
		if err := h.destroy(c.QP); err != nil {
			return nil, err
		}
	}
	q := &rnicQP{c: *c, recvSize: max(c.ReceiveSize, 1), badRecv: c.BadReceive}
	var err error
	if q.send, err = h.dev.CreateCQ(1024); err != nil {
		return nil, err
	}
	if q.recv, err = h.dev.CreateCQ(max(c.CQ, 1)); err != nil {
		return nil, err
	}
	mem := make([]byte, recvSlots*q.recvSize)
	if q.recvMR, err = h.pd.RegMR(mem, rnic.LocalWrite); err != nil {
		return nil, err
	}
	init := rnic.QPInit{Type: transports[c.Transport], SendCQ: q.send, RecvCQ: q.recv, Cap: rnic.QPCap{MaxSendWR: 512, MaxRecvWR: recvSlots}}
	if c.SRQ {
		if q.srq, err = h.pd.CreateSRQ(recvSlots, 1); err != nil {
			return nil, err
		}
		init.SRQ = q.srq
	}
	if q.qp, err = h.pd.CreateQP(init); err != nil {
		return nil, err
	}
	h.qps[c.QP] = q
	a := rnic.Attr{State: rnic.INIT, Port: 1, QKey: suiteQKey}
	for _, name := range c.Access {
		a.Access |= map[string]rnic.Access{"write": rnic.RemoteWrite, "read": rnic.RemoteRead, "atomic": rnic.RemoteAtomic}[name]
	}
	mask := rnic.AttrState | rnic.AttrPKeyIndex | rnic.AttrPort
	if init.Type == dissect.UD {
		mask |= rnic.AttrQKey
	} else {
		mask |= rnic.AttrAccess
		if init.Type == dissect.UC {
			a.Access &= rnic.RemoteWrite
		}
	}
	if err := q.qp.Modify(a, mask); err != nil {
		return nil, err
	}
	if err := q.receive(c.Receives); err != nil {
		return nil, err
	}
	q.psn = h.rand.Uint32() & 0xFFFFFF
	if c.PSN != nil {
		q.psn = *c.PSN
	}
	addrs := h.dev.Addrs()
	addr := addrs[slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Is4() != c.IPv6 })]
	mac := h.dev.MAC()
	numbers := func(mr *rnic.MR) Numbers {
		return Numbers{
			Address: addr.String(), MAC: macText(mac), QPN: q.qp.QPN(), PSN: q.psn, RKey: mr.RKey(), VA: mr.VA(), Length: mr.Len(),
		}
	}
	main := numbers(h.region)
	if c.Huge > 0 && h.keys["huge"] == nil {
		if h.keys["huge"], err = h.pd.RegMR(make([]byte, c.Huge), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead); err != nil {
			return nil, err
		}
	}
	answer := &Answer{Numbers: &main, Keys: map[string]Numbers{"receive": numbers(q.recvMR)}}
	for name, mr := range h.keys {
		answer.Keys[name] = numbers(mr)
	}
	return answer, nil
}

// suiteQKey is the queue key of the suite's UD queue pairs.
const suiteQKey = 0x51117e

var transports = map[string]dissect.Transport{"": dissect.RC, "RC": dissect.RC, "UC": dissect.UC, "UD": dissect.UD}

func macText(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

func (q *rnicQP) receive(n int) error {
	for range n {
		at := q.nextRecv % recvSlots * q.recvSize
		s := q.recvMR.SGE(at, q.recvSize)
		if q.badRecv {
			s.LKey ^= 0xFF
		}
		wr := rnic.RecvWR{ID: uint64(q.nextRecv), SGL: []rnic.SGE{s}}
		var err error
		if q.srq != nil {
			err = q.srq.PostRecv(wr)
		} else {
			err = q.qp.PostRecv(wr)
		}
		if err != nil {
			return err
		}
		q.nextRecv++
	}
	return nil
}

func (h *RNIC) connect(q *rnicQP, c *Command, mac [6]byte) error {
	if c.Remote == nil {
		return fmt.Errorf("connect without a remote")
	}
	dst, err := netip.ParseAddr(c.Remote.Address)
	if err != nil {
		return err
	}
	if c.Remote.MAC != "" {
		if mac, err = parseMAC(c.Remote.MAC); err != nil {
			return err
		}
	}
	gid := slices.IndexFunc(h.dev.Addrs(), func(a netip.Addr) bool { return a.Is4() == dst.Is4() })
	a := rnic.Attr{
		Port: 1, AH: rnic.AHAttr{Dst: dst, DstMAC: mac, SGIDIndex: max(gid, 0)}, PathMTU: q.c.MTU, DestQPN: c.Remote.QPN,
		RQPSN: dissect.PSN(c.Remote.PSN), SQPSN: dissect.PSN(q.psn), Timeout: uint8(c.Timeout), RetryCnt: uint8(c.Retries),
		RNRRetry: uint8(c.RNRRetries), MinRNRTimer: uint8(c.RNRTimer), MaxRdAtomic: max(q.c.DeviceDepth, 1), MaxDestRdAtomic: max(q.c.Depth, 1), QKey: suiteQKey,
	}
	return raise(q.qp, a)
}

// raise takes a queue pair from INIT to RTS.
func raise(q *rnic.QP, a rnic.Attr) error {
	rtr, rts := rnic.AttrState, rnic.AttrState|rnic.AttrSQPSN
	if q.Type() != dissect.UD {
		rtr |= rnic.AttrAV | rnic.AttrPathMTU | rnic.AttrDestQPN | rnic.AttrRQPSN
	}
	if q.Type() == dissect.RC {
		rtr |= rnic.AttrMaxDestRdAtomic | rnic.AttrMinRNRTimer
		rts |= rnic.AttrTimeout | rnic.AttrRetryCnt | rnic.AttrRNRRetry | rnic.AttrMaxRdAtomic
	}
	a.State = rnic.RTR
	if err := q.Modify(a, rtr); err != nil {
		return err
	}
	a.State = rnic.RTS
	return q.Modify(a, rts)
}

func (h *RNIC) post(q *rnicQP, c *Command) error {
	op, ok := operations[c.Operation]
	if !ok {
		return fmt.Errorf("no operation is called %q", c.Operation)
	}
	for i := range max(c.Count, 1) {
		wr := rnic.SendWR{ID: uint64(i), Op: op, Flags: rnic.Signaled, RKey: c.RKey, CompareAdd: c.Add, Imm: uint32(i + 1)}
		if c.VA != 0 {
			wr.RemoteVA = c.VA + uint64(i*c.Length)%regionSize
		}
		n, mr, at := c.Length, h.source, &q.offset
		switch op {
		case rnic.OpCompareSwap:
			n, wr.CompareAdd, wr.Swap = 8, c.Compare, c.Add
			wr.RemoteVA = c.VA
			mr, at = h.sink, &q.sunk
		case rnic.OpFetchAdd:
			n, wr.RemoteVA = 8, c.VA
			mr, at = h.sink, &q.sunk
		case rnic.OpRead:
			mr, at = h.sink, &q.sunk
		}
		if *at+n > regionSize {
			*at = 0
		}
		s := mr.SGE(*at, n)
		if c.BadKey {
			s.LKey ^= 0xFF
		}
		*at += n
		if n > 0 {
			wr.SGL = []rnic.SGE{s}
		}
		if err := q.qp.PostSend(wr); err != nil {
			return err
		}
	}
	return nil
}

func (q *rnicQP) completions() *Answer {
	a := &Answer{State: q.qp.State().String()}
	var buf [64]rnic.Completion
	for _, cq := range []*rnic.CQ{q.send, q.recv} {
		for {
			n := cq.Poll(buf[:])
			for _, c := range buf[:n] {
				a.Completions = append(a.Completions, Completion{
					Status: statusWord(c.Status), Receive: cq == q.recv, Length: int(c.ByteLen), Imm: c.Imm,
				})
			}
			if n == 0 {
				break
			}
		}
	}
	return a
}

func statusWord(s rnic.Status) string { return strings.TrimPrefix(s.String(), "IBV_WC_") }

func (h *RNIC) memory(c *Command) (*Answer, error) {
	mr := map[string]*rnic.MR{"": h.region, "region": h.region, "source": h.source, "sink": h.sink}[c.Memory]
	if mr == nil {
		mr = h.keys[c.Memory]
	}
	if q := h.qps[c.QP]; q != nil && c.Memory == "receive" {
		mr = q.recvMR
	}
	if mr == nil {
		return nil, fmt.Errorf("no memory is called %q", c.Memory)
	}
	mem := mr.Bytes()
	n := max(c.Length, len(c.Data))
	if c.Offset < 0 || n < 0 || c.Offset+n > len(mem) {
		return nil, fmt.Errorf("%s has %d bytes: %d at %d are beyond", c.Memory, len(mem), n, c.Offset)
	}
	part := mem[c.Offset : c.Offset+n]
	if len(c.Data) > 0 {
		copy(part, c.Data)
		return &Answer{}, nil
	}
	return &Answer{Data: slices.Clone(part)}, nil
}

func (h *RNIC) destroy(name string) error {
	q := h.qps[name]
	_ = q.qp.Modify(rnic.Attr{State: rnic.ERROR}, rnic.AttrState)
	delete(h.qps, name)
	return q.qp.Destroy()
}

// counters are a device's counters by their names in Linux.
func counters(c rnic.Counters) map[string]int64 {
	all := map[string]int64{
		"packet_seq_err": int64(c.PacketSeqErr), "implied_nak_seq_err": int64(c.ImpliedNakSeqErr), "local_ack_timeout_err": int64(c.LocalAckTimeoutErr),
		"rnr_nak_retry_err": int64(c.RnrNakRetryErr), "duplicate_request": int64(c.DuplicateRequest), "out_of_sequence": int64(c.OutOfSequence),
		"out_of_buffer": int64(c.OutOfBuffer), "np_cnp_sent": int64(c.NpCnpSent), "np_ecn_marked_roce_packets": int64(c.NpEcnMarked), "rp_cnp_handled": int64(c.RpCnpHandled),
	}
	for i, n := range c.Dropped {
		all["dropped: "+rnic.Drop(i).String()] = int64(n)
	}
	return all
}
